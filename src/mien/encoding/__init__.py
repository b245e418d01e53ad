"""Encodes photos: bytes -> upright pixels -> face -> aligned crop -> views -> embeddings."""

import os

# otherwise ONNX Runtime reports its use to Microsoft, and stores an id of this machine
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

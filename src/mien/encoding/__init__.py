"""Photo bytes -> upright pixels -> face -> aligned crop -> views -> embeddings."""

import os

# nothing leaves this machine: ONNX Runtime would otherwise report its use to its maker, and keep an id of the machine
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

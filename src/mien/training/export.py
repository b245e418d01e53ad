"""Writes a trained encoder, networks and manifest, as a folder for `mien encode --encoder`."""

from __future__ import annotations

import re
from pathlib import Path

from mien.encoding.manifest import NAME, Channels, EncoderManifest, ModelManifest, Scaling
from mien.encoding.store import MANIFEST, StoredEncoder, sha256_of, write_whole
from mien.errors import InvalidFileError
from mien.training.cut import CutNetwork, FeatureLayer, joined

ARCFACE_INPUT = Scaling(channels="RGB", mean=(127.5, 127.5, 127.5), deviation=(127.5, 127.5, 127.5))


def check_name(folder: Path) -> None:
    """Refuses a folder whose name cannot be an encoder's, before any work is done."""
    if not re.fullmatch(NAME, folder.resolve().name):
        raise InvalidFileError(
            folder, ["the folder's name becomes the encoder's: use letters, digits, '.', '_' and '-'"]
        )


def write_encoder(
    folder: Path,
    name: str,
    network: CutNetwork,
    layer: FeatureLayer,
    scaling: Scaling,
    trained_on: Channels,
    detector: StoredEncoder,
    source: str,
) -> StoredEncoder:
    """Writes the trunk with the trained layer as one network, the detector, and the manifest of both."""
    content = joined(network.trunk, layer)
    model = ModelManifest(
        name=name,
        file=f"{name}.onnx",
        sha256=sha256_of(content),
        input=scaling,
        licence="that of the base network and of the photos it was trained on",
        source=source,
        dimensions=len(layer.weight),
        trained_on=trained_on,
    )
    manifest = EncoderManifest(
        name=folder.resolve().name, detector=detector.manifest.detector, models=(model,), trained_on_syndromes=True
    )
    write_whole(folder / model.file, content)
    write_whole(folder / manifest.detector.file, detector.content("detector"))
    write_whole(folder / MANIFEST, manifest.model_dump_json(indent=2, exclude_none=True).encode())
    return StoredEncoder(manifest, folder)

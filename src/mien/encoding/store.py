"""Finds, loads and stores encoders: manifests that come with mien, and folders of a manifest and its networks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
from pydantic import ValidationError

from mien.core.embeddings import Encoder
from mien.encoding.alignment import CROP_SIDE
from mien.encoding.detection import OUTPUT_WIDTHS, Detector
from mien.encoding.device import chosen_device, onnxruntime_report
from mien.encoding.manifest import EncoderManifest
from mien.encoding.network import Device, Network, check_network
from mien.encoding.photo_encoder import PhotoEncoder
from mien.errors import InvalidFileError, WeightsError, shown

DEFAULT = "mobilefacenet"
MANIFEST = "encoder.json"


@dataclass(frozen=True)
class StoredEncoder:
    """A manifest, and the folder where its networks are or will be."""

    manifest: EncoderManifest
    folder: Path

    @property
    def address(self) -> str:
        """The encoder's name, or its folder where it is outside of the cache."""
        return self.manifest.name if self.folder == cache_folder() / self.manifest.name else str(self.folder)

    def missing(self) -> tuple[str, ...]:
        """The roles whose network is not there yet."""
        parts = self.manifest.parts.items()
        return tuple(role for role, part in parts if part.sha256 is None or not (self.folder / part.file).is_file())

    def damaged(self) -> tuple[str, ...]:
        """The roles whose network has another hash than in the manifest."""
        missing = self.missing()
        there = [role for role in self.manifest.parts if role not in missing]
        return tuple(role for role in there if sha256_of(self._bytes(role)) != self.manifest.parts[role].sha256)

    def load(self, device: str = "cpu") -> PhotoEncoder:
        """Loads the networks; every file is checked first."""
        if missing := self.missing():
            raise WeightsError(f"the encoder {self.address} lacks {', '.join(missing)}: {self._advice(missing)}")
        chosen = chosen_device(device, onnxruntime_report)
        models = tuple(self._network(model.name, [model.dimensions], chosen) for model in self.manifest.models)
        return PhotoEncoder(self.manifest, self.load_detector(chosen), models)

    def load_detector(self, device: Device = "cpu") -> Detector:
        """Loads the network that finds faces; its file is checked first."""
        return Detector(self._network("detector", OUTPUT_WIDTHS, device), self.manifest.detector)

    def _network(self, role: str, widths: Sequence[int], device: Device) -> Network:
        return Network(self.content(role), str(self.folder / self.manifest.parts[role].file), widths, device=device)

    def _bytes(self, role: str) -> bytes:
        path = self.folder / self.manifest.parts[role].file
        try:
            return path.read_bytes()
        except OSError as error:
            raise InvalidFileError(path, [f"{error.strerror}: {self._advice([role])}"]) from error

    def content(self, role: str) -> bytes:
        """A network's bytes, checked: the hash of the manifest, and nothing but a network."""
        part = self.manifest.parts[role]
        content = self._bytes(role)
        if sha256_of(content) != part.sha256:
            path = self.folder / part.file
            raise WeightsError(f"{path} is not the file of the manifest, its SHA-256 differs: {self._advice([role])}")
        check_network(content, part.file)
        return content

    def holds_another(self, role: str, content: bytes) -> bool:
        """Whether another, undamaged network is stored for this role."""
        part = self.manifest.parts.get(role)
        there = part is not None and (self.folder / part.file).is_file() and role not in self.damaged()
        return there and self._bytes(role) != content

    def put(self, role: str, content: bytes) -> StoredEncoder:
        """Stores a network. Where a published one is expected, another is refused."""
        part = self.manifest.parts.get(role)
        if part is None:
            raise WeightsError(
                f"{self.manifest.name} has no part {shown(role)}: its parts are {', '.join(self.manifest.parts)}"
            )
        check_network(content, role)
        sha256 = sha256_of(content)
        if part.made_from is not None and sha256 != part.sha256:
            raise WeightsError(f"this is not the published {self.manifest.name}/{role}: its SHA-256 is {sha256}")
        manifest = self.manifest.with_hashes({role: sha256})
        self._try_out(role, content)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / part.file, content)
        write_whole(self.folder / MANIFEST, manifest.model_dump_json(indent=2, exclude_none=True).encode())
        return StoredEncoder(manifest, self.folder)

    def _try_out(self, role: str, content: bytes) -> None:
        """Runs a network on a black picture: its output must have the shape of the manifest."""
        side, widths = self.manifest.detector.longer_side, OUTPUT_WIDTHS
        if role != "detector":
            side, widths = CROP_SIDE, (self.manifest.encoder.dimensions,)
        Network(content, role, widths).run(np.zeros((1, 3, side, side), dtype=np.float32))

    def _advice(self, roles: Sequence[str]) -> str:
        if all(self.manifest.parts[role].made_from for role in roles):
            return f"run `mien weights get {self.address}`"
        return f"run `mien weights convert FILE --as {self.address}/{roles[0]}`, see `mien weights list`"


def cache_folder() -> Path:
    """Where networks are kept: $MIEN_CACHE, or mien's part of the user's cache."""
    try:
        if given := os.environ.get("MIEN_CACHE"):
            return Path(given).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mien"
    except RuntimeError as error:  # no home directory
        raise WeightsError("there is no home to keep weights in: set MIEN_CACHE to a folder") from error


def known_names() -> list[str]:
    """The names of the encoders that come with mien, and of those that were put into the cache."""
    built_in = resources.files("mien.encoding") / "manifests"
    names = [file.name.removesuffix(".json") for file in built_in.iterdir() if file.name.endswith(".json")]
    folder = cache_folder()
    names += [path.parent.name for path in folder.glob(f"*/{MANIFEST}")] if folder.is_dir() else []
    return sorted(set(names))


def stored_encoder(name: str) -> StoredEncoder:
    """An encoder by its name, or by the path of its folder or manifest."""
    built_in = resources.files("mien.encoding") / "manifests" / f"{name}.json"
    in_cache = cache_folder() / name
    if os.sep not in name and built_in.is_file():
        manifest = EncoderManifest.model_validate_json(built_in.read_bytes())
        if (in_cache / MANIFEST).is_file():  # only its hashes are taken: the rest may be older
            manifest = manifest.with_hashes(read_manifest(in_cache / MANIFEST).hashes)
        return StoredEncoder(manifest, in_cache)
    if os.sep not in name and (in_cache / MANIFEST).is_file():
        return StoredEncoder(read_manifest(in_cache / MANIFEST), in_cache)
    path = Path(name) / MANIFEST if Path(name).is_dir() else Path(name)
    if not path.is_file():
        raise WeightsError(
            f"no encoder {shown(name)}: give a name from `mien weights list`, or the folder of an {MANIFEST}"
        )
    return StoredEncoder(read_manifest(path), path.parent)


def encoder_for(gallery: Encoder | None, name: str | None = None) -> StoredEncoder:
    """The encoder of this name, or else the gallery's. It must be the one that made the gallery."""
    stored = likely_encoder(gallery, name)
    if gallery is not None:
        stored.manifest.encoder.require_same(gallery, here="a photo", there="the gallery")
    return stored


def likely_encoder(gallery: Encoder | None, name: str | None = None) -> StoredEncoder:
    """The encoder of this name; without a name, the gallery's if mien knows it, or else the default."""
    known = gallery.name if gallery is not None and gallery.name in known_names() else None
    return stored_encoder(name or known or DEFAULT)


def read_manifest(path: Path) -> EncoderManifest:
    """A manifest from a file."""
    try:
        return EncoderManifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problems = [f"{shown('.'.join(map(str, line['loc'])) or 'file')}: {line['msg']}" for line in error.errors()]
        raise InvalidFileError(path, problems) from error


def sha256_of(content: bytes) -> str:
    """The hash of a file's content, as manifests have it."""
    return hashlib.sha256(content).hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file completely or not at all; everybody may read it."""
    if not path.parent.is_dir():
        raise InvalidFileError(path, ["there is no such folder: make it first"])
    with NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise

"""Encodes many photos, spread over the cores. A photo that fails is refused; the others go on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, Protocol, TypeVar

import cv2
import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.core.embeddings import VIEWS, Encoder
from mien.encoding.alignment import CROP_SIDE, png_of, views_of
from mien.encoding.detection import Detector
from mien.encoding.manifest import EncoderManifest
from mien.encoding.network import Device, Network
from mien.encoding.photo import Pixels, check_bytes, decoded_photo
from mien.encoding.quality import PhotoFacts, facts_of
from mien.encoding.subject import Choice, Subject, find_subject
from mien.errors import Box, InvalidPhotoError, SeveralFacesError

cv2.setNumThreads(1)  # photos are spread over the cores already

Made = TypeVar("Made")

PHOTOS_PER_BATCH = 8  # more photos in one run of a network are not faster on a CPU


@dataclass(frozen=True)
class Photo:
    """A photo to be encoded: its bytes, or its file."""

    image_id: str
    source: Path | bytes
    face: Choice = None
    keep_crop: bool = False  # in the result

    @property
    def fingerprint(self) -> str:
        """Changes when the file changes; it is not read for this."""
        if isinstance(self.source, bytes):
            return hashlib.sha256(self.source).hexdigest()
        try:
            status = self.source.stat()
        except OSError:
            return "not there"
        return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


@dataclass(frozen=True, eq=False)
class EncodedPhoto:
    """A photo's raw embedding, and facts about the photo."""

    image_id: str
    embedding: Float32s  # (representations, dimensions)
    facts: PhotoFacts
    crop: bytes | None = None  # the aligned face as PNG, if it was asked for


@dataclass(frozen=True)
class RefusedPhoto:
    """A photo that cannot be encoded, and why."""

    image_id: str
    reason: str
    boxes: tuple[Box, ...] = ()  # of the faces to choose from, where there are several


Result = EncodedPhoto | RefusedPhoto


class Crop(NamedTuple):
    """An aligned face."""

    pixels: Pixels
    refusal: str | None = None  # why the photo would be refused without the choice "official"


class EncodesPhotos(Protocol):
    """Encodes photos, on this machine or on a cluster."""

    @property
    def encoder(self) -> Encoder:
        """The identity that its embeddings carry."""

    def encode(self, photos: Sequence[Photo]) -> Iterator[Result]:
        """Encodes photos in their order."""


@dataclass(frozen=True, eq=False)
class PhotoEncoder:
    """An encoder with its networks loaded."""

    manifest: EncoderManifest
    detector: Detector
    models: tuple[Network, ...]

    @cached_property  # it hashes the manifest
    def encoder(self) -> Encoder:
        """The identity that its embeddings carry."""
        return self.manifest.encoder

    @property
    def device(self) -> Device:
        """Where its networks run."""
        return self.models[0].device

    def encode(self, photos: Sequence[Photo]) -> Iterator[Result]:
        """Encodes photos in their order. Memory holds only one decoded photo per core."""
        workers = min(os.cpu_count() or 1, max(len(photos), 1))
        size = max(1, min(PHOTOS_PER_BATCH, ceil(len(photos) / workers)))
        batches = [photos[start : start + size] for start in range(0, len(photos), size)]
        pool = ThreadPoolExecutor(workers)
        try:
            for batch in pool.map(self.encode_batch, batches):
                yield from batch
        finally:
            pool.shutdown(cancel_futures=True)  # a caller that stops early does not wait for the rest

    def encode_batch(self, photos: Sequence[Photo]) -> list[Result]:
        """Encodes a few photos on one core, each model run once."""
        return self.encode_subjects(photos, [self.find_face(photo) for photo in photos])

    def find_face(self, photo: Photo) -> Subject | RefusedPhoto:
        """The face to encode, or the refusal of the photo."""
        return made_of(photo, lambda pixels: find_subject(pixels, self.detector, photo.face))

    def encode_subjects(self, photos: Sequence[Photo], subjects: Sequence[Subject | RefusedPhoto]) -> list[Result]:
        """Embeds the faces that were found on photos; refusals stay as they are."""
        crops = [subject.crop for subject in subjects if isinstance(subject, Subject)]
        embeddings = iter(self.embed(crops) if crops else ())
        return [
            self._checked(photo, next(embeddings), subject) if isinstance(subject, Subject) else subject
            for photo, subject in zip(photos, subjects, strict=True)
        ]

    def _checked(self, photo: Photo, embedding: Float32s, subject: Subject) -> Result:
        if not (np.isfinite(embedding).all() and np.abs(embedding).max(axis=1).all()):
            return RefusedPhoto(photo.image_id, "its embedding is zero or not finite: run `mien weights verify`")
        crop = png_of(subject.crop) if photo.keep_crop else None
        return EncodedPhoto(photo.image_id, embedding, facts_of(subject, self.device), crop)

    def encodings_of(self, results: Iterable[Result]) -> Encodings:
        """The embeddings of the photos that were encoded."""
        encoded = [result for result in results if isinstance(result, EncodedPhoto)]
        embeddings = np.stack([photo.embedding for photo in encoded])
        return Encodings.of([photo.image_id for photo in encoded], embeddings, self.encoder, ids_are_file_names=True)

    def try_out(self) -> None:
        """Runs every network once, on a black picture; refuses outputs of an unexpected shape."""
        side = self.manifest.detector.longer_side
        self.detector.faces(np.zeros((side, side, 3), dtype=np.uint8), least_confidence=1.0)
        self.embed([np.zeros((CROP_SIDE, CROP_SIDE, 3), dtype=np.uint8)])

    def embed(self, crops: Sequence[Pixels]) -> Float32s:
        """Raw embeddings (crops, representations, dimensions), representations in the order (model, flip, gray)."""
        views = np.concatenate([views_of(crop) for crop in crops])
        of_models = [
            network.run(model.input.scaled(views))[0].reshape(len(crops), len(VIEWS), -1)
            for network, model in zip(self.models, self.manifest.models, strict=True)
        ]
        return np.concatenate(of_models, axis=1)


def crops_of(photos: Sequence[Photo], detector: Callable[[], Detector]) -> Iterator[Crop | RefusedPhoto]:
    """The aligned faces of photos in their order, made on all cores: to keep them, or to train on them.

    A photo of a crop's size is taken as a crop. If all are, the detector is not loaded.
    """

    def crop_on(pixels: Pixels, choice: Choice) -> Crop:
        if pixels.shape[:2] == (CROP_SIDE, CROP_SIDE):
            return Crop(pixels)
        subject = find_subject(pixels, detector(), choice)
        return Crop(subject.crop, subject.refusal)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda photo: made_of(photo, lambda pixels: crop_on(pixels, photo.face)), photos)


def made_of(photo: Photo, make: Callable[[Pixels], Made]) -> Made | RefusedPhoto:
    """What is made of a photo's pixels, or the refusal of the photo."""
    try:
        with decoded_photo(read_photo(photo.source)) as pixels:
            return make(pixels)
    except SeveralFacesError as error:
        return RefusedPhoto(photo.image_id, str(error), error.boxes)
    except InvalidPhotoError as error:
        return RefusedPhoto(photo.image_id, str(error))
    except (cv2.error, np.linalg.LinAlgError, MemoryError) as error:
        return RefusedPhoto(photo.image_id, f"it could not be worked on ({type(error).__name__})")


def read_photo(source: Path | bytes) -> bytes:
    """A photo's bytes. Files that are too large, and what is no file, are not opened."""
    if isinstance(source, bytes):
        return source
    try:
        status = source.stat()
        if not S_ISREG(status.st_mode):
            raise InvalidPhotoError("it is not a file")
        check_bytes(status.st_size)
        return source.read_bytes()
    except OSError as error:
        raise InvalidPhotoError(f"it cannot be read: {error.strerror}") from error

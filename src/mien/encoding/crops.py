"""The aligned crops of photos, where no embeddings are wanted: to keep faces, or to train on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from mien.encoding.alignment import CROP_SIDE
from mien.encoding.detection import Detector
from mien.encoding.photo import Pixels, decoded_photo
from mien.encoding.photo_encoder import WRONG_PHOTO, Photo, RefusedPhoto, read_photo, refusal_of
from mien.encoding.subject import find_subject


class Crop(NamedTuple):
    """An aligned face."""

    pixels: Pixels
    refusal: str | None = None  # why the photo would be refused without the choice "official"


def crops_of(photos: Sequence[Photo], detector: Callable[[], Detector]) -> Iterator[Crop | RefusedPhoto]:
    """The crops of photos in their order, made on all cores; without a need the detector is not loaded."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda photo: _crop_of(photo, detector), photos)


def _crop_of(photo: Photo, detector: Callable[[], Detector]) -> Crop | RefusedPhoto:
    try:
        with decoded_photo(read_photo(photo.source)) as pixels:
            if pixels.shape[:2] == (CROP_SIDE, CROP_SIDE):  # a crop already, as those of the official pipeline
                return Crop(pixels)
            subject = find_subject(pixels, detector(), photo.face)
            return Crop(subject.crop, subject.refusal)
    except WRONG_PHOTO as error:
        return refusal_of(photo, error)

"""Photos to embeddings: against the networks alone, and against the usual way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import product
from math import ceil

import cv2
import numpy as np
from PIL import Image

from mien.benchmark.measure import Line, best_of
from mien.core.arrays import Floats
from mien.encoding.alignment import CROP_SIDE, aligned_crop, levelled
from mien.encoding.detection import OUTPUT_WIDTHS, separate_faces
from mien.encoding.manifest import EncoderManifest
from mien.encoding.network import Network
from mien.encoding.photo import Pixels, decode_photo
from mien.encoding.photo_encoder import Photo, PhotoEncoder, read_photo
from mien.encoding.store import DEFAULT, StoredEncoder, stored_encoder
from mien.simulation.photos import DrawnPerson

PHOTOS = 64
SIDE = 640
LINES = 5


def encoding_benchmarks(rng: np.random.Generator, size: float) -> Iterator[Line]:
    """Lines for the default encoder, whose weights must be there, with that share of 64 photos."""
    stored = stored_encoder(DEFAULT)
    encoder = stored.load()
    photos = drawn_photos(max(2, round(PHOTOS * size)), rng)
    networks = default_networks(stored)
    ours, official, bare = best_of(
        3,
        lambda: list(encoder.encode(photos)),
        lambda: usual_way(photos, encoder.manifest, networks),
        networks_alone(encoder, len(photos)),
    )
    what = f"encode {len(photos)} photos"
    yield Line(what, ours, "one photo and one view at a time, as the official scripts do", official, "≤ 0.5")
    yield Line(what, ours, "the networks alone, all cores", bare, "close to 1")
    found = [encoder.find_face(photo) for photo in photos]
    reading, finding, embedding = best_of(
        1,
        lambda: [decode_photo(read_photo(photo.source)) for photo in photos],
        lambda: [encoder.find_face(photo) for photo in photos],
        lambda: encoder.encode_subjects(photos, found),
    )
    stages = {"reading": reading, "reading, and finding the face": finding, "embedding": embedding}
    for stage, took in stages.items():
        yield Line(f"  {stage}", took, "all of it, on one core", finding + embedding, "")


def drawn_photos(count: int, rng: np.random.Generator) -> list[Photo]:
    """JPEG files of persons who never lived."""
    photos = []
    for number in range(count):
        buffer = BytesIO()
        Image.fromarray(DrawnPerson.drawn(rng).photo(rng, SIDE)).save(buffer, "JPEG", quality=92)
        photos.append(Photo(f"{number}.jpg", buffer.getvalue()))
    return photos


def networks_alone(encoder: PhotoEncoder, photos: int) -> Callable[[], object]:
    """An action that runs the networks as often as the photos need, on all cores, and does nothing else."""
    side = encoder.manifest.detector.longer_side
    picture = np.zeros((1, 3, side, side), dtype=np.float32)
    views = np.zeros((4, 3, CROP_SIDE, CROP_SIDE), dtype=np.float32)
    pool = ThreadPoolExecutor(os.cpu_count() or 1)

    def one_photo(_: int) -> None:
        encoder.detector.network.run(picture)
        encoder.detector.network.run(picture)
        for network in encoder.models:
            network.run(views)

    return lambda: list(pool.map(one_photo, range(photos)))


def default_networks(stored: StoredEncoder) -> list[Network]:
    """The detector and the models as one opens them without thinking of threads."""
    widths = [OUTPUT_WIDTHS, *([model.dimensions] for model in stored.manifest.models)]
    roles = stored.manifest.parts
    return [Network(stored.content(role), role, width, threads=0) for role, width in zip(roles, widths, strict=True)]


def usual_way(photos: Sequence[Photo], manifest: EncoderManifest, networks: Sequence[Network]) -> list[list[Floats]]:
    """Photo after photo, with all the threads that OpenCV takes when nobody tells it."""
    cv2.setNumThreads(-1)
    try:
        return [one_by_one(photo, manifest, networks) for photo in photos]
    finally:
        cv2.setNumThreads(1)


def one_by_one(photo: Photo, manifest: EncoderManifest, networks: Sequence[Network]) -> list[Floats]:
    """One photo the way the official scripts go: every step on its own, every view its own run."""
    assert isinstance(photo.source, bytes)
    picture = cv2.cvtColor(cv2.imdecode(np.frombuffer(photo.source, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    level = levelled(picture, _surest_landmarks(picture, networks[0]))
    crop = aligned_crop(level, np.trunc(_surest_landmarks(level, networks[0])))
    embeddings = []
    for model, network in zip(manifest.models, networks[1:], strict=True):
        for flip, gray in product((False, True), (False, True)):
            view = cv2.cvtColor(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB) if gray else crop
            view = np.fliplr(view) if flip else view
            scaled = (view - np.array(model.input.mean)) / np.array(model.input.deviation)
            batch = scaled.transpose(2, 0, 1)[None].astype(np.float32)
            embeddings.append(network.run(batch)[0][0])
    return embeddings


def _surest_landmarks(picture: Pixels, network: Network) -> Floats:
    ratio = 640 / max(picture.shape[:2])
    height, width = (int(side * ratio) for side in picture.shape[:2])
    small = cv2.resize(picture, (width, height)).astype(np.float32)[..., ::-1] - (104, 117, 123)
    batch = small.transpose(2, 0, 1)[None].astype(np.float32)
    boxes, confidences, landmarks = (output[0] for output in network.run(batch))
    anchors = loop_anchors(height, width)
    likely = np.flatnonzero(confidences[:, 1] > 0.02)
    likely = likely[np.argsort(-confidences[likely, 1])]
    centres = anchors[likely, :2] + boxes[likely, :2] * 0.1 * anchors[likely, 2:]
    halves = anchors[likely, 2:] * np.exp(boxes[likely, 2:] * 0.2) / 2
    best = separate_faces(np.hstack([centres - halves, centres + halves]) * [width, height, width, height])[0]
    anchor = anchors[likely[best]]
    points = anchor[:2] + landmarks[likely[best]].reshape(5, 2) * 0.1 * anchor[2:]
    scaled: Floats = points * [width, height] / ratio
    return scaled


def loop_anchors(height: int, width: int) -> Floats:
    """All anchors as shares of the picture, made one by one for every photo."""
    anchors: list[float] = []
    for stride, sides in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        for row, column in product(range(ceil(height / stride)), range(ceil(width / stride))):
            for side in sides:
                middle = (column + 0.5) * stride / width, (row + 0.5) * stride / height
                anchors += [*middle, side / width, side / height]
    return np.array(anchors).reshape(-1, 4)

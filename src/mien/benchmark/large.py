"""A gallery that may be larger than the memory: ranked from disk, by a process of its own whose memory is watched.

Its images are simulated. As in the simulated GMDB, a photo shows its disorder, its patient and what it has for itself,
each as a random direction; in so few dimensions, disorders are alike to different degrees.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mien.answers.ranking import rank
from mien.benchmark.measure import Line, megabytes
from mien.core.arrays import Float32s, Ints, Rows
from mien.core.cohort import Query
from mien.core.embeddings import Encoder
from mien.core.index import GalleryIndex, RoundedRows, matrices_of
from mien.core.roster import Label, Roster
from mien.storage.index_files import FileRows, read_index, write_index

IMAGES = 500_000
SIZES = 4  # an eighth, a quarter, a half, all
IMAGES_PER_DISORDER, IMAGES_PER_PATIENT = 100, 2
ENCODER = Encoder(representations=3, dimensions=256)  # an eighth of GM-Arc's, 3 kB an image; no views to scan as one
DISORDER_SHARE, PATIENT_SHARE, PHOTO_SHARE = 0.3, 0.3, 0.4  # of what a photo shows
GENERATION, FINGERPRINT = 1, "benchmark"
PATIENTS, RUNS = 5, 4  # disks are noisier than cores
BYTES_AT_A_TIME = 1 << 25
LINES = SIZES + 2


class Measured(NamedTuple):
    """What the process says of itself."""

    images: int
    ranking: float  # seconds, the median patient's best
    reading: float
    before: float  # MB in memory before anybody is ranked
    peak: float


def large_benchmarks(size: float) -> Iterator[Line]:
    """A share of half a million simulated images of an eighth of GM-Arc's dimensions."""
    disorders = max(1, round(size * IMAGES / (8 * IMAGES_PER_DISORDER))) * 8
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), disorders * IMAGES_PER_DISORDER)
        sizes = [_measured(folder, disorders >> halvings) for halvings in reversed(range(SIZES))]
    for one in sizes:
        what = f"rank one patient (median of {PATIENTS}) against {one.images:,} images on disk"
        yield Line(what, one.ranking, "reading their float32 file once", one.reading, "≤ 0.4")
    each = [1e6 * one.ranking / one.images for one in sizes]
    yield Line(
        f"the same, per image of {sizes[-1].images:,}", each[-1], f"of {sizes[0].images:,}", each[0], "≈ 1", "µs"
    )
    rows = sizes[-1].images * ENCODER.representations * ENCODER.dimensions * 4
    what = f"memory for it, {sizes[-1].before:,.0f} MB of it to know who is there"
    yield Line(what, sizes[-1].peak, "their file", rows / 1e6, "", "MB")


def _measured(folder: str, disorders: int) -> Measured:
    command = [sys.executable, "-m", "mien.benchmark.large", folder, str(disorders)]
    return Measured(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))  # noqa: S603 our own


def _write(folder: Path, images: int) -> None:
    """The index of a gallery of so many images, which exist nowhere else."""

    def read(rows: Ints) -> Float32s:
        return simulated_photos(int(rows[0]) // IMAGES_PER_DISORDER, rows // IMAGES_PER_PATIENT)

    write_index(folder, GENERATION, FINGERPRINT, Roster.of_labels(islice(_labels(), images)), ENCODER, read)


def simulated_photos(disorder: int, patients: Ints) -> Float32s:
    """Photos of these patients, the same each time; all representations of a photo are alike."""

    def drawn(share: float, count: int, *seed: int) -> Float32s:
        shape = count, 1, ENCODER.dimensions
        return np.random.default_rng([disorder, *seed]).normal(0, share**0.5, shape).astype(np.float32)

    own, patient_of_photo = np.unique(patients, return_inverse=True)
    of_patient = drawn(PATIENT_SHARE, len(own), 1, own[0])[patient_of_photo]
    of_photo = drawn(PHOTO_SHARE, len(patients), 2, own[0])
    return (drawn(DISORDER_SHARE, 1) + of_patient + of_photo).repeat(ENCODER.representations, axis=1)


def _measure(folder: Path, disorders: int) -> Measured:
    index = _first(read_index(folder, GENERATION, FINGERPRINT), disorders)
    exact, rounded = (folder / f"index-{GENERATION}.image_{kind}" for kind in ("rows", "codes"))
    queries = [Query.of(simulated_photos(number, np.array([IMAGES]))) for number in range(PATIENTS)]
    index.roster.patient_of_id, index.roster.image_of_id  # noqa: B018 who is there, before anybody asks
    before = megabytes("VmRSS")
    ranking, reading = [], []
    for _ in range(RUNS):
        ranking.append([_seconds_from_disk([exact, rounded], partial(rank, index, query)) for query in queries])
        reading.append(_seconds_from_disk([exact], partial(_read, exact, index)))
    of_patients = np.min(ranking, axis=0)
    return Measured(len(index.images), float(np.median(of_patients)), min(reading), before, megabytes("VmHWM"))


def _first(index: GalleryIndex, disorders: int) -> GalleryIndex:
    """The gallery of the first disorders alone: their images stand first."""

    def first(rows: Rows, count: int) -> Rows:
        return FileRows(rows.path, (count, *rows.shape[1:]), rows.dtype) if isinstance(rows, FileRows) else rows[:count]

    images = disorders * IMAGES_PER_DISORDER
    roster, rows = Roster.of_labels(islice(_labels(), images)), index.images
    exact, codes, rounding = (first(each, images) for each in (rows.exact, rows.codes, rows.rounding))
    counts = {name: shape[0] for name, shape, _ in matrices_of(images, disorders, index.encoder)}
    others = {name: first(each, counts[name]) for name, each in index.others.items()}
    return GalleryIndex(roster, index.encoder, RoundedRows(exact, codes, rounding, rows.alike), others)


def _labels() -> Iterator[Label]:
    """As many as one wants."""
    for image in count():
        yield Label(f"i{image:07}", f"p{image // IMAGES_PER_PATIENT:07}", f"d{image // IMAGES_PER_DISORDER:05}")


def _seconds_from_disk(files: Sequence[Path], action: Callable[[], object]) -> float:
    """How long something takes; the system is asked to forget the files first."""
    for file in files:
        with file.open("rb") as opened:
            if hasattr(os, "posix_fadvise"):  # not on every system
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _read(file: Path, index: GalleryIndex) -> None:
    buffer = memoryview(bytearray(BYTES_AT_A_TIME))
    left = 4 * math.prod(index.images.exact.shape)
    with file.open("rb", buffering=0) as opened:
        while left > 0:
            left -= opened.readinto(buffer[: min(left, len(buffer))]) or left


if __name__ == "__main__":
    json.dump(_measure(Path(sys.argv[1]), int(sys.argv[2])), sys.stdout)

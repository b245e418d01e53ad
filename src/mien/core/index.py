"""What a query is compared with: the unit rows of a gallery, exact ones to measure, rounded to bytes to scan.

A scan gives bounds of distances. Where the views of a photo are alike, it scans their sum over the root of their number
instead of each: an orthogonal projection, so that a unit row r is A g + u, and u is orthogonal to all that A gives. Let
g = s c + d be the bytes c times their step s, and what rounding took away; p = A h + v and h = t b + e the same for a
probe. Then <r, p> - s t <c, b> = <u, v> + <d, h> + <s c, e>, which by Cauchy and Schwarz is at most
|u| |v| + |d| |h| + (|g| + |d|) |e|. Lengths of g and h are at most 1; |d| and |u| are kept beside the bytes. The
product of the bytes is a whole number, and exact. What float32 loses in measuring (`measured_rounding`) is added.
Bytes are multiplied on all cores by NumKong, which picks the processor's instructions, or else by numpy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Float32s, Float64s, Floats, Int8s, Ints, Rows
from mien.core.centroids import CENTROID_OF_KIND, CentroidKind, ExactSum
from mien.core.embeddings import VIEWS, Encoder, embedding_lengths, unit_rows
from mien.core.roster import Roster
from mien.errors import EmptyGalleryError

LARGEST_BYTE = 127
BYTES_PER_BLOCK = 1 << 21  # of rounded rows that are scanned at a time; exact ones are four times as large
FEW_PROBES = 4
ROWS_MEASURED = 64  # at a time: 1.5 MB of GM-Arc's
Alike = tuple[int, int]  # so many representations, one after the other, of so many dimensions are scanned as one
EACH: Alike = (1, 1)
EXACT_WIDTH = 1 << 10  # sums of so many products of two bytes are whole numbers in float32
MOST_NOT_IN_COMMON = 0.05  # share of the squared length of alike views: with more, bounds are too wide
DISORDERS_TRIED, IMAGES_TRIED = 32, 8  # of each, to see whether they are alike
Allocate = Callable[[str, tuple[int, ...], type[np.generic]], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class RoundedRows:
    """Unit rows with their bytes."""

    exact: Rows  # (rows, width): float32
    codes: Rows  # (rows, width over the number of alike ones): the row over its step, rounded to bytes
    rounding: Rows  # (rows, 3), float32: the step; bounds of the lengths that rounding and the projection took away
    alike: Alike = EACH

    @classmethod
    def of(cls, exact: Float32s) -> RoundedRows:
        """Rounds unit rows."""
        return cls(exact, *rounded(exact))

    def __len__(self) -> int:
        return len(self.exact)

    def __repr__(self) -> str:
        return f"<RoundedRows: {len(self):,}>"

    def distances(self, rows: Ints, probes: Float32s, probe_of_row: Ints) -> Float64s:
        """Exact distances, one pair of rows and probes at a time, so that each depends on its two rows alone."""
        found = np.empty(len(rows))
        for start in range(0, len(rows), ROWS_MEASURED):
            some = slice(start, start + ROWS_MEASURED)
            others = probes if len(probes) == 1 else probes[probe_of_row[some]]  # one needs no copies
            found[some] = pair_distances(self.exact[rows[some]], others)
        return found


def rounded(rows: Floats, alike: Alike = EACH) -> tuple[Int8s, Float32s]:
    """The bytes of rows; step and lengths of what is not in them.

    >>> codes, rounding = rounded(np.array([[1.0, 0.5, 0.0], [0.0, 0.0, 0.0]]))
    >>> codes.tolist(), (rounding[:, 1] > [0.003, 0]).tolist()
    ([[127, 64, 0], [0, 0, 0]], [True, True])
    >>> codes, rounding = rounded(np.array([[0.8, 0.0, 0.6, 0.0]]), alike=(2, 2))
    >>> codes.tolist(), np.allclose(rounding[:, 2], 0.02**0.5)
    ([[127, 0]], True)
    """
    count, dimensions = alike
    every = rows.astype(np.float64)
    wide = every if count == 1 else every.reshape(len(rows), -1, count, dimensions).sum(axis=2) / np.sqrt(count)
    wide = wide.reshape(len(rows), -1)
    step = (np.abs(wide).max(axis=1, keepdims=True) / LARGEST_BYTE).astype(np.float32)
    step[step == 0] = 1
    codes = np.rint(wide / step)
    rest = wide - codes * step
    away = np.maximum(np.vecdot(every, every) - np.vecdot(wide, wide), 0)
    lengths = np.sqrt(np.stack([np.vecdot(rest, rest), away], axis=1)) * (1 + 1e-6) + [1e-9, 1e-7]  # rounded up
    return codes.astype(np.int8), np.concatenate([step, lengths], axis=1, dtype=np.float32, casting="same_kind")


def measured_rounding(width: int) -> float:
    """The most that float32 takes away from, or adds to, a product of two unit rows: the usual bound for sums."""
    return (width + 8) * 2.0**-24


def pair_distances(rows: Float32s, others: Float32s) -> Float64s:
    """Distances of pairs of unit rows, of images or centroids (eq:centroid-distance).

    Equal rows give equal distances, whatever stands beside them.
    """
    distances: Float64s = 1 - np.vecdot(rows, others).astype(np.float64)
    return distances.clip(0, 2, out=distances)  # rounding must not make a photo closer than itself


def product_bounds(rows: Float32s, probes: Float32s) -> Float32s:
    """Bounds from a product of exact rows: a matrix product gives each number a little differently than measuring."""
    few = len(probes) < FEW_PROBES  # then matrix products are slow, and their threads linger on the cores
    products = np.vecdot(rows[:, np.newaxis], probes) if few else rows @ probes.T
    most = np.float32(measured_rounding(probes.shape[1]))
    lower = (1 - 2 * most) - products
    return np.stack([lower, lower + 4 * most])


def scan(rows: RoundedRows, probes: Float32s, *, fine: bool = False, only: Ints | None = None) -> Float32s:
    """Lower and upper bounds (2, rows, probes) of the distances between gallery rows, all or `only` some, and probes.

    By the bytes of both, which is a quarter of the memory and much faster; or, if it is to be `fine`, by a matrix
    product of exact rows, whose bounds are a hundred times closer.
    """
    bounds = np.empty((2, len(rows) if only is None else len(only), len(probes)), np.float32)
    if fine:
        for some, block in _blocks(rows.exact, only):
            bounds[:, some] = product_bounds(block(), probes)
        return bounds
    codes, rounding = rounded(probes, rows.alike)
    multiply = byte_products(codes)
    lower, upper = bounds

    def fill(some: slice, block: Callable[[], Int8s]) -> None:
        lower[some] = multiply(block())

    on_all_cores(fill, list(_blocks(rows.codes, only)))
    step, rest, away = rows.rounding[slice(None) if only is None else only].T[:, :, np.newaxis]
    lower *= step
    lower *= -rounding[:, 0]
    lower += 1
    width = rest * (1 + rounding[:, 1])  # of each pair by itself: an estimate must not depend on the batch
    width += away * rounding[:, 2]
    lost = 3 * np.float32(measured_rounding(probes.shape[1]))  # in measuring, and in these lines
    width += rounding[:, 1] + lost
    np.add(lower, width, out=upper)
    lower -= width
    return bounds


def _blocks(matrix: Rows, only: Ints | None) -> Iterator[tuple[slice, Callable[[], npt.NDArray[Any]]]]:
    """Places of the rows, all or some, a block at a time, and how to get at them."""
    together = only is None or (len(only) > 0 and bool((np.diff(only) == 1).all()))  # then none is copied in memory
    first, count = (0, len(matrix)) if only is None else (only[:1].sum(), len(only))
    blocks = -(-count // max(1, BYTES_PER_BLOCK // matrix.shape[1]))
    size = -(-count // (blocks + blocks % 2)) if blocks else 1  # as many blocks for each of two cores
    for start in range(0, count, size):
        some = slice(start, min(start + size, count))
        there = slice(first + some.start, first + some.stop) if only is None or together else only[some]
        yield some, partial(matrix.__getitem__, there)


def byte_products(probes: Int8s) -> Callable[[Int8s], Floats]:
    """Multiplies blocks of bytes (rows, width) with probes: whole numbers (rows, probes)."""
    kong = _numkong()
    if kong is None:
        return lambda block: plain_byte_products(block, probes)
    if len(probes) == 1:
        return lambda block: np.asarray(kong.cdist(block, probes, metric="dot"))  # quicker for one
    packed = kong.dots_pack(probes)
    return lambda block: np.asarray(kong.dots_packed(block, packed))


def plain_byte_products(block: Int8s, probes: Int8s) -> Float64s:
    """The same by numpy alone."""
    found = np.zeros((len(block), len(probes)))
    for start in range(0, block.shape[1], EXACT_WIDTH):
        some = slice(start, start + EXACT_WIDTH)
        found += block[:, some].astype(np.float32) @ probes[:, some].astype(np.float32).T
    return found


@cache
def _numkong() -> Any:
    try:
        import numkong  # noqa: PLC0415 not on every platform
    except ImportError:
        return None
    return numkong


def on_all_cores(work: Callable[..., None], tasks: Sequence[tuple[Any, ...]]) -> None:
    """Does tasks in this thread and others; products of bytes let them run at the same time."""
    left = iter(tasks)  # of a list: each task goes to one thread

    def take() -> None:
        for task in left:
            work(*task)

    threads = _threads(os.getpid())
    others = [threads.submit(take) for _ in range(min(_cores(), len(tasks)) - 1)]
    take()
    for other in others:
        if not other.cancel():  # it is at its last task
            other.result()


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """One for each core but that of the thread that asks; a forked process has none of its parent's."""
    return ThreadPoolExecutor(max(1, _cores() - 1))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class GalleryIndex:
    """The unit rows of a gallery's images, in the roster's order, and of its disorders' centroids.

    The index answers every query by itself: raw embeddings come back as unit row times length.
    """

    roster: Roster
    encoder: Encoder
    images: RoundedRows
    others: Mapping[str, Rows]  # lengths of the images, centroids and their sums, by their names in `matrices_of`
    _centroids: dict[CentroidKind, RoundedRows] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, roster: Roster, encoder: Encoder, alike: Alike, matrices: Mapping[str, Rows]) -> GalleryIndex:
        """The index that the matrices of `matrices_of` are."""
        others = dict(matrices)
        exact, codes, rounding = (others.pop(f"image_{kind}") for kind in ("rows", "codes", "rounding"))
        return cls(roster, encoder, RoundedRows(exact, codes, rounding, alike), others)

    def __repr__(self) -> str:
        return f"<GalleryIndex of {self.roster.sizes}, {self.encoder}>"

    def centroids(self, kind: CentroidKind) -> RoundedRows:
        """The disorders' centroids of one kind. They are few, and rounded once: that takes as long as ten queries."""
        if kind not in self._centroids:
            self._centroids[kind] = RoundedRows.of(self.others[f"{kind}_centroid_rows"][:])
        return self._centroids[kind]

    def sum_of_disorder(self, disorder: int, kind: CentroidKind) -> ExactSum:
        """What a disorder's centroid is the mean of, to be added to that of other parts of a gallery."""
        high, low = self.others[f"{kind}_sums"][np.array([disorder])].reshape(2, self.encoder.representations, -1)
        counts = self.roster.images_of_disorder if kind == "image" else self.roster.patients_of_disorder
        return ExactSum(high, low, int(counts[disorder]))

    def raw_embeddings(self, images: Ints) -> Float64s:
        """Embeddings as they were before they became unit rows, but for float32 rounding."""
        representations = self.encoder.representations
        units = self.images.exact[images].reshape(len(images), representations, -1).astype(np.float64)
        raw: Float64s = units * (self.others["image_lengths"][images] * np.sqrt(representations))[:, :, np.newaxis]
        return raw


def matrices_of(
    images: int, disorders: int, encoder: Encoder, alike: Alike = EACH
) -> Iterator[tuple[str, tuple[int, ...], type[np.generic]]]:
    """Name, shape and type of all that an index consists of; sums are what centroids are means of."""
    width = encoder.representations * encoder.dimensions
    yield "image_rows", (images, width), np.float32
    yield "image_codes", (images, width // alike[0]), np.int8
    yield "image_rounding", (images, 3), np.float32
    yield "image_centroid_rows", (disorders, width), np.float32
    yield "patient_centroid_rows", (disorders, width), np.float32
    yield "image_lengths", (images, encoder.representations), np.float64
    yield "image_sums", (disorders, 2, width), np.float64
    yield "patient_sums", (disorders, 2, width), np.float64


def build_index(
    roster: Roster,
    encoder: Encoder,
    read: Callable[[Ints], Floats],
    *,
    allocate: Allocate = lambda _, shape, dtype: np.empty(shape, dtype),
) -> GalleryIndex:
    """Makes an index in one pass over the disorders, holding the raw embeddings of one disorder at a time.

    `read` gives the raw embeddings of some images of the roster. `allocate` gives the memory of a matrix of the index:
    the store maps a file there.
    """
    if not roster.image_ids:
        raise EmptyGalleryError("the gallery holds no images: add some before ranking")
    alike = alike_views(roster, encoder, read)
    described = matrices_of(len(roster.image_ids), len(roster.disorders), encoder, alike)
    matrices = {name: allocate(name, shape, dtype) for name, shape, dtype in described}

    for disorder in range(len(roster.disorders)):
        images = roster.images_with(disorder)
        raw = read(images)
        exact = unit_rows(raw).astype(np.float32)
        matrices["image_rows"][images] = exact
        matrices["image_codes"][images], matrices["image_rounding"][images] = rounded(exact, alike)
        matrices["image_lengths"][images] = embedding_lengths(raw)
        for kind, centroid in CENTROID_OF_KIND.items():
            total = centroid(raw, roster.patient_of_image[images])
            matrices[f"{kind}_centroid_rows"][disorder] = total.unit_row
            matrices[f"{kind}_sums"][disorder] = total.high.reshape(-1), total.low.reshape(-1)
    return GalleryIndex.of(roster, encoder, alike, matrices)


def alike_views(roster: Roster, encoder: Encoder, read: Callable[[Ints], Floats]) -> Alike:
    """What is scanned as one: the views of a photo, where those of some images are alike; else nothing."""
    alike = len(VIEWS), encoder.dimensions
    if encoder.representations % len(VIEWS):
        return EACH
    disorders = np.unique(np.linspace(0, len(roster.disorders) - 1, DISORDERS_TRIED).astype(np.intp))
    some = [unit_rows(read(roster.images_with(disorder)[:IMAGES_TRIED])) for disorder in disorders.tolist()]
    away = np.concatenate([rounded(rows, alike)[1][:, 2] for rows in some])
    return alike if np.mean(away**2) <= MOST_NOT_IN_COMMON else EACH

"""Unit rows as a gallery keeps them: exact ones to measure, and rounded to bytes to scan.

A scan gives bounds of distances. Where the views of a photo are alike, it scans their sum over the root of their number
instead of each: an orthogonal projection, so that a unit row r is A g + u, and u is orthogonal to all that A gives. Let
g = s c + d be the bytes c times their step s, and what rounding took away; p = A h + v and h = t b + e the same for a
probe. Then <r, p> - s t <c, b> = <u, v> + <d, h> + <s c, e>, which by Cauchy and Schwarz is at most
|u| |v| + |d| |h| + (|g| + |d|) |e|. Lengths of g and h are at most 1; |d| and |u| are kept beside the bytes. The
product of the bytes is a whole number, and exact. What float32 loses in measuring (`measured_rounding`) is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Float32s, Float64s, Floats, Int8s, Ints, Rows
from mien.core.byte_products import byte_products, on_all_cores

LARGEST_BYTE = 127
BYTES_PER_BLOCK = 1 << 21  # of rounded rows that are scanned at a time; exact ones are four times as large
FEW_PROBES = 4
ROWS_MEASURED = 64  # at a time: 1.5 MB of GM-Arc's
Alike = tuple[int, int]  # so many representations, one after the other, of so many dimensions are scanned as one
EACH: Alike = (1, 1)


@dataclass(frozen=True, eq=False)
class RoundedRows:
    """Unit rows with their bytes."""

    exact: Rows  # (rows, width): float32
    codes: Rows  # (rows, width over the number of alike ones): the row over its step, rounded to bytes
    rounding: (
        Rows  # (rows, 3), float32: the step; upper bounds of the lengths that rounding and the projection took away
    )
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


class Bounds(NamedTuple):
    """Bounds (rows, probes) of distances."""

    lower: Float32s
    upper: Float32s


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
    """Distances of pairs of unit rows: equal rows give equal distances, whatever stands beside them."""
    distances: Float64s = 1 - np.vecdot(rows, others).astype(np.float64)
    return np.maximum(distances, 0, out=distances)  # rounding must not make a photo closer than itself


def product_bounds(rows: Float32s, probes: Float32s) -> Bounds:
    """Bounds from a product of exact rows: a matrix product gives each number a little differently than measuring."""
    few = len(probes) < FEW_PROBES  # then matrix products are slow, and their threads linger on the cores
    products = np.vecdot(rows[:, np.newaxis], probes) if few else rows @ probes.T
    most = np.float32(measured_rounding(probes.shape[1]))
    lower = np.subtract(1 - 2 * most, products, out=products)
    return Bounds(lower, lower + 4 * most)


def scan(rows: RoundedRows, probes: Float32s, *, fine: bool = False, only: Ints | None = None) -> Bounds:
    """Bounds of the distances between gallery rows, all or `only` some, and probes.

    By the bytes of both, which is a quarter of the memory and much faster; or, if it is to be `fine`, by a matrix
    product of exact rows, whose bounds are a hundred times closer.
    """
    count = len(rows) if only is None else len(only)
    lower = np.empty((count, len(probes)), np.float32)
    if fine:
        upper = np.empty_like(lower)
        for some, block in _blocks(rows.exact, only):
            lower[some], upper[some] = product_bounds(block(), probes)
        return Bounds(lower, upper)
    codes, rounding = rounded(probes, rows.alike)
    multiply = byte_products(codes)

    def fill(some: slice, block: Callable[[], Int8s]) -> None:
        lower[some] = multiply(block())

    on_all_cores(fill, list(_blocks(rows.codes, only)))
    step, rest, away = rows.rounding[slice(None) if only is None else only].T[:, :, np.newaxis]
    lower *= step
    lower *= -rounding[:, 0]
    lower += 1
    width = rest * (1 + rounding[:, 1])  # of each pair by itself: an estimate must not depend on the batch
    width += away * rounding[:, 2]
    width += rounding[:, 1] + 3 * np.float32(
        measured_rounding(probes.shape[1])
    )  # measuring, and what these lines round
    upper = lower + width
    lower -= width
    return Bounds(lower, upper)


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

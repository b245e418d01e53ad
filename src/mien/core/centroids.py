"""Disorder centroids: means of raw embeddings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from mien.core.arrays import Float64s, Floats, Ints
from mien.core.embeddings import unit_rows
from mien.core.roster import run_starts

Key = TypeVar("Key", bound=Hashable)

CentroidKind = Literal["image", "patient"]


@dataclass(frozen=True, eq=False)
class ExactSum:
    """A sum of rows, and how many they are.

    It is kept in two parts, what float64 holds of it and what rounding took away. So it does not depend on the order
    in which rows are added, and sums over parts of a gallery add up to the sum over all of it.

    >>> ExactSum.of(np.array([1e16, 1.0, -1e16])).mean * 3  # plain float64 loses the one
    np.float64(1.0)
    """

    high: Float64s
    low: Float64s
    count: int

    @classmethod
    def of(cls, rows: Floats) -> ExactSum:
        """Adds up rows."""
        high, low = rows[0].astype(np.float64), np.zeros(rows.shape[1:])
        for row in rows[1:]:
            high, low = _added(high, low, row.astype(np.float64))
        return cls(high, low, len(rows))

    def plus(self, other: ExactSum) -> ExactSum:
        """The sum over both."""
        return ExactSum(*_added(self.high, self.low + other.low, other.high), self.count + other.count)

    @property
    def mean(self) -> Float64s:
        """The mean row, rounded once."""
        mean: Float64s = (self.high + self.low) / self.count
        return mean

    @property
    def unit_row(self) -> Float64s:
        """The unit row (1, width) of the mean, where rows are embeddings."""
        return unit_rows(self.mean[np.newaxis])


def added_up(parts: Iterable[Mapping[Key, ExactSum]]) -> dict[Key, ExactSum]:
    """The sums of some groups over all parts of a gallery."""
    joined: dict[Key, ExactSum] = {}
    for part in parts:
        for group, of_part in part.items():
            joined[group] = joined[group].plus(of_part) if group in joined else of_part
    return joined


def _added(high: Float64s, low: Float64s, term: Float64s) -> tuple[Float64s, Float64s]:
    """A sum with one more term. What float64 rounds away, which it has exactly, goes to `low`."""
    total = high + term
    of_term = total - high
    return total, low + (high - (total - of_term)) + (term - of_term)


def group_means(values: Floats, first_of_group: Ints) -> Float64s:
    """Mean of each run of rows, added in float64 one row after the other: the same rows give the same bits."""
    counts = np.diff(first_of_group, append=len(values))
    sums = values[first_of_group].astype(np.float64)
    for place in range(1, int(counts.max(initial=0))):  # reduceat takes ten times as long where rows are long
        longer = np.flatnonzero(counts > place)
        sums[longer] += values[first_of_group[longer] + place]
    sums /= counts.reshape(-1, *[1] * (values.ndim - 1))
    return sums


def image_weighted_centroid(embeddings: Floats, _patient_of_row: Ints) -> ExactSum:
    """The mean of a disorder's images (eq:centroid-img)."""
    return ExactSum.of(embeddings)  # raw: the paper averages without normalising, so long vectors weigh more


def patient_weighted_centroid(embeddings: Floats, patient_of_row: Ints) -> ExactSum:
    """The mean of a disorder's patients, each the mean of their images (eq:centroid-pat). Rows are sorted by patient.

    >>> rows = np.array([[[1.0]], [[1.0]], [[4.0]]])  # two images of one patient, one of another
    >>> [centroid(rows, np.array([0, 0, 1])).mean.item() for centroid in CENTROID_OF_KIND.values()]
    [2.0, 2.5]
    """
    return ExactSum.of(group_means(embeddings, np.flatnonzero(run_starts(patient_of_row))))


CENTROID_OF_KIND: dict[CentroidKind, Callable[[Floats, Ints], ExactSum]] = {
    "image": image_weighted_centroid,
    "patient": patient_weighted_centroid,
}

"""Disorder centroids: means of raw embeddings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from mien.core.arrays import Float64s, Floats, Ints
from mien.core.roster import run_starts

Key = TypeVar("Key", bound=Hashable)
Added = TypeVar("Added", bound=Any)

FIRST = np.zeros(1, dtype=np.intp)  # one group, from the first row on


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of groups of rows, and how many rows each has.

    A sum is kept in two parts, what float64 holds of it and what rounding took away. So it does not depend on the
    order in which rows are added, and sums over parts of a gallery add up to the sum over all of it.

    >>> thirds = Sums.of_groups(np.array([1e16, 1.0, -1e16]), FIRST)  # plain float64 loses the one
    >>> thirds.means * 3
    array([1.])
    """

    high: Float64s
    low: Float64s
    counts: Ints

    @classmethod
    def of_groups(cls, rows: Floats, first_of_group: Ints) -> Sums:
        """Adds up each run of rows."""
        counts = np.diff(first_of_group, append=len(rows))
        sums = cls(rows[first_of_group].astype(np.float64), np.zeros((len(counts), *rows.shape[1:])), counts)
        for group in np.flatnonzero(counts > 1).tolist():
            first, count = first_of_group[group], counts[group]
            for row in range(first + 1, first + count):
                _add(sums.high[group : group + 1], sums.low[group : group + 1], rows[row].astype(np.float64))
        return sums

    def plus(self, other: Sums) -> Sums:
        """The sums over both."""
        high, low = self.high.copy(), self.low + other.low
        _add(high, low, other.high)
        return Sums(high, low, self.counts + other.counts)

    @property
    def means(self) -> Float64s:
        """The mean of each group, rounded once."""
        counts = self.counts.reshape(-1, *[1] * (self.high.ndim - 1))
        means: Float64s = (self.high + self.low) / counts
        return means


def added_up(parts: Iterable[Mapping[Key, Added]]) -> dict[Key, Added]:
    """What parts of a gallery say of some groups, put together: sums, or something else with a `plus`."""
    joined: dict[Key, Added] = {}
    for part in parts:
        for group, of_part in part.items():
            joined[group] = joined[group].plus(of_part) if group in joined else of_part
    return joined


def _add(high: Float64s, low: Float64s, term: Float64s) -> None:
    """Adds a term to a sum, in place. What float64 rounds away, which it has exactly, goes to `low`."""
    total = high + term
    of_term = total - high
    of_high = total - of_term
    low += np.subtract(high, of_high, out=of_high)
    low += np.subtract(term, of_term, out=of_term)
    high[...] = total


def group_means(values: Floats, first_of_group: Ints) -> Float64s:
    """Mean of each run of rows, added in float64 one row after the other: the same rows give the same bits."""
    counts = np.diff(first_of_group, append=len(values))
    means = values[first_of_group].astype(np.float64)
    for group in np.flatnonzero(counts > 1).tolist():
        first, count = first_of_group[group], counts[group]
        for row in range(first + 1, first + count):
            means[group] += values[row]
        means[group] /= count
    return means


def patient_sums(embeddings: Floats, patient_of_row: Ints, first_image: Ints) -> Sums:
    """What patient-weighted centroids are means of: a mean for each patient, added up over those of a disorder.

    Rows are images sorted by disorder and, inside it, by patient. A patient with two disorders has rows in both.
    """
    first_of_patient = np.flatnonzero(run_starts(patient_of_row, first_image))
    first_patient = np.searchsorted(first_of_patient, first_image)
    return Sums.of_groups(group_means(embeddings, first_of_patient), first_patient)


def image_weighted_centroids(embeddings: Floats, first_image: Ints) -> Float64s:
    """Mean of all images of each disorder (eq:centroid-img).

    >>> image_weighted_centroids(np.array([[[1.0]], [[1.0]], [[4.0]]]), np.array([0])).tolist()
    [[[2.0]]]
    """
    # raw mean: the paper averages without normalising, so long vectors weigh more
    return Sums.of_groups(embeddings, first_image).means


def patient_weighted_centroids(embeddings: Floats, patient_of_row: Ints, first_image: Ints) -> Float64s:
    """Mean per patient, then mean over the patients of each disorder (eq:centroid-pat).

    >>> rows = np.array([[[1.0]], [[1.0]], [[4.0]]])  # two images of one patient, one of another
    >>> patient_weighted_centroids(rows, np.array([0, 0, 1]), np.array([0])).tolist()
    [[[2.5]]]
    """
    return patient_sums(embeddings, patient_of_row, first_image).means

"""What a score is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from mien.core.arrays import Floats, Ints
from mien.core.index import CentroidKind


class Parts(NamedTuple):
    """What is known of some queries and disorders: the distances a score is made of."""

    image_distances: Floats  # (queries, images of the first disorder, then of the second, ...)
    first_image: Ints  # (disorders,): where each disorder's images start
    centroid_distances: Floats  # (queries, disorders)


class Weights(NamedTuple):
    """The two numbers of a method."""

    centroid_weight: float  # lambda
    alpha: float


@dataclass(frozen=True)
class Score:
    """How a disorder is scored. A new one is a new file beside this and a name in `SCORES`.

    `distance` must not move by more than its arguments do (a minimum, a mean and a weighted mean do not):
    ranking relies on it to leave out, from a fast look, what cannot be near the top.
    """

    distance: Callable[[Parts, Weights], Floats]  # -> (queries, disorders)
    neighbours: Callable[[Ints, Weights], Ints]  # images of each disorder -> how many of the nearest matter: 1 at least
    centroid: CentroidKind = "patient"
    uses: tuple[str, ...] = ()  # of a method's numbers: lambda, alpha

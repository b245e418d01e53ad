"""Proportional hybrid: the hybrid with a share of the disorder's photos where it has the closest one."""

from __future__ import annotations

from mien.core.arrays import Ints
from mien.core.scores.base import Score
from mien.core.scores.hybrid import LAMBDA, hybrid_distance
from mien.core.scores.proportional import ALPHA, neighbours_counted


def _neighbours(images_of_disorder: Ints, *, alpha: float, **_: float) -> Ints:
    return neighbours_counted(images_of_disorder, alpha)


SCORE = Score(
    "proportional-hybrid",
    lambda evidence, centroid_weight, **_: hybrid_distance(
        evidence.nearest_mean, evidence.centroid, centroid_weight=centroid_weight
    ),
    parameters=(LAMBDA, ALPHA),
    neighbours=_neighbours,
)

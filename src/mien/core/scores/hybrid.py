"""Hybrid: the disorder as a whole and its closest photo, weighed against each other."""

from __future__ import annotations

from mien.core.arrays import Floats
from mien.core.scores.base import Parameter, Score

LAMBDA = Parameter(
    "lambda", 0.75, 0, 1, "Weight of the centroid: 0 is the nearest image, 1 the centroid.", "centroid_weight"
)


def hybrid_distance(nearest: Floats, centroid: Floats, *, centroid_weight: float) -> Floats:
    """Weighted mean of centroid and nearest-image distance (eq:hybrid).

    >>> import numpy as np
    >>> hybrid_distance(np.array([0.2]), np.array([0.6]), centroid_weight=0.75).round(6).tolist()
    [0.5]
    """
    return centroid_weight * centroid + (1 - centroid_weight) * nearest


SCORE = Score(
    "hybrid",
    lambda evidence, centroid_weight: hybrid_distance(
        evidence.nearest, evidence.centroid, centroid_weight=centroid_weight
    ),
    parameters=(LAMBDA,),
)

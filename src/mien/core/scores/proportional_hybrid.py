"""Proportional hybrid: the hybrid with a share of the disorder's photos where it has the closest one."""

from __future__ import annotations

from mien.core.scores import proportional
from mien.core.scores.base import Score
from mien.core.scores.hybrid import hybrid_distance

SCORE = Score(
    distance=lambda parts, weights: hybrid_distance(
        proportional.SCORE.distance(parts, weights), parts.centroid_distances, centroid_weight=weights.centroid_weight
    ),
    neighbours=proportional.SCORE.neighbours,
    uses=("lambda", "alpha"),
)

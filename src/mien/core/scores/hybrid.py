"""Hybrid: the disorder as a whole and its closest photo, weighed against each other."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Floats
from mien.core.scores.base import Score
from mien.core.scores.nearest import nearest_distance


def hybrid_distance(nearest: Floats, centroid: Floats, *, centroid_weight: float) -> Floats:
    """Weighted mean of centroid and nearest-image distance (eq:hybrid).

    >>> hybrid_distance(np.array([0.2]), np.array([0.6]), centroid_weight=0.75).round(6).tolist()
    [0.5]
    """
    return centroid_weight * centroid + (1 - centroid_weight) * nearest


SCORE = Score(
    distance=lambda parts, weights: hybrid_distance(
        nearest_distance(parts.image_distances, parts.first_image),
        parts.centroid_distances,
        centroid_weight=weights.centroid_weight,
    ),
    neighbours=lambda images_of_disorder, _: np.ones_like(images_of_disorder),
    uses=("lambda",),
)

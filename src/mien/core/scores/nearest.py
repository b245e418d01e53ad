"""Nearest image: the disorder's closest photo decides."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.scores.base import Score


def nearest_distance(image_distances: Floats, first_image: Ints) -> Floats:
    """Minimum over the gallery images of each disorder (eq:nn-distance).

    >>> nearest_distance(np.array([[0.4, 0.2, 0.9]]), np.array([0, 2])).tolist()
    [[0.2, 0.9]]
    """
    if len(first_image) == image_distances.shape[-1]:
        return image_distances  # one image each
    nearest: Floats = np.minimum.reduceat(image_distances, first_image, axis=-1)
    return nearest


SCORE = Score("nearest", lambda evidence: evidence.nearest, centroid=None)

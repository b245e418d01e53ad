"""Image-weighted centroid: every photo of the disorder counts the same."""

from __future__ import annotations

import numpy as np

from mien.core.scores.base import Score

SCORE = Score(
    distance=lambda parts, _: parts.centroid_distances,
    neighbours=lambda images_of_disorder, _: np.ones_like(images_of_disorder),
    centroid="image",
)

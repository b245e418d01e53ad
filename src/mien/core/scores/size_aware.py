"""Size-aware: the hybrid, corrected for the number of patients behind a disorder.

The more patients a disorder has, the closer it is to everybody: its centroid has less noise in it, and one of many
photos is near by chance. The offset takes this back.
"""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.scores.base import Parameter, Score
from mien.core.scores.hybrid import LAMBDA, hybrid_distance

OFFSET = Parameter("offset", 0.02, 0, 1, "Added to a distance, times the natural logarithm of the gallery patients.")


def size_aware_distance(
    nearest: Floats, centroid: Floats, gallery_patients: Ints, *, centroid_weight: float, offset: float
) -> Floats:
    """Hybrid distance plus an offset that grows with the logarithm of the disorder's patients (eq:size-aware).

    >>> same = np.array([0.5, 0.5])
    >>> size_aware_distance(same, same, np.array([1, 100]), centroid_weight=0.75, offset=0.02).round(3).tolist()
    [0.5, 0.592]
    """
    of_size = offset * np.log(np.maximum(gallery_patients, 1))
    return hybrid_distance(nearest, centroid, centroid_weight=centroid_weight) + of_size


SCORE = Score(
    "size-aware",
    lambda evidence, centroid_weight, offset: size_aware_distance(
        evidence.nearest, evidence.centroid, evidence.gallery_patients, centroid_weight=centroid_weight, offset=offset
    ),
    parameters=(LAMBDA, OFFSET),
)

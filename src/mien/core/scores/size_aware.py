"""Size-aware: the hybrid, corrected for the number of patients behind a disorder.

The more patients a disorder has, the closer it is to everybody: its centroid has less noise in it, and one of many
photos is near by chance. The offset takes this back. And the more patients, the more a distance tells: the slope says
how much.
"""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.scores.base import Parameter, Score
from mien.core.scores.hybrid import LAMBDA, hybrid_distance

OFFSET = Parameter("offset", 0.02, -100, 100, "Added to a distance, times the natural log of the gallery patients.")
SLOPE = Parameter("slope", 0, 0, 100, "Added for each unit of distance, times the same logarithm.")


def size_aware_distance(distances: Floats, gallery_patients: Ints, *, offset: float, slope: float) -> Floats:
    """Distances with a term that grows with the logarithm of the disorder's patients (eq:size-aware).

    >>> size_aware_distance(np.array([0.5, 0.5]), np.array([1, 100]), offset=-0.03, slope=0.1).round(3).tolist()
    [0.5, 0.592]
    """
    return distances + (offset + slope * distances) * np.log(np.maximum(gallery_patients, 1))


SCORE = Score(
    "size-aware",
    lambda evidence, centroid_weight, **terms: size_aware_distance(
        hybrid_distance(evidence.nearest, evidence.centroid, centroid_weight=centroid_weight),
        evidence.gallery_patients,
        **terms,
    ),
    parameters=(LAMBDA, OFFSET, SLOPE),
)

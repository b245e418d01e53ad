"""Patient-weighted centroid: every patient of the disorder counts the same, however many photos there are."""

from __future__ import annotations

from mien.core.arrays import Floats
from mien.core.embeddings import mean_cosine_distance
from mien.core.scores.base import Score


def centroid_distance(rows: Floats, centroid_rows: Floats) -> Floats:
    """Distance to each disorder's centroid (eq:centroid-distance): per representation, then averaged, as everywhere."""
    return mean_cosine_distance(rows, centroid_rows)


SCORE = Score("patient-centroid", lambda evidence: evidence.centroid)

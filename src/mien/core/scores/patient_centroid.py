"""Patient-weighted centroid: every patient of the disorder counts the same, however many photos there are."""

from __future__ import annotations

from mien.core.scores.base import Score

SCORE = Score("patient-centroid", lambda evidence: evidence.centroid)

"""Image-weighted centroid: every photo of the disorder counts the same."""

from __future__ import annotations

from mien.core.scores.base import Score

SCORE = Score("image-centroid", lambda evidence: evidence.centroid, centroid="image")

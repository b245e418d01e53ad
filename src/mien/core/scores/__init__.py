"""The scores, one file each."""

from __future__ import annotations

from mien.core.scores import hybrid, image_centroid, nearest, patient_centroid, proportional, proportional_hybrid
from mien.core.scores.base import Parts, Score, Weights

SCORES: dict[str, Score] = {
    "nearest": nearest.SCORE,
    "image-centroid": image_centroid.SCORE,
    "patient-centroid": patient_centroid.SCORE,
    "hybrid": hybrid.SCORE,
    "proportional": proportional.SCORE,
    "proportional-hybrid": proportional_hybrid.SCORE,
}

__all__ = ["SCORES", "Parts", "Score", "Weights"]

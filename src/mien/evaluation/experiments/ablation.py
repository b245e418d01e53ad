"""S8: all twelve combinations of fusion and score, in unified and in split galleries."""

from __future__ import annotations

from mien.core.method import TWELVE_METHODS
from mien.evaluation.lab import Lab, Tables
from mien.evaluation.results import evaluate


def run(lab: Lab) -> Tables:
    """All four sets."""
    return {"ablation": evaluate(lab.comparison, TWELVE_METHODS, seed=lab.seed)}

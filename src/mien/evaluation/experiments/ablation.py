"""S8: all twelve combinations of fusion and score, in unified and in split galleries."""

from __future__ import annotations

from mien.core.method import TWELVE_METHODS
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.results import evaluate


def run(context: ExperimentContext) -> Tables:
    """All four sets."""
    return {"ablation": evaluate(context.comparison, TWELVE_METHODS, seed=context.seed)}

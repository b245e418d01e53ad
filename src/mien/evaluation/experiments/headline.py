"""Figure 3: the full method against the baseline on all four sets, over the length of the list."""

from __future__ import annotations

from typing import NamedTuple

from mien.core.method import BASELINE, FULL, Method
from mien.evaluation.accuracy import accuracies
from mien.evaluation.comparison import SetName
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.results import evaluate

METHODS = {
    "baseline": BASELINE,
    "patient level only": Method("embedding", "nearest"),
    "disorder level only": Method("none", "hybrid"),
    "full": FULL,
}
LONGEST = 30
TOPS = range(1, LONGEST + 1)


class CurvePoint(NamedTuple):
    """Mean per-disorder accuracy among the first N."""

    set: SetName
    method: str
    top: int
    accuracy: float


def run(context: ExperimentContext) -> Tables:
    """Unified gallery."""
    points = [
        CurvePoint(test_set, name, top, accuracy)
        for test_set in context.sets
        for name, method in METHODS.items()
        for top, accuracy in zip(TOPS, accuracies(context.ranks(test_set, method), TOPS), strict=True)
    ]
    results = evaluate(context.comparison, tuple(METHODS.values()), seed=context.seed, galleries=["unified"])
    return {"headline": results, "headline_curves": points}

"""S4.2: how much depends on lambda, looked at on the test sets afterwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mien.core.method import Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import SetName
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments.lambda_selection import objective
from mien.evaluation.published import LAMBDA, PLATEAU_FROM

STEPS = 100
METHODS = tuple(Method("embedding", "hybrid", centroid_weight=step / STEPS) for step in range(STEPS + 1))


class SensitivityLine(NamedTuple):
    """Accuracies at one lambda."""

    set: SetName
    centroid_weight: float
    top1: float
    top5: float
    top10: float
    top30: float
    objective: float


class BestLambda(NamedTuple):
    """The lambda that would have been best, what the chosen one costs against it, and the curve's shape, in points."""

    set: SetName
    centroid_weight: float
    objective: float
    cost_of_chosen: float
    plateau_spread: float  # of the objective from PLATEAU_FROM on: highest minus lowest
    largest_fall: float  # of the objective, from any lambda to a larger one: none on a rising curve


def run(context: ExperimentContext) -> Tables:
    """Embedding-level fusion, patient-objective centroids, unified gallery."""
    lines: list[SensitivityLine] = []
    for method in METHODS:
        for test_set in context.sets:
            found = tops(context.ranks(test_set, method))
            lines.append(SensitivityLine(test_set, method.parameters["lambda"], *found, objective(found)))
    best = []
    for test_set in context.sets:
        of_set = [line for line in lines if line.set == test_set]
        top = max(of_set, key=lambda line: line.objective)
        [chosen] = [line.objective for line in of_set if line.centroid_weight == LAMBDA]
        curve = np.array([line.objective for line in of_set])
        plateau = curve[round(PLATEAU_FROM * STEPS) :]
        shape = float(np.ptp(plateau)), float((np.maximum.accumulate(curve) - curve).max())
        best.append(BestLambda(test_set, top.centroid_weight, top.objective, top.objective - chosen, *shape))
    return {"lambda_sensitivity": lines, "best_lambda": best}

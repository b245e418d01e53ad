"""S4.1: lambda chosen on the validation images alone."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from mien.core.method import FUSIONS, Method
from mien.evaluation.accuracy import Tops, accuracy, tops
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import validation_folds
from mien.evaluation.experiment_context import ExperimentContext, Tables

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
METHODS = tuple(Method("none", "hybrid", centroid_weight=weight) for weight in GRID)
CENTROIDS = tuple(
    Method(fusion, score) for fusion in FUSIONS for score in ("image-centroid", "patient-centroid")
)  # the paper does not say what its range of gains is over: here it is over folds, for each way to fuse
IMPORTANCE = {"top1": 0.5, "top5": 0.25, "top10": 0.15, "top30": 0.1}  # in the objective


class LambdaLine(NamedTuple):
    """Accuracies at one lambda, and their weighted mean."""

    centroid_weight: float
    top1: float
    top5: float
    top10: float
    top30: float
    objective: float
    selected: bool


class BestOnValidation(NamedTuple):
    """The lambda of the grid that is best by one measure; of equal ones the smallest."""

    measure: str  # top1, top5, top10, top30, objective
    centroid_weight: float
    accuracy: float


class CentroidLine(NamedTuple):
    """Top-1 on the validation images."""

    score: str
    top1: float


class CentroidGain(NamedTuple):
    """What the patient-weighted centroid gains over the image-weighted one at top-1, in points: over the folds."""

    fusion: str  # of the validation images
    mean_gain: float
    least_gain: float
    most_gain: float


def run(context: ExperimentContext) -> Tables:
    """Each validation image alone, against the unified gallery without the validation images."""
    if not context.study.validation:
        return dict.fromkeys(("lambda_selection", "best_on_validation", "validation_centroids", "centroid_gains"), ())
    comparison = Comparison(
        context.study.encodings,
        validation_folds(context.study),
        methods=(*METHODS, *CENTROIDS),
        galleries=["unified"],
    )
    lines = select_lambda(comparison)
    top1 = {
        method: np.array([accuracy([fold], top=1) for fold in comparison.ranks("freq", "unified", method)])
        for method in CENTROIDS
    }
    gains = {
        fusion: top1[Method(fusion, "patient-centroid")] - top1[Method(fusion, "image-centroid")] for fusion in FUSIONS
    }
    return {
        "lambda_selection": lines,
        "best_on_validation": [
            BestOnValidation(measure, best.centroid_weight, getattr(best, measure))
            for measure in (*IMPORTANCE, "objective")
            for best in [max(lines, key=attrgetter(measure))]
        ],
        "validation_centroids": [
            CentroidLine(method.score, float(of_folds.mean()))
            for method, of_folds in top1.items()
            if method.fusion == "none"
        ],
        "centroid_gains": [
            CentroidGain(fusion, float(gain.mean()), float(gain.min()), float(gain.max()))
            for fusion, gain in gains.items()
        ],
    }


def select_lambda(comparison: Comparison) -> list[LambdaLine]:
    """The grid; the best objective is selected, of equal ones the smallest lambda."""
    lines = []
    for method in METHODS:
        found = tops(comparison.ranks("freq", "unified", method))
        lines.append(LambdaLine(method.parameters["lambda"], *found, objective(found), selected=False))
    best = max(lines, key=lambda line: line.objective)
    return [line._replace(selected=line == best) for line in lines]


def objective(accuracies: Tops) -> float:
    """What lambda is chosen by: a weighted mean of the accuracies, the early ranks first."""
    return sum(weight * accuracy for weight, accuracy in zip(IMPORTANCE.values(), accuracies, strict=True))

"""S4.1: lambda chosen on the validation images alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mien.core.method import Method
from mien.evaluation.accuracy import Tops, accuracy, tops
from mien.evaluation.cases import validation_rounds
from mien.evaluation.comparison import Comparison, Ranks
from mien.evaluation.lab import Lab, Tables

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
METHODS = tuple(Method("none", "hybrid", centroid_weight=weight) for weight in GRID)
CENTROIDS = tuple(Method("none", score) for score in ("image-centroid", "patient-centroid"))
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


class CentroidLine(NamedTuple):
    """Top-1 on the validation images."""

    score: str
    top1: float


def run(lab: Lab) -> Tables:
    """Each validation image alone, against the unified gallery without the validation images."""
    if not lab.study.validation:
        return {"lambda_selection": [], "validation_centroids": []}
    comparison = Comparison(
        lab.study.encodings,
        validation_rounds(lab.study),
        methods=(*METHODS, *CENTROIDS),
        galleries=["unified"],
        progress=lab.progress,
    )
    return {
        "lambda_selection": select_lambda(comparison),
        "validation_centroids": [
            CentroidLine(method.score, accuracy(comparison.ranks("freq", "unified", method), top=1))
            for method in CENTROIDS
        ],
    }


def select_lambda(comparison: Comparison) -> list[LambdaLine]:
    """The grid; the best objective is selected, of equal ones the smallest lambda."""
    lines = []
    for method in METHODS:
        found = tops(comparison.ranks("freq", "unified", method))
        lines.append(LambdaLine(method.centroid_weight, *found, weighted(found), selected=False))
    best = max(lines, key=lambda line: line.objective)
    return [line._replace(selected=line == best) for line in lines]


def objective(folds: Sequence[Ranks]) -> float:
    """What a lambda is chosen by."""
    return weighted(tops(folds))


def weighted(accuracies: Tops) -> float:
    """Mean of the accuracies, the early ranks first."""
    return sum(weight * accuracy for weight, accuracy in zip(IMPORTANCE.values(), accuracies, strict=True))

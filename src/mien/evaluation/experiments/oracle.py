"""S6: fused photos against the best single photo of each patient, chosen with the answer in hand."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.core.method import BASELINE, TWELVE_METHODS, Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import Ranks, SetName
from mien.evaluation.experiment_context import ExperimentContext, Tables

ORACLE = "best image (oracle)"
APPROACHES = {
    "single image": BASELINE,
    "distance fusion": Method("distance", "nearest"),
    "embedding fusion": Method("embedding", "nearest"),
}
METHODS = TWELVE_METHODS
SCORES = tuple(dict.fromkeys(method.score for method in METHODS))


class OracleLine(NamedTuple):
    """A line of the table; the oracle of a score is the image that ranks the true disorder best by this score."""

    set: SetName
    score: str
    approach: str
    top1: float
    top5: float
    top10: float


class AgainstBestImage(NamedTuple):
    """Percentages of patients, whose rank is compared with that of their best single image."""

    set: SetName
    approach: str
    better: float
    same: float
    worse: float


def run(context: ExperimentContext) -> Tables:
    """Multi-image patients in the unified gallery: nearest-image retrieval, and for the table every other score too."""
    lines: list[OracleLine] = []
    comparisons: list[AgainstBestImage] = []
    for test_set, score in product(context.multi_image_patients, SCORES):
        ranks = {
            approach: context.ranks(test_set, Method(nearest.fusion, score)) for approach, nearest in APPROACHES.items()
        }
        best = [best_image_ranks(fold) for fold in ranks["single image"]]
        lines += [
            OracleLine(test_set, score, name, *tops(folds)[:3]) for name, folds in (*ranks.items(), (ORACLE, best))
        ]
        for approach, folds in ranks.items() if score == "nearest" else ():
            shares = np.mean([against(fold, top) for fold, top in zip(folds, best, strict=True)], axis=0)
            better, same, worse = (100 * shares).tolist()
            comparisons.append(AgainstBestImage(test_set, approach, better, same, worse))
    return {
        "oracle": [line for line in lines if line.score == "nearest"],
        "oracle_scores": [line for line in lines if line.score != "nearest"],
        "oracle_per_patient": comparisons,
    }


def best_image_ranks(fold: Ranks) -> Ranks:
    """One ranking per patient, that of the image with the best rank of the true disorder."""
    first = np.searchsorted(fold.patient_of_ranking, np.arange(len(fold.patients)))
    return fold._replace(ranks=np.minimum.reduceat(fold.ranks, first), patient_of_ranking=np.arange(len(fold.patients)))


def against(fold: Ranks, best: Ranks) -> list[float]:
    """Shares of patients that rank better than, the same as and worse than the best image.

    A patient with several rankings counts as the expectation over one of them.
    """
    rivals: Ints = best.ranks[fold.patient_of_ranking]
    weights = 1 / np.bincount(fold.patient_of_ranking)[fold.patient_of_ranking] / len(fold.patients)
    return [float(weights[wins].sum()) for wins in (fold.ranks < rivals, fold.ranks == rivals, fold.ranks > rivals)]

"""S6: fused photos against the best single photo of each patient, chosen with the answer in hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import Ranks, SetName
from mien.evaluation.lab import Lab, Tables

ORACLE = "best image (oracle)"
APPROACHES = {
    "single image": BASELINE,
    "distance fusion": Method("distance", "nearest"),
    "embedding fusion": Method("embedding", "nearest"),
}


class OracleLine(NamedTuple):
    """A line of the table."""

    set: SetName
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


def run(lab: Lab) -> Tables:
    """Nearest-image retrieval of multi-image patients in the unified gallery."""
    lines: list[OracleLine] = []
    comparisons: list[AgainstBestImage] = []
    for test_set in lab.sets:
        if not test_set.startswith("multi"):
            continue
        single = lab.comparison.ranks(test_set, "unified", BASELINE)
        best = [best_image_ranks(fold) for fold in single]
        for approach, method in APPROACHES.items():
            folds = lab.comparison.ranks(test_set, "unified", method)
            lines.append(OracleLine(test_set, approach, *tops(folds)[:3]))
            shares = np.mean([against(fold, top) for fold, top in zip(folds, best, strict=True)], axis=0)
            better, same, worse = (100 * shares).tolist()
            comparisons.append(AgainstBestImage(test_set, approach, better, same, worse))
        lines.append(OracleLine(test_set, ORACLE, *tops(best)[:3]))
    return {"oracle": lines, "oracle_per_patient": comparisons}


def best_image_ranks(fold: Ranks) -> Ranks:
    """One ranking per case, that of the image with the best rank of the true disorder."""
    first = np.searchsorted(fold.case_of_ranking, np.arange(len(fold.cases)))
    return fold._replace(ranks=np.minimum.reduceat(fold.ranks, first), case_of_ranking=np.arange(len(fold.cases)))


def against(fold: Ranks, best: Ranks) -> list[float]:
    """Shares of cases that rank better than, the same as and worse than the best image.

    A case with several rankings counts as the expectation over one of them.
    """
    rivals: Ints = best.ranks[fold.case_of_ranking]
    weights = 1 / np.bincount(fold.case_of_ranking)[fold.case_of_ranking] / len(fold.cases)
    return [float(weights[wins].sum()) for wins in (fold.ranks < rivals, fold.ranks == rivals, fold.ranks > rivals)]

"""S10: a share of each disorder's images decides, instead of the nearest alone."""

from __future__ import annotations

from typing import NamedTuple

from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import GalleryName, SetName
from mien.evaluation.lab import Lab, Tables

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
METHODS = tuple(Method("none", "proportional", alpha=alpha) for alpha in ALPHAS)


class AlphaLine(NamedTuple):
    """Accuracies at one alpha, and their differences to the nearest image."""

    set: SetName
    gallery: GalleryName
    alpha: float
    top1: float
    top5: float
    top10: float
    delta_top1: float
    delta_top5: float
    delta_top10: float


def run(lab: Lab) -> Tables:
    """Each image alone, all patients."""
    lines = []
    for test_set in lab.sets:
        for gallery in lab.comparison.galleries if not test_set.startswith("multi") else ():
            nearest = tops(lab.comparison.ranks(test_set, gallery, BASELINE))
            for method in METHODS:
                found = tops(lab.comparison.ranks(test_set, gallery, method))
                deltas = found.top1 - nearest.top1, found.top5 - nearest.top5, found.top10 - nearest.top10
                lines.append(AlphaLine(test_set, gallery, method.alpha, *found[:3], *deltas))
    return {"proportional": lines}

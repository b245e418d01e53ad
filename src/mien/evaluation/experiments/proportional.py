"""S10: a share of each disorder's images decides, instead of the nearest alone; alone, and inside the hybrid."""

from __future__ import annotations

from typing import NamedTuple

from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import GalleryName, SetName
from mien.evaluation.experiment_context import ExperimentContext, Tables

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
PROPORTIONAL = tuple(Method("none", "proportional", alpha=alpha) for alpha in ALPHAS)
HYBRID = Method("none", "hybrid")
INSIDE_HYBRID = tuple(Method("none", "proportional-hybrid", alpha=alpha) for alpha in ALPHAS)
METHODS = (*PROPORTIONAL, HYBRID, *INSIDE_HYBRID)


class AlphaLine(NamedTuple):
    """Accuracies at one alpha, their differences to the baseline, and inside the hybrid those to the plain hybrid."""

    set: SetName
    gallery: GalleryName
    alpha: float
    top1: float
    top5: float
    top10: float
    delta_top1: float
    delta_top5: float
    delta_top10: float
    over_hybrid_top1: float | None = None
    over_hybrid_top5: float | None = None
    over_hybrid_top10: float | None = None


def run(context: ExperimentContext) -> Tables:
    """Each image alone, all patients."""
    alone: list[AlphaLine] = []
    inside: list[AlphaLine] = []
    for test_set in context.all_patients:
        for gallery in context.comparison.galleries:
            found = {
                method: tops(context.comparison.ranks(test_set, gallery, method))[:3] for method in (BASELINE, *METHODS)
            }
            for lines, methods, references in (
                (alone, PROPORTIONAL, (BASELINE,)),
                (inside, INSIDE_HYBRID, (BASELINE, HYBRID)),
            ):
                for method in methods:
                    pairs = [zip(found[method], found[other], strict=True) for other in references]
                    differences = [accuracy - reference for pair in pairs for accuracy, reference in pair]
                    lines.append(AlphaLine(test_set, gallery, method.parameters["alpha"], *found[method], *differences))
    return {"proportional": alone, "proportional_hybrid": inside}

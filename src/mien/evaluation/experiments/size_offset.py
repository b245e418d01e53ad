"""Beyond the paper: frequent against rare disorders, as the correction for gallery size grows."""

from __future__ import annotations

from typing import NamedTuple

from mien.core.method import FULL, Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import SetName
from mien.evaluation.experiment_context import ExperimentContext, Tables

OFFSETS = (0.0, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03)
METHODS = tuple(Method(FULL.fusion, "size-aware", offset=offset) for offset in OFFSETS)


class OffsetLine(NamedTuple):
    """Accuracies with one offset; without any it is the full method."""

    set: SetName
    offset: float
    top1: float
    top5: float
    top10: float
    top30: float


def run(context: ExperimentContext) -> Tables:
    """Embedding-level fusion, unified gallery."""
    lines = [
        OffsetLine(test_set, method.parameters["offset"], *tops(context.ranks(test_set, method)))
        for test_set in context.sets
        for method in METHODS
    ]
    return {"size_offset": lines}

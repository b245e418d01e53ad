"""A run of the study beside the published one: every accuracy that the paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import accuracy
from mien.evaluation.comparison import Comparison, SetName
from mien.evaluation.experiments import oracle
from mien.evaluation.published import ACCURACY, ORACLE

METHODS = tuple(dict.fromkeys(Method(*of) for of_set in ACCURACY.values() for of in of_set))


class Cell(NamedTuple):
    """One published accuracy, and ours."""

    set: SetName
    fusion: str
    score: str  # or the oracle
    top: int
    published: float
    measured: float

    @property
    def error(self) -> float:
        """Ours minus theirs, in percentage points."""
        return self.measured - self.published


def accuracy_cells(comparison: Comparison) -> list[Cell]:
    """Every accuracy that the paper prints for the unified gallery, measured on the same set with the same method.

    Only of methods that were compared.
    """
    cells = []
    for test_set in comparison.sets:
        lines = [
            (fusion, score, published, comparison.ranks(test_set, "unified", Method(fusion, score)))
            for (fusion, score), published in ACCURACY[test_set].items()
            if Method(fusion, score) in comparison.methods
        ]
        if test_set in ORACLE:
            best = [oracle.best_image_ranks(fold) for fold in comparison.ranks(test_set, "unified", BASELINE)]
            lines.append(("none", oracle.ORACLE, ORACLE[test_set], best))
        cells += [
            Cell(test_set, fusion, score, top, value, accuracy(folds, top=top))
            for fusion, score, published, folds in lines
            for top, value in zip((1, 5, 10), published[:3], strict=True)
            if value is not None
        ]
    return cells


def mean_cells(runs: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The same cells of several runs, measured as their mean."""
    return [
        same[0]._replace(measured=float(np.mean([cell.measured for cell in same]))) for same in zip(*runs, strict=True)
    ]


def mean_absolute_error(cells: Sequence[Cell]) -> float:
    """In percentage points."""
    return float(np.mean([abs(cell.error) for cell in cells]))


def worst(cells: Sequence[Cell]) -> Cell:
    """The cell that is off by most."""
    return max(cells, key=lambda cell: abs(cell.error))

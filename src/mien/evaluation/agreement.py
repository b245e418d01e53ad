"""A run of the study beside the published one: every printed accuracy, and what the paper finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mien.core.method import BASELINE, FULL, Method
from mien.evaluation.accuracy import accuracy
from mien.evaluation.comparison import Comparison, SetName
from mien.evaluation.experiments import oracle
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.lambda_selection import CentroidLine, LambdaLine
from mien.evaluation.experiments.lambda_sensitivity import BestLambda, SensitivityLine
from mien.evaluation.experiments.proportional import AlphaLine
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.lab import Tables, rows_of
from mien.evaluation.published import (
    ACCURACY,
    BETTER_THAN_BEST_IMAGE,
    BOTH_SETS_IMPROVE_FOR_ALPHA,
    DISTANCES,
    LAMBDA,
    ORACLE,
    PATIENT_OVER_IMAGE_WEIGHTED,
)
from mien.evaluation.results import Result

SIGNIFICANT = 0.05
NEAR_ONE = 0.9  # lambda
DISTANCE_TOLERANCE = 0.03
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
    return list(_cells(comparison))


def _cells(comparison: Comparison) -> Iterator[Cell]:
    for test_set in comparison.sets:
        for (fusion, score), published in ACCURACY[test_set].items():
            if not comparison.knows(Method(fusion, score)):
                continue
            folds = comparison.ranks(test_set, "unified", Method(fusion, score))
            for top, value in zip((1, 5, 10), published[:3], strict=True):
                if value is not None:
                    yield Cell(test_set, fusion, score, top, value, accuracy(folds, top=top))
        if test_set in ORACLE:
            best = [oracle.best_image_ranks(fold) for fold in comparison.ranks(test_set, "unified", BASELINE)]
            for top, value in zip((1, 5, 10), ORACLE[test_set][:3], strict=True):
                assert value is not None
                yield Cell(test_set, "none", oracle.ORACLE, top, value, accuracy(best, top=top))


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


class Finding(NamedTuple):
    """Something that the paper finds, and whether this run finds it too."""

    claim: str
    holds: bool
    found: str


def findings(tables: Tables) -> list[Finding]:
    """Each claim of the paper that the tables can speak to."""
    return [finding for check in _CHECKS for finding in check(tables)]


def _centroids(tables: Tables) -> Iterator[Finding]:
    results = rows_of(tables, "disorder_aggregation", Result)
    for test_set in dict.fromkeys(result.set for result in results):
        of = {result.score: result.top1 for result in results if result.set == test_set}
        order = [of[score] for score in ("nearest", "image-centroid", "patient-centroid")]
        yield Finding(
            f"{test_set}: nearest < image-weighted < patient-weighted centroid, top-1",
            order[0] < order[1] < order[2],
            " / ".join(f"{value:.2f}" for value in order),
        )


def _full_method(tables: Tables) -> Iterator[Finding]:
    for result in rows_of(tables, "headline", Result):
        if result.method == FULL and result.p_top5 is not None:
            yield Finding(
                f"{result.set}: the full method beats the baseline, top-5",
                result.delta_top5 > 0 and result.p_top5 < SIGNIFICANT,
                f"{result.delta_top5:+.2f} points, p {result.p_top5:.4f}",
            )


def _validation(tables: Tables) -> Iterator[Finding]:
    lines = {line.score: line.top1 for line in rows_of(tables, "validation_centroids", CentroidLine)}
    if lines:
        gain = lines["patient-centroid"] - lines["image-centroid"]
        low, high = PATIENT_OVER_IMAGE_WEIGHTED
        found = f"{gain:+.2f} points, published {low:+.2f} to {high:+.2f}"
        yield Finding("validation: patient-weighted beats image-weighted centroid, top-1", gain > 0, found)


def _beyond_best_image(tables: Tables) -> Iterator[Finding]:
    for line in rows_of(tables, "oracle_per_patient", oracle.AgainstBestImage):
        if line.approach.endswith("fusion"):
            low, high = BETTER_THAN_BEST_IMAGE
            found = f"{line.better:.1f} % of patients, published {low:g} to {high:g} %"
            claim = f"{line.set}: {line.approach} beats every single image of some patients"
            yield Finding(claim, line.better > 0, found)


def _rank_changes(tables: Tables) -> Iterator[Finding]:
    for change in rows_of(tables, "rank_changes", Change):
        if change.stage == "full":
            yield Finding(
                f"{change.set}: more patients improve than worsen",
                change.improved > change.worsened,
                f"{change.improved:.1f} % against {change.worsened:.1f} %",
            )


def _lambdas(tables: Tables) -> Iterator[Finding]:
    for line in rows_of(tables, "lambda_selection", LambdaLine):
        if line.selected:
            found = f"{line.centroid_weight:g} is chosen"
            yield Finding("validation chooses lambda 0.75", line.centroid_weight == LAMBDA, found)
    curves = rows_of(tables, "lambda_sensitivity", SensitivityLine)
    for best in rows_of(tables, "best_lambda", BestLambda):
        ends = [line.objective for line in curves if line.set == best.set and line.centroid_weight in {0.0, 1.0}]
        if best.set == "freq":
            inside = 0 < best.centroid_weight < 1 and best.objective > max(ends)
            found = f"{best.centroid_weight:g}, {best.objective - ends[1]:.2f} points above lambda 1"
            yield Finding("freq: the best lambda lies between 0 and 1", inside, found)
        elif best.set == "rare":
            near = best.centroid_weight >= NEAR_ONE
            yield Finding(f"{best.set}: the best lambda is near 1", near, f"{best.centroid_weight:g}")


def _distances(tables: Tables) -> Iterator[Finding]:
    for group in rows_of(tables, "distances", Group):
        published = DISTANCES[group.group].mean
        yield Finding(
            f"{group.group}: mean distance within {DISTANCE_TOLERANCE} of the published one",
            abs(group.mean - published) <= DISTANCE_TOLERANCE,
            f"{group.mean:.3f}, published {published}",
        )


def _oracle(tables: Tables) -> Iterator[Finding]:
    lines = rows_of(tables, "oracle", oracle.OracleLine)
    for test_set in dict.fromkeys(line.set for line in lines):
        [best] = [line for line in lines if line.set == test_set and line.approach == oracle.ORACLE]
        fused = [line for line in lines if line.set == test_set and line.approach.endswith("fusion")]
        yield Finding(
            f"{test_set}: no fusion reaches the best single image at top-1",
            all(line.top1 < best.top1 for line in fused),
            f"{best.top1:.1f} against {' and '.join(f'{line.top1:.1f}' for line in fused)}",
        )


def _proportional(tables: Tables) -> Iterator[Finding]:
    for alpha in BOTH_SETS_IMPROVE_FOR_ALPHA:
        lines = [
            line
            for line in rows_of(tables, "proportional", AlphaLine)
            if line.alpha == alpha and line.gallery == "unified"
        ]
        if lines:
            yield Finding(
                f"proportional nearest improves both sets at alpha {alpha}, top-5",
                all(line.delta_top5 > 0 for line in lines),
                ", ".join(f"{line.set} {line.delta_top5:+.2f}" for line in lines),
            )


_CHECKS = (
    *(_centroids, _validation, _full_method, _rank_changes, _lambdas, _distances, _oracle, _beyond_best_image),
    _proportional,
)

"""The published values for the rows of a table: numbers, or words where the paper gives a bound or a range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mien.evaluation import published
from mien.evaluation.experiments.confounders import Correlation
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.growth import Growth
from mien.evaluation.experiments.lambda_selection import BestOnValidation, CentroidGain
from mien.evaluation.experiments.lambda_sensitivity import BestLambda
from mien.evaluation.experiments.number_of_images import ImagesUsed
from mien.evaluation.experiments.oracle import APPROACHES, OracleLine
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.experiments.splits import SplitLine
from mien.evaluation.results import Result

Values = dict[str, Any]  # by field


def published_values(row: NamedTuple) -> Values:
    """The published values for a row, by field; empty for most rows."""
    return PRINTED.get(type(row), lambda _: {})(row)


def _fields(line: NamedTuple | None) -> Values:
    return line._asdict() if line else {}


def _best_lambda(row: BestLambda) -> Values:
    printed = published.BEST_LAMBDA[row.set]
    return {
        "centroid_weight": printed.centroid_weight,
        "cost_of_chosen": f"{'' if row.set == 'multi-rare' else 'at most '}{printed.cost_of_chosen}",
        "plateau_spread": f"at most {published.PLATEAU_SPREAD}",
        "largest_fall": "none" if row.set.endswith("rare") else None,
    }


def _images_used(row: ImagesUsed) -> Values:
    second = row[:3] == ("multi-freq", 2, 2) and row.approach != "single image"
    return {"gain_top1": "roughly {:g} to {:g}".format(*published.SECOND_IMAGE_GAIN)} if second else {}


def _oracle(row: OracleLine) -> Values:
    if method := APPROACHES.get(row.approach):
        return _fields(published.ACCURACY[row.set].get((method.fusion, row.score)))
    return _fields(published.ORACLE.get(row.set)) if row.score == "nearest" else {}


PRINTED: dict[type, Callable[[Any], Values]] = {
    Result: lambda row: _fields(published.published_accuracy(row.set, row.method)) if row.gallery == "unified" else {},
    SplitLine: lambda row: (
        published.SPLITS[row.part]._asdict() | {"images_per_patient": published.IMAGES_PER_PATIENT.get(row.part)}
    ),
    Change: lambda row: published.RANK_CHANGE.get((row.set, row.stage), {}),
    Group: lambda row: published.DISTANCES[row.group],
    # the study stands beside the last release
    Growth: lambda row: {} if row.released else published.SPLITS["total"]._asdict(),
    BestOnValidation: lambda row: {"centroid_weight": published.BEST_ON_VALIDATION[row.measure]},
    CentroidGain: lambda _: {"mean_gain": "{:.2f} to {:.2f}".format(*published.PATIENT_OVER_IMAGE_WEIGHTED)},
    BestLambda: _best_lambda,
    ImagesUsed: _images_used,
    OracleLine: _oracle,
    Correlation: lambda row: {"rho": published.CONFOUNDERS.get((row.set, row.variable))},
}

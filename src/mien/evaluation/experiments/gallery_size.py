"""S7: who gains from centroids, by the number of gallery images of the true disorder."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import Ranks, SetName, only
from mien.evaluation.experiment_context import ExperimentContext, Tables

BINS = 5
METHODS = {
    "baseline": BASELINE,
    "image-weighted centroid": Method("none", "image-centroid"),
    "patient-weighted centroid": Method("none", "patient-centroid"),
    "hybrid": Method("none", "hybrid"),
}


class SizeLine(NamedTuple):
    """Accuracy for patients whose disorder has so many gallery images."""

    set: SetName
    bin: int
    least_images: int
    most_images: int
    patients: float  # in a fold, on average
    method: str
    top1: float
    top5: float
    top10: float


def run(context: ExperimentContext) -> Tables:
    """Quintiles of the test patients, each image alone, unified gallery."""
    lines: list[SizeLine] = []
    for test_set in context.all_patients:
        folds_of = {name: context.ranks(test_set, method) for name, method in METHODS.items()}
        sizes = [_gallery_images(fold) for fold in folds_of["baseline"]]
        lower = -1  # so that a disorder that the gallery lacks is in the first bin
        for number, upper in enumerate(quantile_bins(np.concatenate(sizes), BINS)):
            inside = [(of_fold > lower) & (of_fold <= upper) for of_fold in sizes]
            least = min(int(of_fold[of_fold > lower].min()) for of_fold in sizes if of_fold.max() > lower)
            patients = float(np.mean([chosen.sum() for chosen in inside]))
            for name, folds in folds_of.items():
                chosen_folds = [fold for fold in map(only, folds, inside) if fold.patients]
                lines.append(SizeLine(test_set, number, least, upper, patients, name, *tops(chosen_folds)[:3]))
            lower = upper
    return {"gallery_size": lines}


def quantile_bins(values: Ints, bins: int) -> list[int]:
    """Upper bounds of bins that hold as equal numbers of values as they can; equal values stay together.

    >>> quantile_bins(np.array([1, 1, 1, 2, 3, 9]), 3)
    [1, 2, 9]
    """
    distinct, counts = np.unique(values, return_counts=True)
    below = np.cumsum(counts)
    uppers = {int(distinct[np.abs(below - len(values) * part / bins).argmin()]) for part in range(1, bins)}
    return sorted(uppers | {int(distinct[-1])})


def _gallery_images(fold: Ranks) -> Ints:
    """How many images each patient's disorder has in the gallery."""
    images = Counter(label.disorder_id for label in fold.fold.unified_gallery)
    return np.array([images[patient.disorder_id] for patient in fold.patients], dtype=np.intp)

"""Accuracy of methods on the test sets, with p-values and intervals against the baseline."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import pooled_outcomes, tops
from mien.evaluation.bootstrap import RESAMPLES, Interval, bootstrap_means, interval_of
from mien.evaluation.comparison import Comparison, GalleryName, Ranks, SetName
from mien.evaluation.evaluated_patients import PARTS
from mien.evaluation.outcomes import MISSED

TESTED_TOP = 5  # less noisy than top-1, more clinical than top-10


class Result(NamedTuple):
    """One line of the paper's tables. Accuracies are percentages, differences percentage points."""

    set: SetName
    gallery: GalleryName
    method: Method
    top1: float
    top5: float
    top10: float
    top30: float
    against: str  # the method that the following are differences to: it has no interval itself
    delta_top1: float
    ci_low_top1: float | None
    ci_high_top1: float | None
    p_top1: float | None
    delta_top5: float
    ci_low_top5: float | None
    ci_high_top5: float | None
    p_top5: float | None
    images: float  # in a fold, on average
    patients: float
    disorders: float
    folds: int

    @property
    def fusion(self) -> str:
        """How photos were combined."""
        return self.method.fusion

    @property
    def score(self) -> str:
        """How disorders were scored."""
        return self.method.score


def evaluate(
    comparison: Comparison,
    methods: Sequence[Method],
    *,
    seed: int = 0,
    sets: Sequence[SetName] | None = None,
    galleries: Sequence[GalleryName] | None = None,
    against: Method = BASELINE,
    per_image: bool = False,
) -> list[Result]:
    """Every method on every set and gallery, beside one of them; all of a set on the same bootstrap draws."""
    chosen = [test_set for test_set in comparison.sets if sets is None or test_set in sets]
    results = []
    for test_set, gallery in product(chosen, galleries or comparison.galleries):
        baseline = comparison.ranks(test_set, gallery, against)
        ranks = [comparison.ranks(test_set, gallery, method) for method in methods]
        of_baseline = tops(baseline, per_image=per_image)
        images, patients, disorders = _mean_sizes(baseline)
        of_tops: Sequence[Sequence[Interval | None]] = [[None] * len(methods)] * 2
        if not per_image:  # the bootstrap is of the paper's measure
            rng = np.random.default_rng([seed, zlib.crc32(f"{test_set} {gallery}".encode())])
            of_tops = paired_intervals(baseline, ranks, tops=(1, TESTED_TOP), rng=rng)
        for method, folds, *intervals in zip(methods, ranks, *of_tops, strict=True):
            top1, top5 = (interval if interval and method != against else (None,) * 3 for interval in intervals)
            found = tops(folds, per_image=per_image)
            results.append(
                Result(
                    *(test_set, gallery, method, *found),
                    against=str(against),
                    delta_top1=found.top1 - of_baseline.top1,
                    ci_low_top1=top1[0],
                    ci_high_top1=top1[1],
                    p_top1=top1[2],
                    delta_top5=found.top5 - of_baseline.top5,
                    ci_low_top5=top5[0],
                    ci_high_top5=top5[1],
                    p_top5=top5[2],
                    images=images,
                    patients=patients,
                    disorders=disorders,
                    folds=len(baseline),
                )
            )
    return results


def _mean_sizes(folds: Sequence[Ranks]) -> tuple[float, float, float]:
    """Test images, patients and disorders in a fold, on average."""
    images = np.mean([sum(len(patient.images) for patient in fold.patients) for fold in folds])
    patients = np.mean([len(fold.patients) for fold in folds])
    disorders = np.mean([len({patient.disorder_id for patient in fold.patients}) for fold in folds])
    return float(images), float(patients), float(disorders)


def paired_intervals(
    baseline: Sequence[Ranks],
    others: Sequence[Sequence[Ranks]],
    *,
    tops: Sequence[int],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> list[list[Interval]]:
    """95 % intervals and p-values of the differences to the baseline, in points, for each top and each method.

    All are of the same draws.
    """
    of_baseline = [pooled_outcomes(baseline, top=top) for top in tops]
    differences = [
        pooled_outcomes(folds, top=top).outcomes - base.outcomes
        for top, base in zip(tops, of_baseline, strict=True)
        for folds in others
    ]
    drawn = bootstrap_means(
        100 * np.array(differences),
        of_baseline[0].folds_of_patient,
        of_baseline[0].disorder_of_patient,
        weight_of_disorder=of_baseline[0].weight_of_disorder,
        rng=rng,
        resamples=resamples,
    )
    intervals = [interval_of(of_method) for of_method in drawn]
    return [intervals[start : start + len(others)] for start in range(0, len(intervals), len(others))]


class PatientRank(NamedTuple):
    """The rank of a test patient's disorder, by one method in one fold."""

    set: SetName
    gallery: GalleryName
    fold: int
    patient_id: str
    disorder_id: str
    images: int  # of the patient: those with more than one are the multi-image sets
    image_id: str | None  # that was ranked alone; None: all of the patient's, fused
    method: str
    rank: int | None  # None: the gallery lacks the disorder


def patient_ranks(comparison: Comparison, methods: Sequence[Method], image_ids: Sequence[str]) -> Iterator[PatientRank]:
    """What accuracies are means of: a row per ranking. `image_ids` are those of the compared encodings."""
    number_of_fold = {id(fold): number for number, fold in enumerate(comparison.folds)}
    parts = [name for name in comparison.sets if name in PARTS]
    for test_set, gallery, method in product(parts, comparison.galleries, methods):
        for fold in comparison.ranks(test_set, gallery, method):
            images = [
                image for patient in fold.patients for image in patient.images
            ]  # in the order of unfused rankings
            for place, (rank, number) in enumerate(zip(fold.ranks.tolist(), fold.patient_of_ranking, strict=True)):
                patient = fold.patients[number]
                yield PatientRank(
                    *(test_set, gallery, number_of_fold[id(fold.fold)]),
                    *(patient.patient_id, patient.disorder_id, len(patient.images)),
                    image_ids[images[place]] if method.fusion == "none" else None,
                    str(method),
                    None if rank == MISSED else rank,
                )


def not_in_gallery(comparison: Comparison) -> dict[GalleryName, list[str]]:
    """Test patients whose disorder the gallery of their fold lacks: they are misses at every N."""
    missed: dict[GalleryName, set[str]] = {gallery: set() for gallery in comparison.galleries}
    for gallery, patient_ids in missed.items():
        for test_set in comparison.sets:
            for ranks, patient_of_ranking, patients, _ in comparison.ranks(test_set, gallery, BASELINE):
                patient_ids |= {
                    patients[patient].patient_id for patient in patient_of_ranking[ranks == MISSED].tolist()
                }
    return {gallery: sorted(patient_ids) for gallery, patient_ids in missed.items()}

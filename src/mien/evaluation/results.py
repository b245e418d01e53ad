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
    return [
        result
        for test_set in comparison.sets
        if sets is None or test_set in sets
        for gallery in galleries or comparison.galleries
        for result in _results(comparison, methods, test_set, gallery, seed, against=against, per_image=per_image)
    ]


def _results(
    comparison: Comparison,
    methods: Sequence[Method],
    test_set: SetName,
    gallery: GalleryName,
    seed: int,
    *,
    against: Method,
    per_image: bool,
) -> Iterator[Result]:
    baseline = comparison.ranks(test_set, gallery, against)
    ranks = [comparison.ranks(test_set, gallery, method) for method in methods]
    accuracies = [tops(folds, per_image=per_image) for folds in ranks]
    of_baseline = tops(baseline, per_image=per_image)
    of_top1: Sequence[Interval | None] = [None] * len(methods)
    of_top5: Sequence[Interval | None] = [None] * len(methods)
    if not per_image:  # the bootstrap is of the paper's measure
        rng = np.random.default_rng([seed, zlib.crc32(f"{test_set} {gallery}".encode())])
        of_top1, of_top5 = paired_intervals(baseline, ranks, tops=(1, TESTED_TOP), rng=rng)
    for method, of_method, *intervals in zip(methods, accuracies, of_top1, of_top5, strict=True):
        top1, top5 = (interval if interval and method != against else (None,) * 3 for interval in intervals)
        yield Result(
            *(test_set, gallery, method),
            top1=of_method.top1,
            top5=of_method.top5,
            top10=of_method.top10,
            top30=of_method.top30,
            against=str(against),
            delta_top1=of_method.top1 - of_baseline.top1,
            ci_low_top1=top1[0],
            ci_high_top1=top1[1],
            p_top1=top1[2],
            delta_top5=of_method.top5 - of_baseline.top5,
            ci_low_top5=top5[0],
            ci_high_top5=top5[1],
            p_top5=top5[2],
            images=float(np.mean([sum(len(case.images) for case in fold.cases) for fold in baseline])),
            patients=float(np.mean([len(fold.cases) for fold in baseline])),
            disorders=float(np.mean([len({case.disorder_id for case in fold.cases}) for fold in baseline])),
            folds=len(baseline),
        )


def paired_intervals(
    baseline: Sequence[Ranks],
    others: Sequence[Sequence[Ranks]],
    *,
    tops: Sequence[int],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> list[list[Interval]]:
    """95 % intervals and p-values of the differences to the baseline in percentage points: for each top, each method.

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
        of_baseline[0].folds_of_case,
        of_baseline[0].disorder_of_case,
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
    parts = [name for name in comparison.sets if not name.startswith("multi")]
    for test_set, gallery, method in product(parts, comparison.galleries, methods):
        for fold in comparison.ranks(test_set, gallery, method):
            images = [image for case in fold.cases for image in case.images]  # in the order of unfused rankings
            for place, (rank, number) in enumerate(zip(fold.ranks.tolist(), fold.case_of_ranking, strict=True)):
                case = fold.cases[number]
                yield PatientRank(
                    *(test_set, gallery, number_of_fold[id(fold.round)]),
                    *(case.patient_id, case.disorder_id, len(case.images)),
                    image_ids[images[place]] if method.fusion == "none" else None,
                    str(method),
                    None if rank == MISSED else rank,
                )


def not_in_gallery(comparison: Comparison) -> dict[GalleryName, list[str]]:
    """Test patients whose disorder the gallery of their fold lacks: they are misses at every N."""
    missed: dict[GalleryName, set[str]] = {gallery: set() for gallery in comparison.galleries}
    for gallery, patient_ids in missed.items():
        for test_set in comparison.sets:
            for ranks, case_of_ranking, cases, _ in comparison.ranks(test_set, gallery, BASELINE):
                patient_ids |= {cases[case].patient_id for case in case_of_ranking[ranks == MISSED].tolist()}
    return {gallery: sorted(patient_ids) for gallery, patient_ids in missed.items()}

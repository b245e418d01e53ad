"""Accuracy of methods on the test sets, with p-values and intervals against the baseline."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from mien.core.method import BASELINE, Method
from mien.evaluation.accuracy import pooled_outcomes, tops
from mien.evaluation.bootstrap import Interval, bootstrap_means, interval_of
from mien.evaluation.comparison import Comparison, GalleryName, Ranks, SetName
from mien.evaluation.evaluated_patients import PARTS
from mien.evaluation.outcomes import MISSED

TESTED_TOPS = (1, 5)  # top-5 is less noisy than top-1, more clinical than top-10
NO_INTERVAL = Interval()


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
        reference = comparison.ranks(test_set, gallery, against)
        ranks = [comparison.ranks(test_set, gallery, method) for method in methods]
        of_reference = tops(reference, per_image=per_image)
        of_folds = [  # images, patients, disorders
            (sum(len(who.images) for who in tested), len(tested), len({who.disorder_id for who in tested}))
            for tested in (fold.patients for fold in reference)
        ]
        images, patients, disorders = np.mean(of_folds, axis=0).tolist()
        intervals: list[tuple[Interval, ...]] = [(NO_INTERVAL, NO_INTERVAL)] * len(methods)
        if not per_image:  # the bootstrap is of the paper's measure
            rng = np.random.default_rng([seed, zlib.crc32(f"{test_set} {gallery}".encode())])
            intervals = paired_intervals(reference, ranks, rng=rng)
        for method, folds, own in zip(methods, ranks, intervals, strict=True):
            found = tops(folds, per_image=per_image)
            top1, top5 = own if method != against else (NO_INTERVAL, NO_INTERVAL)
            results.append(
                Result(
                    *(test_set, gallery, method, *found),
                    against=str(against),
                    delta_top1=found.top1 - of_reference.top1,
                    ci_low_top1=top1[0],
                    ci_high_top1=top1[1],
                    p_top1=top1[2],
                    delta_top5=found.top5 - of_reference.top5,
                    ci_low_top5=top5[0],
                    ci_high_top5=top5[1],
                    p_top5=top5[2],
                    images=images,
                    patients=patients,
                    disorders=disorders,
                    folds=len(reference),
                )
            )
    return results


def paired_intervals(
    reference: Sequence[Ranks], others: Sequence[Sequence[Ranks]], *, rng: np.random.Generator
) -> list[tuple[Interval, ...]]:
    """Of the differences of each method to another one, in points, at `TESTED_TOPS`; all are of the same draws."""
    of_reference = [pooled_outcomes(reference, top=top) for top in TESTED_TOPS]
    differences = [
        pooled_outcomes(folds, top=top).outcomes - base.outcomes
        for folds in others
        for top, base in zip(TESTED_TOPS, of_reference, strict=True)
    ]
    _, folds_of_patient, disorder_of_patient, weights = of_reference[0]
    drawn = bootstrap_means(
        100 * np.array(differences), folds_of_patient, disorder_of_patient, weight_of_disorder=weights, rng=rng
    )
    step = len(TESTED_TOPS)
    return [tuple(map(interval_of, drawn[start : start + step])) for start in range(0, len(drawn), step)]


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
            images = [image for who in fold.patients for image in who.images]  # in the order of unfused rankings
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
            for fold in comparison.ranks(test_set, gallery, BASELINE):
                patient_ids |= {fold.patients[who].patient_id for who in fold.patient_of_ranking[fold.ranks == MISSED]}
    return {gallery: sorted(patient_ids) for gallery, patient_ids in missed.items()}

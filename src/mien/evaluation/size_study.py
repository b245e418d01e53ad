"""Compares methods that know the size of a gallery with `full`, on any cohort and for any sizes of galleries.

Patients are dealt into folds several times. The tuned method is fitted anew in each gallery. Test patients are not in
it, so the gain is what a new patient can expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mien.answers.ranking import searcher_of
from mien.core.arrays import Float64s, Ints
from mien.core.cohort import Cohort
from mien.core.method import FULL, Method
from mien.core.roster import Label
from mien.core.study import Study
from mien.errors import InvalidCalibrationError
from mien.evaluation.accuracy import numbered
from mien.evaluation.bootstrap import RESAMPLES, bootstrap_means, interval_95
from mien.evaluation.known_patients import estimates_of_tested, unseen_by_encoder
from mien.evaluation.outcomes import MEASURES, mean_per_disorder, rank_measures, true_ranks
from mien.evaluation.tuning import tune
from mien.progress import Progress, silent

SIZE_AWARE = Method("embedding", "size-aware")
METHODS = ("full", "size-aware", "tuned")


class SizeStudyRow(NamedTuple):
    """A measure of a method, and its difference to `full` in points, with 95 % intervals.

    One interval draws patients within each disorder: the gallery's disorders are given. The other draws disorders too.
    """

    gallery_patients: str  # per disorder
    method: str
    measure: str
    value: float
    difference: float
    low: float
    high: float
    low_of_disorders: float
    high_of_disorders: float
    patients: int
    repeats: int


def size_study(
    studies: Sequence[Sequence[Study]], *, gallery_patients: str, seed: int = 1, progress: Progress = silent
) -> list[SizeStudyRow]:
    """The rows of several cohorts, each dealt several times. They are pooled: an id is one disorder in all of them."""
    outcomes: dict[tuple[int, str, str], list[Float64s]] = {}  # by cohort, patient and disorder
    steps, total = 0, sum(len(study.folds) for of_cohort in studies for study in of_cohort)
    for cohort, of_cohort in enumerate(studies):
        for study in of_cohort:
            for fold in study.folds:
                progress(steps, total)
                steps += 1
                gallery = Cohort.join(study.encodings, (*fold.frequent.gallery, *fold.rare.gallery))
                for patient, of_methods in _outcomes(study, gallery, (*fold.frequent.test, *fold.rare.test)):
                    outcomes.setdefault((cohort, *patient), []).append(of_methods)
    progress(total, total)
    of_patient = np.array([np.mean(each, axis=0) for each in outcomes.values()])  # (patients, measures, methods)
    disorder = numbered([disorder_id for _, _, disorder_id in outcomes])
    rows = []
    for place, method in enumerate(METHODS):
        for column, measure in enumerate(MEASURES):
            values = of_patient[:, column, place]
            difference = values - of_patient[:, column, 0]
            mean, gain = (mean_per_disorder(of, disorder) for of in (values, difference))
            ranges = intervals(difference, disorder, seed=seed)
            counts = len(outcomes), len(studies[0])
            rows.append(SizeStudyRow(gallery_patients, method, measure, mean, gain, *ranges, *counts))
    return rows


def _outcomes(study: Study, gallery: Cohort, test: Sequence[Label]) -> Iterator[tuple[tuple[str, str], Float64s]]:
    """The measures (measures, methods) of each test patient, by patient and disorder."""
    try:
        others, trained = unseen_by_encoder(study)
        tuned = tune(gallery, cohort=others, trained=trained).method
    except InvalidCalibrationError:  # too few patients to learn from
        tuned = FULL
    for patients, true, estimates in estimates_of_tested(study, test, searcher_of(gallery), FULL):
        distances = [estimates.distances(method) for method in (FULL, SIZE_AWARE, tuned)]
        found = rank_measures(np.array([true_ranks(of_method, true) for of_method in distances]))
        for number, patient in enumerate(patients):
            yield (patient.patient_id, patient.disorder_id), found[..., number]


def intervals(differences: Float64s, disorder: Ints, *, seed: int) -> tuple[float, float, float, float]:
    """95 % intervals of the mean per disorder: patients are drawn within each disorder; disorders are drawn too."""
    rng = np.random.default_rng([seed, 4])
    given = np.zeros(RESAMPLES)
    for each in range(int(disorder.max()) + 1):
        inside = differences[disorder == each]
        counts = rng.multinomial(len(inside), np.full(len(inside), 1 / len(inside)), size=RESAMPLES)
        given += counts @ inside / len(inside) / (disorder.max() + 1)
    ones = np.ones(len(disorder), np.intp)
    [drawn] = bootstrap_means(differences[np.newaxis], ones, disorder, rng=rng)
    return *interval_95(given), *interval_95(drawn)

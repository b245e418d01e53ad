"""Measures how far probabilities can be trusted, on patients that the calibration has never seen.

Each test patient is asked about twice: with the gallery as it is, and as if it did not have the patient's disorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from mien.answers.calibration import COVERAGE, PRIOR_OF_NONE, Calibration
from mien.answers.ranking import searcher_of
from mien.core.arrays import Ints
from mien.core.cohort import Cohort
from mien.core.method import Method
from mien.core.roster import Label
from mien.core.study import Study
from mien.evaluation.accuracy import numbered
from mien.evaluation.bootstrap import bootstrap_means, interval_95
from mien.evaluation.calibrating import calibrate
from mien.evaluation.evaluated_patients import EvaluatedPatient
from mien.evaluation.evidence_model import disorder_shares
from mien.evaluation.known_patients import estimates_of_tested, unseen_by_encoder
from mien.progress import Progress, silent

BINS = 10
FALSE_RATIO = 1.0  # log10: tenfold
SMALLEST = 1e-12  # probability: the logarithm of zero is no number


class CalibrationOutcome(NamedTuple):
    """What was said of one test patient, in one fold."""

    patient: EvaluatedPatient
    first: float  # probability of the first disorder
    right: bool
    true: float  # probability of the true disorder
    in_set: bool
    set_size: int
    none: float  # probability of "none of these"
    none_if_absent: float  # the same, without the patient's disorder in the gallery
    first_if_absent: float
    largest_ratio_if_absent: float  # log10


class CalibrationMeasures(NamedTuple):
    """One row: a test set, or the patients of a subgroup. Every disorder counts the same."""

    set: str
    group: str
    method: Method
    patients: int
    disorders: int
    folds: int
    top1: float  # percentages, as everywhere
    top1_low: float  # 95 % interval
    top1_high: float
    negative_log_likelihood: float  # of the true disorder, of patients whose disorder is there
    calibration_error: float  # with as many absent disorders as the prior says
    coverage: float
    coverage_low: float
    coverage_high: float
    set_size: float
    auroc_none: float  # is the disorder in the gallery at all?
    false_ratios: float  # share of patients with an absent disorder for whom some ratio is above ten


class ReliabilityPoint(NamedTuple):
    """Answers that were about as sure: what they said, and how often they were right."""

    set: str
    patients: float
    said: float
    right: float


def calibration_rows(
    studies: Sequence[Study],
    method: Method,
    *,
    coverage: float = COVERAGE,
    by: str | None = None,
    group_of_image: Sequence[str | None] | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> tuple[list[CalibrationMeasures], dict[str, list[CalibrationOutcome]]]:
    """Rows for each test set, for both together, and for each subgroup of them; and the outcomes of each set.

    The studies are one cohort, with its patients dealt into folds once for each.
    """
    by_set: dict[str, list[CalibrationOutcome]] = {"freq": [], "rare": []}
    rounds = [(study, fold) for study in studies for fold in study.folds]
    for done, (study, fold) in enumerate(rounds):
        progress(done, len(rounds))
        gallery = Cohort.join(study.encodings, (*fold.frequent.gallery, *fold.rare.gallery))
        others, trained = unseen_by_encoder(study)
        calibration = calibrate(gallery, method, cohort=others, trained=trained, seed=seed)
        for outcomes, split in zip(by_set.values(), fold, strict=True):
            outcomes.extend(_outcomes(study, split.test, gallery, calibration, method, coverage))
    progress(len(rounds), len(rounds))
    found = {name: outcomes for name, outcomes in by_set.items() if outcomes}
    if len(found) > 1:
        found["all"] = [outcome for outcomes in found.values() for outcome in outcomes]
    rows = []
    for name, outcomes in found.items():
        row_of = partial(measures, name=name, method=method, folds=len(rounds), seed=seed)
        rows.append(row_of(outcomes, group=""))
        for group, chosen in subgroups(outcomes, group_of_image).items() if group_of_image else ():
            rows.append(row_of(chosen, group=f"{by} {group}"))
    return rows, found


def _outcomes(
    study: Study, test: Sequence[Label], gallery: Cohort, calibration: Calibration, method: Method, coverage: float
) -> Iterator[CalibrationOutcome]:
    """Asks a gallery about the test patients of a fold."""
    ids = [disorder.disorder_id for disorder in gallery.roster.disorders]
    for patients, true, estimates in estimates_of_tested(study, test, searcher_of(gallery), method):
        known = estimates.gallery_patients, estimates.photos, ids, coverage
        distances = estimates.distances(method)
        without = distances.copy()
        without[np.arange(len(true)), true] = np.inf
        answers, answers_without = calibration.sureness(distances, *known), calibration.sureness(without, *known)
        firsts = np.argmin(distances, axis=1).tolist(), np.argmin(without, axis=1).tolist()
        for patient, disorder, answer, absent, first, first_if_absent in zip(
            patients, true.tolist(), answers, answers_without, *firsts, strict=True
        ):
            yield CalibrationOutcome(
                patient=patient,
                first=float(answer.probabilities[first]),
                right=first == disorder,
                true=float(answer.probabilities[disorder]),
                in_set=bool(answer.in_set[disorder]),
                set_size=int(answer.in_set.sum()),
                none=answer.none_of_these,
                none_if_absent=absent.none_of_these,
                first_if_absent=float(absent.probabilities[first_if_absent]),
                largest_ratio_if_absent=float(absent.log10_ratios.max()),
            )


def measures(
    outcomes: Sequence[CalibrationOutcome], *, name: str, group: str, method: Method, folds: int, seed: int
) -> CalibrationMeasures:
    """The measures of some outcomes: one row."""
    disorder = numbered([outcome.patient.disorder_id for outcome in outcomes])
    weights = disorder_shares(disorder)

    def mean(values: Iterable[float]) -> float:
        return float(weights @ np.fromiter(values, float))

    top1 = _mean_and_interval([each.right for each in outcomes], outcomes, seed)
    coverage = _mean_and_interval([each.in_set for each in outcomes], outcomes, seed)
    said_none = [each.none for each in outcomes] + [each.none_if_absent for each in outcomes]
    is_absent = np.repeat([False, True], len(outcomes))
    return CalibrationMeasures(
        set=name,
        group=group,
        method=method,
        patients=len({each.patient.patient_id for each in outcomes}),
        disorders=int(disorder.max()) + 1,
        folds=folds,
        top1=100 * top1[0],
        top1_low=100 * top1[1],
        top1_high=100 * top1[2],
        negative_log_likelihood=-mean(np.log(max(each.true, SMALLEST)) for each in outcomes),
        calibration_error=calibration_error(reliability_points(outcomes, name=name)),
        coverage=100 * coverage[0],
        coverage_low=100 * coverage[1],
        coverage_high=100 * coverage[2],
        set_size=mean(each.set_size for each in outcomes),
        # how often "none of these" is likelier for a patient whose disorder is absent than for one whose is there
        auroc_none=float(roc_auc_score(is_absent, said_none, sample_weight=np.tile(weights, 2))),
        false_ratios=100 * mean(each.largest_ratio_if_absent > FALSE_RATIO for each in outcomes),
    )


def reliability_points(outcomes: Sequence[CalibrationOutcome], *, name: str) -> list[ReliabilityPoint]:
    """Answers by how sure they were of the first disorder; absent disorders are as many as the prior says."""
    disorder = numbered([outcome.patient.disorder_id for outcome in outcomes])
    weights = disorder_shares(disorder)
    said = np.array([each.first for each in outcomes] + [each.first_if_absent for each in outcomes])
    right = np.array([each.right for each in outcomes] + [False] * len(outcomes))
    share = np.concatenate([(1 - PRIOR_OF_NONE) * weights, PRIOR_OF_NONE * weights])
    bin_of = np.minimum((said * BINS).astype(int), BINS - 1)
    found = []
    for number in np.unique(bin_of).tolist():
        inside = bin_of == number
        total = share[inside].sum()
        of_bin = (float(share[inside] @ values[inside] / total) for values in (said, right))
        found.append(ReliabilityPoint(name, float(total * len(outcomes)), *of_bin))
    return found


def calibration_error(points: Sequence[ReliabilityPoint]) -> float:
    """How far what was said is from how often it was right, on average over answers (eq:calibration-error).

    >>> round(calibration_error([ReliabilityPoint("freq", 30, 0.9, 0.8), ReliabilityPoint("freq", 10, 0.5, 0.5)]), 3)
    0.075
    """
    total = sum(point.patients for point in points)
    return sum(point.patients * abs(point.said - point.right) for point in points) / total


def _mean_and_interval(
    values: Sequence[bool], outcomes: Sequence[CalibrationOutcome], seed: int
) -> tuple[float, float, float]:
    """Mean per disorder, and its 95 % interval when disorders and patients are drawn again."""
    patients = [(each.patient.patient_id, each.patient.disorder_id) for each in outcomes]
    number_of_patient = numbered(patients)
    times: Ints = np.bincount(number_of_patient)
    of_patient = np.bincount(number_of_patient, weights=values) / times
    disorder_of_patient = numbered([disorder_id for _, disorder_id in dict.fromkeys(patients)])
    drawn = bootstrap_means(of_patient[np.newaxis], times, disorder_of_patient, rng=np.random.default_rng([seed, 2]))[0]
    weights = times / np.bincount(disorder_of_patient, weights=times)[disorder_of_patient]
    return float(weights @ of_patient / weights.sum()), *interval_95(drawn)


def subgroups(
    outcomes: Sequence[CalibrationOutcome], group_of_image: Sequence[str | None]
) -> dict[str, list[CalibrationOutcome]]:
    """The outcomes of each value of a column; a patient's first image with a value says it."""
    found: dict[str, list[CalibrationOutcome]] = {}
    for outcome in outcomes:
        groups = (group for image in outcome.patient.images if (group := group_of_image[image]))
        found.setdefault(next(groups, "unknown"), []).append(outcome)
    return dict(sorted(found.items()))

"""Measures how far probabilities can be trusted, on patients that the calibration has never seen.

Each test patient is asked about twice: with the gallery as it is, and as if it did not have the patient's disorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float64s, Ints
from mien.core.calibration import COVERAGE, PRIOR_OF_NONE
from mien.core.cohort import Cohort, Query
from mien.core.method import Method
from mien.core.progress import Progress, silent
from mien.core.ranking import searcher_of
from mien.core.study import Fold, ImageFacts, Study
from mien.evaluation.accuracy import numbered
from mien.evaluation.bootstrap import bootstrap_means
from mien.evaluation.calibrating import calibrate
from mien.evaluation.evaluated_patients import EvaluatedPatient, cases_of
from mien.evaluation.evidence_model import disorder_shares
from mien.evaluation.known_patients import unseen_by_encoder

BINS = 10
FALSE_RATIO = 1.0  # log10: tenfold
SMALLEST = 1e-12  # probability: the logarithm of zero is no number
AGES = {2: "under 2", 12: "2 to 11", 18: "12 to 17"}  # years


def _age_group(facts: ImageFacts | None) -> str | None:
    if facts is None or facts.age_years is None:
        return None
    return next((group for end, group in AGES.items() if facts.age_years < end), "18 and older")


FACTS: Mapping[str, Callable[[ImageFacts | None], str | None]] = {
    "sex": lambda facts: facts.sex if facts else None,
    "age": _age_group,
}


class CalibrationOutcome(NamedTuple):
    """What was said of one test patient, in one fold."""

    case: EvaluatedPatient
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


def calibration_outcomes(
    study: Study, method: Method, *, coverage: float = COVERAGE, seed: int = 1, progress: Progress = silent
) -> dict[str, list[CalibrationOutcome]]:
    """Calibrates on each fold's gallery, and asks about its test patients; by test set."""
    found: dict[str, list[CalibrationOutcome]] = {"freq": [], "rare": []}
    for number, fold in enumerate(study.folds):
        progress(number, len(study.folds))
        for name, outcomes in _of_fold(study, fold, method, coverage, seed).items():
            found[name] += outcomes
    progress(len(study.folds), len(study.folds))
    return {name: outcomes for name, outcomes in found.items() if outcomes}


def _of_fold(
    study: Study, fold: Fold, method: Method, coverage: float, seed: int
) -> dict[str, list[CalibrationOutcome]]:
    gallery = Cohort.join(study.encodings, (*fold.frequent.gallery, *fold.rare.gallery))
    others, trained = unseen_by_encoder(study)
    calibration = calibrate(gallery, method, cohort=others, trained=trained, seed=seed)
    searcher = searcher_of(gallery)
    ids = [disorder.disorder_id for disorder in gallery.roster.disorders]
    column_of = gallery.roster.disorder_of_id
    found: dict[str, list[CalibrationOutcome]] = {}
    for name, split in (("freq", fold.frequent), ("rare", fold.rare)):
        cases = [case for case in cases_of(split.test, study.row_of_image) if case.disorder_id in column_of]
        queries = [Query(study.encodings.only(case.images), case.patient_id) for case in cases]
        case_of = [case for case in cases for _ in case.images] if method.fusion == "none" else cases
        found[name] = []
        for estimates in searcher.estimates(searcher.asked(queries, method.fusion), method):
            batch = case_of[len(found[name]) : len(found[name]) + len(estimates.first_probe)]
            true = np.array([column_of[case.disorder_id] for case in batch])
            rows = np.arange(len(batch))
            distances, others_there = estimates.distances(method), estimates.distances(method)
            others_there[rows, true] = np.inf
            known = estimates.gallery_patients, estimates.photos, ids, coverage
            answers, without = calibration.sureness(distances, *known), calibration.sureness(others_there, *known)
            first, first_without = np.argmin(distances, axis=1), np.argmin(others_there, axis=1)
            found[name] += [
                CalibrationOutcome(
                    case=case,
                    first=float(answer.probabilities[first[row]]),
                    right=bool(first[row] == true[row]),
                    true=float(answer.probabilities[true[row]]),
                    in_set=bool(answer.in_set[true[row]]),
                    set_size=int(answer.in_set.sum()),
                    none=answer.none_of_these,
                    none_if_absent=absent.none_of_these,
                    first_if_absent=float(absent.probabilities[first_without[row]]),
                    largest_ratio_if_absent=float(absent.log10_ratios.max()),
                )
                for row, (case, answer, absent) in enumerate(zip(batch, answers, without, strict=True))
            ]
    return found


def calibration_rows(
    dealt: Sequence[Study],
    method: Method,
    *,
    coverage: float = COVERAGE,
    by: str | None = None,
    group_of_image: Sequence[str | None] | None = None,
    seed: int = 1,
    progress: Progress = silent,
) -> tuple[list[CalibrationMeasures], dict[str, list[CalibrationOutcome]]]:
    """Rows for each test set, for both together, and for each subgroup of them; of a study that was dealt so often."""
    found: dict[str, list[CalibrationOutcome]] = {}
    for number, study in enumerate(dealt):

        def told(done: int, total: int, number: int = number) -> None:
            progress(number * total + done, len(dealt) * total)

        for name, outcomes in calibration_outcomes(study, method, coverage=coverage, seed=seed, progress=told).items():
            found.setdefault(name, []).extend(outcomes)
    if len(found) > 1:
        found["all"] = [outcome for outcomes in found.values() for outcome in outcomes]
    rows = []
    for name, outcomes in found.items():
        facts = {"name": name, "method": method, "folds": sum(len(study.folds) for study in dealt), "seed": seed}
        rows.append(measures(outcomes, group="", **facts))  # type: ignore[arg-type]
        for group, inside in subgroups(outcomes, group_of_image).items() if group_of_image else ():
            chosen = [outcome for outcome, is_in in zip(outcomes, inside.tolist(), strict=True) if is_in]
            rows.append(measures(chosen, group=f"{by} {group}", **facts))  # type: ignore[arg-type]
    return rows, found


def measures(
    outcomes: Sequence[CalibrationOutcome], *, name: str, group: str, method: Method, folds: int, seed: int
) -> CalibrationMeasures:
    """The row of some outcomes."""
    disorder = numbered([outcome.case.disorder_id for outcome in outcomes])
    weights = disorder_shares(disorder)

    def mean(values: Iterable[float]) -> float:
        return float(weights @ np.fromiter(values, float))

    top1, coverage = (
        _mean_and_interval(np.array(values, float), outcomes, seed)
        for values in ([each.right for each in outcomes], [each.in_set for each in outcomes])
    )
    none, none_if_absent = (
        np.array(values) for values in zip(*((each.none, each.none_if_absent) for each in outcomes), strict=True)
    )
    return CalibrationMeasures(
        set=name,
        group=group,
        method=method,
        patients=len({each.case.patient_id for each in outcomes}),
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
        auroc_none=auroc(none_if_absent, none, weights),
        false_ratios=100 * mean(each.largest_ratio_if_absent > FALSE_RATIO for each in outcomes),
    )


def reliability_points(
    outcomes: Sequence[CalibrationOutcome], *, name: str, prior_of_none: float = PRIOR_OF_NONE
) -> list[ReliabilityPoint]:
    """Answers by how sure they were of the first disorder; absent disorders are as many as the prior says."""
    disorder = numbered([outcome.case.disorder_id for outcome in outcomes])
    weights = disorder_shares(disorder)
    said = np.array([each.first for each in outcomes] + [each.first_if_absent for each in outcomes])
    right = np.array([each.right for each in outcomes] + [False] * len(outcomes))
    share = np.concatenate([(1 - prior_of_none) * weights, prior_of_none * weights])
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


def auroc(if_absent: Float64s, if_there: Float64s, weights: Float64s) -> float:
    """How often a patient with an absent disorder gets more for "none of these" than one whose disorder is there.

    >>> auroc(np.array([0.9, 0.2]), np.array([0.1, 0.2]), np.array([0.5, 0.5]))
    0.875
    """
    values, place = np.unique(np.concatenate([if_absent, if_there]), return_inverse=True)
    absent, there = (
        np.bincount(of, weights, minlength=len(values)) for of in (place[: len(weights)], place[len(weights) :])
    )
    return float(absent @ (np.cumsum(there) - there / 2))


def _mean_and_interval(
    values: Float64s, outcomes: Sequence[CalibrationOutcome], seed: int
) -> tuple[float, float, float]:
    """Mean per disorder, and its 95 % interval when disorders and patients are drawn again."""
    cases = [(each.case.patient_id, each.case.disorder_id) for each in outcomes]
    number_of_case = numbered(cases)
    times: Ints = np.bincount(number_of_case)
    of_case = np.bincount(number_of_case, weights=values) / times
    disorder_of_case = numbered([disorder_id for _, disorder_id in dict.fromkeys(cases)])
    drawn = bootstrap_means(of_case[np.newaxis], times, disorder_of_case, rng=np.random.default_rng([seed, 2]))[0]
    weights = times / np.bincount(disorder_of_case, weights=times)[disorder_of_case]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return float(weights @ of_case / weights.sum()), low, high


def subgroups(outcomes: Sequence[CalibrationOutcome], group_of_image: Sequence[str | None]) -> dict[str, Bools]:
    """Which outcomes belong to each value of a column; a patient's first image with a value says it."""
    groups = [
        next((group for image in each.case.images if (group := group_of_image[image])), "unknown") for each in outcomes
    ]
    return {group: np.array([each == group for each in groups]) for group in sorted(set(groups))}

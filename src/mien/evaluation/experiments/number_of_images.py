"""S5: what the second, third and fourth photo of a patient add, in cohorts that stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mien.core.method import BASELINE
from mien.core.outcomes import mean_per_disorder, patient_outcomes
from mien.evaluation.accuracy import numbered
from mien.evaluation.cases import Case, Round
from mien.evaluation.comparison import Comparison, Ranks, SetName
from mien.evaluation.experiments.oracle import APPROACHES
from mien.evaluation.lab import Lab, Tables

COHORTS = (2, 3, 4)  # patients with at least so many images
SUBSETS = 50

Subsets = dict[Case, dict[int, Counter[tuple[int, ...]]]]  # how often each subset was drawn, by its size


class ImagesUsed(NamedTuple):
    """Accuracy of one approach when so many images of each patient are used."""

    set: SetName
    least_images: int  # that a patient of the cohort has
    used: int
    approach: str
    top1: float
    top5: float
    patients: float  # in a fold, on average


def run(lab: Lab) -> Tables:
    """Nearest-image retrieval in the unified gallery, the mean over random subsets of each patient's images."""
    subsets = _draw(lab)
    rounds = [
        Round(one.frequent_gallery, one.rare_gallery, *(_parts(cases, subsets) for cases in one[2:]))
        for one in lab.comparison.rounds
    ]
    methods = tuple(APPROACHES.values())
    comparison = Comparison(lab.study.encodings, rounds, methods=methods, galleries=["unified"], progress=lab.progress)
    lines: list[ImagesUsed] = []
    for test_set in lab.sets:
        if not test_set.startswith("multi"):
            continue
        part: SetName = "freq" if test_set == "multi-freq" else "rare"
        whole = [fold.cases for fold in lab.comparison.ranks(test_set, "unified", BASELINE)]
        for approach, method in APPROACHES.items():
            folds = comparison.ranks(part, "unified", method)
            lines += [
                _line(test_set, approach, folds, whole, subsets, least, used)
                for least in COHORTS
                for used in range(1, least + 1)
            ]
    return {"number_of_images": [line for line in lines if line.patients]}


def _draw(lab: Lab) -> Subsets:
    rng = lab.rng("number of images")
    cases = {case for one in lab.comparison.rounds for case in (*one.frequent_cases, *one.rare_cases)}
    return {
        case: {
            used: Counter(
                tuple(sorted(rng.choice(case.images, size=used, replace=False).tolist())) for _ in range(SUBSETS)
            )
            for used in range(1, min(len(case.images), max(COHORTS)) + 1)
        }
        for case in sorted(cases)
        if len(case.images) > 1
    }


def _parts(cases: Sequence[Case], subsets: Subsets) -> tuple[Case, ...]:
    """Each distinct subset as a case of its own."""
    return tuple(
        case._replace(images=images)
        for case in cases
        for of_size in subsets.get(case, {}).values()
        for images in of_size
    )


def _line(
    test_set: SetName,
    approach: str,
    folds: Sequence[Ranks],
    whole: Sequence[Sequence[Case]],
    subsets: Subsets,
    least: int,
    used: int,
) -> ImagesUsed:
    tops: list[list[float]] = [[], []]
    patients = []
    for fold, cases in zip(folds, whole, strict=True):
        cohort = [case for case in cases if len(case.images) >= least]
        patients.append(len(cohort))
        if not cohort:
            continue
        place = {case: number for number, case in enumerate(fold.cases)}
        disorder_of_case = numbered([case.disorder_id for case in cohort])
        for accuracies, top in zip(tops, (1, 5), strict=True):
            outcome = patient_outcomes(fold.ranks, fold.case_of_ranking, top=top)
            mean_outcomes = [
                sum(times * outcome[place[case._replace(images=images)]] for images, times in drawn.items()) / SUBSETS
                for case in cohort
                for drawn in [subsets[case][used]]
            ]
            accuracies.append(100 * mean_per_disorder(np.array(mean_outcomes), disorder_of_case))
    top1, top5 = (float(np.mean(accuracies)) if accuracies else 0.0 for accuracies in tops)
    return ImagesUsed(test_set, least, used, approach, top1, top5, float(np.mean(patients)))

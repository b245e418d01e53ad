"""S5: what the second, third and fourth photo of a patient add, in cohorts that stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.evaluation.accuracy import numbered
from mien.evaluation.comparison import Comparison, Ranks, SetName, part_of
from mien.evaluation.evaluated_patients import EvaluatedFold, EvaluatedPatient
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments.oracle import APPROACHES
from mien.evaluation.outcomes import mean_per_disorder, patient_outcomes

COHORTS = (2, 3, 4)  # patients with at least so many images
SUBSETS = 50


class ImagesUsed(NamedTuple):
    """Accuracy of one approach when so many images of each patient are used."""

    set: SetName
    least_images: int  # that a patient of the cohort has
    used: int
    approach: str
    top1: float
    top5: float
    patients: float  # in a fold, on average
    gain_top1: float | None = None  # over one image fewer, in points
    gain_top5: float | None = None


class Subsets(NamedTuple):
    """What was drawn of a fold's multi-image patients: each distinct subset is compared as a patient of its own."""

    subsets: tuple[EvaluatedPatient, ...]
    patient_of_subset: Ints
    used: Ints  # images in it
    times: Ints  # that it was drawn
    images_of_patient: Ints
    disorder_of_patient: Ints


def run(context: ExperimentContext) -> Tables:
    """Nearest-image retrieval in the unified gallery, the mean over random subsets of each patient's images."""
    drawn = _draw(context)
    folds = [
        EvaluatedFold(fold.galleries, {part: drawn[id(patients)].subsets for part, patients in fold.patients.items()})
        for fold in context.comparison.folds
    ]
    methods = tuple(APPROACHES.values())
    comparison = Comparison(context.study.encodings, folds, methods=methods, galleries=["unified"])
    lines: list[ImagesUsed] = []
    for test_set in context.multi_image_patients:
        part = part_of(test_set)
        tested = [fold.patients[part] for fold in context.comparison.folds]
        subsets = [of_fold for patients in tested if (of_fold := drawn[id(patients)]).subsets]
        for (approach, method), least in product(APPROACHES.items(), COHORTS):
            ranks = comparison.ranks(part, "unified", method)
            before: ImagesUsed | None = None
            for used in range(1, least + 1):
                line = ImagesUsed(test_set, least, used, approach, *_accuracies(ranks, subsets, least, used))
                if before:
                    line = line._replace(gain_top1=line.top1 - before.top1, gain_top5=line.top5 - before.top5)
                lines.append(line)
                before = line
    return {"number_of_images": [line for line in lines if line.patients]}


def _draw(context: ExperimentContext) -> dict[int, Subsets]:
    """By the identity of the patients, which folds may share; a patient has the same subsets in all folds."""
    rng = context.rng("number of images")
    every = {id(patients): patients for fold in context.comparison.folds for patients in fold.patients.values()}
    drawn: dict[EvaluatedPatient, Counter[tuple[int, ...]]] = {}
    for patient in sorted({patient for patients in every.values() for patient in patients if len(patient.images) > 1}):
        orders = rng.permuted(np.tile(patient.images, (SUBSETS, 1)), axis=1)  # one order for all sizes
        sizes = range(1, min(len(patient.images), max(COHORTS)) + 1)
        drawn[patient] = Counter(tuple(row) for used in sizes for row in np.sort(orders[:, :used]).tolist())
    return {key: _subsets([each for each in of if each in drawn], drawn) for key, of in every.items()}


def _subsets(
    patients: Sequence[EvaluatedPatient], drawn: Mapping[EvaluatedPatient, Counter[tuple[int, ...]]]
) -> Subsets:
    found = [
        (number, len(images), times, patient._replace(images=images))
        for number, patient in enumerate(patients)
        for images, times in drawn[patient].items()
    ]
    numbers, used, times = np.array([each[:3] for each in found], dtype=np.intp).reshape(-1, 3).T
    images_of_patient = np.array([len(patient.images) for patient in patients], dtype=np.intp)
    disorder_of_patient = numbered([patient.disorder_id for patient in patients])
    return Subsets(tuple(each[3] for each in found), numbers, used, times, images_of_patient, disorder_of_patient)


def _accuracies(
    folds: Sequence[Ranks], subsets: Sequence[Subsets], least: int, used: int
) -> tuple[float, float, float]:
    """Top-1, top-5 and the patients of a cohort, as means over the folds that have any of them."""
    found: list[list[float]] = [[], []]
    patients = []
    for fold, drawn in zip(folds, subsets, strict=True):
        cohort = drawn.images_of_patient >= least
        patients.append(int(cohort.sum()))
        for accuracies, top in zip(found, (1, 5), strict=True) if cohort.any() else ():
            outcomes = patient_outcomes(fold.ranks, fold.patient_of_ranking, top=top)
            weights = outcomes * drawn.times * (drawn.used == used) / SUBSETS
            mean_outcomes = np.bincount(drawn.patient_of_subset, weights=weights).astype(np.float64)
            accuracies.append(100 * mean_per_disorder(mean_outcomes[cohort], drawn.disorder_of_patient[cohort]))
    top1, top5 = (float(np.mean(accuracies)) if accuracies else 0.0 for accuracies in found)
    return top1, top5, float(np.mean(patients))

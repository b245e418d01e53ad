"""Mean per-disorder accuracy over the folds of a test set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float64s, Ints
from mien.evaluation.comparison import Ranks
from mien.evaluation.outcomes import mean_per_disorder, patient_outcomes

TOPS = (1, 5, 10, 30)


def accuracy(folds: Sequence[Ranks], *, top: int, per_image: bool = False) -> float:
    """Percentage: images within patient, patients within disorder, disorders, then folds.

    `per_image` is the older measure of the official scripts: images within disorder, whoever is on them.
    """
    return accuracies(folds, [top], per_image=per_image)[0]


def accuracies(folds: Sequence[Ranks], tops: Sequence[int], *, per_image: bool = False) -> list[float]:
    """The same for lists of several lengths."""
    of_folds = []
    for fold in folds:
        disorder = numbered([patient.disorder_id for patient in fold.patients])
        if per_image:
            outcomes = [(fold.ranks <= top).astype(np.float64) for top in tops]
            disorder = disorder[fold.patient_of_ranking]
        else:
            outcomes = [patient_outcomes(fold.ranks, fold.patient_of_ranking, top=top) for top in tops]
        of_folds.append([mean_per_disorder(of_top, disorder) for of_top in outcomes])
    return [100 * float(np.mean(of_top)) for of_top in zip(*of_folds, strict=True)]


class Tops(NamedTuple):
    """Accuracies among the first 1, 5, 10 and 30."""

    top1: float
    top5: float
    top10: float
    top30: float


def tops(folds: Sequence[Ranks], *, per_image: bool = False) -> Tops:
    """The accuracies that the paper reports."""
    return Tops(*accuracies(folds, TOPS, per_image=per_image))


class PooledOutcomes(NamedTuple):
    """The patients of all folds, each once."""

    outcomes: Float64s  # mean over the folds in which the patient is tested
    folds_of_patient: Ints
    disorder_of_patient: Ints
    weight_of_disorder: Float64s  # in the mean over folds of the mean over each fold's disorders


def pooled_outcomes(folds: Sequence[Ranks], *, top: int) -> PooledOutcomes:
    """What the bootstrap draws from."""
    patients = [(patient.patient_id, patient.disorder_id) for fold in folds for patient in fold.patients]
    outcomes = np.concatenate([patient_outcomes(fold.ranks, fold.patient_of_ranking, top=top) for fold in folds])
    number_of_patient = numbered(patients)
    folds_of_patient = np.bincount(number_of_patient)
    disorder_ids = [disorder_id for _, disorder_id in dict.fromkeys(patients)]
    weight_of = dict.fromkeys(disorder_ids, 0.0)
    for fold in folds:
        tested = {patient.disorder_id for patient in fold.patients}
        for disorder_id in tested:
            weight_of[disorder_id] += 1 / len(tested)
    return PooledOutcomes(
        np.bincount(number_of_patient, weights=outcomes) / folds_of_patient,
        folds_of_patient,
        numbered(disorder_ids),
        np.array(list(weight_of.values())) / len(folds),
    )


def numbered(keys: Sequence[object]) -> Ints:
    """Numbers for keys, equal for equal keys, in the order of first appearance.

    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    number_of: dict[object, int] = {}
    return np.array([number_of.setdefault(key, len(number_of)) for key in keys], dtype=np.intp)

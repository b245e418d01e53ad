"""The protocol on any labelled cohort: folds are dealt, disorders above and below the six-patient rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mien.core.cohort import Cohort
from mien.core.roster import Label
from mien.core.study import MOST_PATIENTS_OF_RARE, Fold, Split, Study
from mien.errors import InvalidStudyError

FOLDS = 10


def cohort_study(
    cohort: Cohort, source: str, *, seed: int, folds: int = FOLDS, gallery_patients: str | None = None
) -> Study:
    """Every patient of a frequent disorder is tested in one fold; of a rare one, one patient per fold, in turns.

    Whoever is tested is in no gallery of that fold, with none of their disorders: who has two is tested for both, in
    the folds of both. The only patient of a disorder is not tested for it. `gallery_patients` thins each fold's gallery
    to at most so many patients per disorder, drawn anew: "5", "2,30" (one or the other) or "1-34" (spread between).
    """
    if folds < 2:
        raise InvalidStudyError(f"{folds} folds: two are needed, or nobody is left for the gallery")
    rng = np.random.default_rng([seed, 0])
    labels = cohort.roster.labels()
    patients_of = _patients_of_disorder(labels)
    tested: list[set[str]] = [set() for _ in range(folds)]
    for patients in patients_of.values():
        order = rng.permutation(patients).tolist()
        start = int(rng.integers(folds))  # or small disorders would all be tested in the first folds
        if len(patients) > MOST_PATIENTS_OF_RARE:
            for place, patient_id in enumerate(order):
                tested[(start + place) % folds].add(patient_id)
        elif len(patients) > 1:
            for fold in range(folds):
                tested[fold].add(order[(start + fold) % len(order)])
    disorders = {disorder.disorder_id: disorder for disorder in cohort.roster.disorders}
    frequent = {disorder for disorder, patients in patients_of.items() if len(patients) > MOST_PATIENTS_OF_RARE}
    rounds = []
    for number, of_fold in enumerate(tested):
        gallery = [label for label in labels if label.patient_id not in of_fold]
        left = {label.disorder_id for label in gallery}
        test = [label for label in labels if label.patient_id in of_fold and label.disorder_id in left]
        if gallery_patients is not None:
            draws = np.random.default_rng([seed, 1, number])
            gallery = thinned(gallery, gallery_sizes(gallery_patients, len(patients_of), rng=draws), rng=draws)
        rounds.append(Fold(*(_split(gallery, test, frequent, inside=inside) for inside in (True, False))))
    return Study(source, cohort.encodings, tuple(rounds), disorders=disorders, gallery_patients=gallery_patients)


def gallery_sizes(text: str, disorders: int, *, rng: np.random.Generator) -> list[int]:
    """How many gallery patients each disorder keeps, as a text says; who keeps many is drawn.

    >>> sorted(gallery_sizes("2,30", 4, rng=np.random.default_rng(1))), gallery_sizes("5", 2, rng=None)
    ([2, 2, 30, 30], [5, 5])
    """
    try:
        low, dash, high = text.partition("-")
        sizes = [int(each) for each in ((low, high) if dash else text.split(","))]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1 or (dash and sizes[0] > sizes[1]):
        raise InvalidStudyError(f"gallery patients {text!r}: write 5, or 2,30, or 1-34")
    if len(sizes) == 1:
        return sizes * disorders
    spread = np.geomspace(sizes[0], sizes[1], disorders).round().astype(int) if dash else np.resize(sizes, disorders)
    kept: list[int] = rng.permutation(spread).tolist()
    return kept


def _patients_of_disorder(labels: Sequence[Label]) -> Mapping[str, list[str]]:
    patients: dict[str, dict[str, None]] = {}
    for label in labels:
        patients.setdefault(label.disorder_id, {})[label.patient_id] = None
    return {disorder_id: list(of_disorder) for disorder_id, of_disorder in patients.items()}


def thinned(gallery: Sequence[Label], sizes: Sequence[int], *, rng: np.random.Generator) -> list[Label]:
    """Labels of at most so many patients of each disorder, drawn; disorders in the order of their first label."""
    kept = {
        (disorder_id, patient_id)
        for (disorder_id, patients), most in zip(_patients_of_disorder(gallery).items(), sizes, strict=False)
        for patient_id in rng.permutation(patients)[:most].tolist()
    }
    return [label for label in gallery if (label.disorder_id, label.patient_id) in kept]


def _split(gallery: Sequence[Label], test: Sequence[Label], disorders: set[str], *, inside: bool) -> Split:
    return Split(*(tuple(x for x in part if (x.disorder_id in disorders) == inside) for part in (gallery, test)))

"""Test patients as they are looked for: a patient with two disorders is two cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mien.core.roster import Label
from mien.core.study import Study


class EvaluatedPatient(NamedTuple):
    """One test patient, one disorder to be found."""

    patient_id: str
    disorder_id: str
    images: tuple[int, ...]  # rows of the study's encodings


class EvaluatedFold(NamedTuple):
    """One fold, ready to be compared: both galleries, and the cases of both test sets."""

    frequent_gallery: tuple[Label, ...]
    rare_gallery: tuple[Label, ...]
    frequent_cases: tuple[EvaluatedPatient, ...]
    rare_cases: tuple[EvaluatedPatient, ...]


def evaluated_folds(study: Study) -> tuple[EvaluatedFold, ...]:
    """The folds of a study. What folds share (GMDB's frequent part) stays one object, and is compared once."""
    cases = {id(split.test): cases_of(split.test, study.row_of_image) for fold in study.folds for split in fold}
    return tuple(
        EvaluatedFold(frequent.gallery, rare.gallery, cases[id(frequent.test)], cases[id(rare.test)])
        for frequent, rare in study.folds
    )


def validation_folds(study: Study) -> tuple[EvaluatedFold, ...]:
    """The validation patients, against the unified galleries without the validation images."""
    cases = cases_of(study.validation, study.row_of_image)
    return tuple(EvaluatedFold(study.train, fold.rare.gallery, cases, ()) for fold in study.folds)


def cases_of(labels: Iterable[Label], row_of_image: Mapping[str, int]) -> tuple[EvaluatedPatient, ...]:
    """Cases in the order of (disorder, patient), each with its images in the order of their ids.

    >>> cases_of([Label("7", "p", "B"), Label("5", "p", "B")], {"5": 0, "7": 1})
    (EvaluatedPatient(patient_id='p', disorder_id='B', images=(0, 1)),)
    """
    images_of: dict[tuple[str, str], list[int]] = {}
    for disorder_id, patient_id, image_id in sorted({(x.disorder_id, x.patient_id, x.image_id) for x in labels}):
        images_of.setdefault((patient_id, disorder_id), []).append(row_of_image[image_id])
    return tuple(EvaluatedPatient(*of, tuple(images)) for of, images in images_of.items())

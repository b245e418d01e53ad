"""Test patients, fold by fold. A patient with two disorders counts as two, one for each disorder to be found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from mien.core.roster import Label
from mien.core.study import Study

PartName = Literal["freq", "rare"]
PARTS: tuple[PartName, ...] = ("freq", "rare")


class EvaluatedPatient(NamedTuple):
    """One test patient, one disorder to be found."""

    patient_id: str
    disorder_id: str
    images: tuple[int, ...]  # rows of the study's encodings


class EvaluatedFold(NamedTuple):
    """One fold, ready to be compared: both galleries, and the patients of both test sets."""

    galleries: tuple[tuple[Label, ...], tuple[Label, ...]]  # the frequent one, the rare one
    patients: dict[PartName, tuple[EvaluatedPatient, ...]]

    @property
    def unified_gallery(self) -> tuple[Label, ...]:
        """Both galleries together."""
        return *self.galleries[0], *self.galleries[1]


def evaluated_folds(study: Study) -> tuple[EvaluatedFold, ...]:
    """The folds of a study. What folds share (GMDB's frequent part) stays one object, and is compared once."""
    splits = {id(split.test): split for fold in study.folds for split in fold}
    patients = {key: evaluated_patients(split.test, study.row_of_image) for key, split in splits.items()}
    return tuple(
        EvaluatedFold((freq.gallery, rare.gallery), {"freq": patients[id(freq.test)], "rare": patients[id(rare.test)]})
        for freq, rare in study.folds
    )


def validation_folds(study: Study) -> tuple[EvaluatedFold, ...]:
    """The validation patients, against the unified galleries without the validation images."""
    patients = evaluated_patients(study.validation, study.row_of_image)
    return tuple(
        EvaluatedFold((study.train, fold.rare.gallery), {"freq": patients, "rare": ()}) for fold in study.folds
    )


def evaluated_patients(labels: Iterable[Label], row_of_image: Mapping[str, int]) -> tuple[EvaluatedPatient, ...]:
    """Patients in the order of (disorder, patient), each with its images in the order of their ids.

    >>> evaluated_patients([Label("7", "p", "B"), Label("5", "p", "B")], {"5": 0, "7": 1})
    (EvaluatedPatient(patient_id='p', disorder_id='B', images=(0, 1)),)
    """
    images_of: dict[tuple[str, str], list[int]] = {}
    for disorder_id, patient_id, image_id in sorted({(x.disorder_id, x.patient_id, x.image_id) for x in labels}):
        images_of.setdefault((patient_id, disorder_id), []).append(row_of_image[image_id])
    return tuple(EvaluatedPatient(*of, tuple(images)) for of, images in images_of.items())

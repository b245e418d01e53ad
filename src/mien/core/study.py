"""What is evaluated: who is in the gallery and who is to be found, fold by fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import NamedTuple

from mien.core.cohort import Encodings
from mien.core.roster import Disorder, Label
from mien.errors import InvalidStudyError, shown, shown_ids

MOST_PATIENTS_OF_RARE = 6  # a disorder with more patients is frequent


class Split(NamedTuple):
    """The diagnosed patients and the test patients of some disorders."""

    gallery: tuple[Label, ...]
    test: tuple[Label, ...]

    def __repr__(self) -> str:
        return f"<Split of {len(self.gallery):,} gallery and {len(self.test):,} test labels>"


class Fold(NamedTuple):
    """One round of the evaluation. The unified gallery is both galleries together."""

    frequent: Split
    rare: Split


class ImageFacts(NamedTuple):
    """What is known of an image beside its patient and disorder."""

    age_years: float | None = None
    sex: str | None = None  # male, female


class Release(NamedTuple):
    """One version of a database: all its labels."""

    version: str
    released: date
    labels: tuple[Label, ...]

    def __repr__(self) -> str:
        return f"<Release {self.version} of {len(self.labels):,} labels>"


@dataclass(frozen=True, eq=False)
class Study:
    """Folds with the embeddings of all their images.

    No disorder is frequent and rare at once. A patient with two disorders may be tested and in the gallery of one fold:
    whoever compares leaves this patient out of the gallery, for this patient's queries.
    `train` and `validation` are the two parts of the frequent gallery, where these are known: lambda is chosen there.
    """

    source: str  # where it comes from, for people
    encodings: Encodings
    folds: tuple[Fold, ...]
    train: tuple[Label, ...] = ()
    validation: tuple[Label, ...] = ()
    disorders: Mapping[str, Disorder] = field(default_factory=dict)
    facts_of_image: Mapping[str, ImageFacts] = field(default_factory=dict)
    simulated: bool = False
    gallery_patients: str | None = None  # to which the galleries were thinned, per disorder

    def __post_init__(self) -> None:
        if not any(split.test for fold in self.folds for split in fold):
            raise InvalidStudyError(f"{self.source}: nobody to test: a disorder needs two patients, one in the gallery")
        for number, fold in enumerate(self.folds):
            frequent, rare = ({label.disorder_id for label in (*split.gallery, *split.test)} for split in fold)
            if both := sorted(frequent & rare):
                raise InvalidStudyError(
                    f"{self.source}, fold {number}: disorder {shown(both[0])} is in the frequent and in the rare"
                    " tables: keep it in one of them"
                )
        tables = [labels for fold in self.folds for split in fold for labels in split]
        labelled = {label.image_id for labels in (*tables, self.train, self.validation) for label in labels}
        missing = sorted(labelled - self.row_of_image.keys())
        if missing:
            raise InvalidStudyError(
                f"{self.source}: {len(missing)} labelled images without an encoding: "
                f"{shown_ids(missing)}: encode them, or take them "
                "out of the tables"
            )

    def __repr__(self) -> str:
        return f"<Study {self.source}: {len(self.encodings.image_ids):,} images, {len(self.folds)} folds>"

    @cached_property
    def row_of_image(self) -> dict[str, int]:
        """Where an image's embedding stands."""
        return {image_id: row for row, image_id in enumerate(self.encodings.image_ids)}

    @cached_property
    def tested_and_in_gallery(self) -> tuple[tuple[str, ...], ...]:
        """The test patients of each fold who are in its gallery too."""
        return tuple(
            tuple(sorted({x.patient_id for x in test} & {x.patient_id for x in gallery}))
            for fold in self.folds
            for gallery, test in [[(*fold.frequent[side], *fold.rare[side]) for side in (0, 1)]]
        )

    def refuse_tested_in_gallery(self) -> None:
        """Refuses a study with patients on both sides."""
        for number, both in enumerate(self.tested_and_in_gallery):
            if both:
                raise InvalidStudyError(
                    f"{self.source}, fold {number}: {len(both)} patients are in the gallery and in the test set:"
                    f" {shown_ids(both)}: take them out of one of the two"
                )

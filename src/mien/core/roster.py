"""Who is in a cohort: images, patients, disorders and the labels that join them, in one fixed order.

Also `run_starts` and `places_in_runs`, for all sorted arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Ints
from mien.errors import InvalidCohortError, WrongArgumentError, shown


class Label(NamedTuple):
    """One row of a metadata table: this image shows this patient, who has this disorder."""

    image_id: str
    patient_id: str
    disorder_id: str


class Disorder(NamedTuple):
    """One diagnosis. `omim` carries its prefix, because OMIM numbers are ambiguous without."""

    disorder_id: str
    name: str | None = None
    omim: str | None = None


@dataclass(frozen=True, eq=False)
class Roster:
    """Images sorted by (first disorder, patient, image); labels sorted by (disorder, patient, image), ids as text.

    The order depends on the ids alone, so that everything computed in it (centroids above all) does too.
    An image of a patient with two disorders has two labels.
    """

    image_ids: tuple[str, ...]
    patient_ids: tuple[str, ...]  # sorted
    disorders: tuple[Disorder, ...]  # sorted by id
    patient_of_image: Ints
    image_of_label: Ints
    first_label: Ints  # (disorders,): where each disorder's labels start

    @classmethod
    def of_labels(cls, labels: Iterable[Label], disorders: Mapping[str, Disorder] | None = None) -> Roster:
        """Sorts labels into a roster; the same label twice counts once, one image of two patients is refused.

        >>> roster = Roster.of_labels([Label("7", "p2", "B"), Label("5", "p1", "A"), Label("7", "p2", "A")])
        >>> roster.image_ids, roster.image_of_label.tolist(), roster.first_label.tolist()
        (('5', '7'), [0, 1, 1], [0, 2])
        """
        known = disorders or {}
        distinct = {(label.disorder_id, label.patient_id, label.image_id) for label in labels}
        if wrong := [each for label in distinct for each in label if not isinstance(each, str)]:
            raise WrongArgumentError(f"{wrong[0]!r} is no id: ids are texts")
        by_disorder = sorted(distinct)
        patient_id_of: dict[str, str] = {}  # in the order of first labels
        for _, patient_id, image_id in by_disorder:
            if patient_id_of.setdefault(image_id, patient_id) != patient_id:
                raise InvalidCohortError(
                    f"image {shown(image_id)} belongs to two patients, {shown(patient_id_of[image_id])} "
                    f"and {shown(patient_id)}: an image shows one person"
                )
        image_of = {image_id: image for image, image_id in enumerate(patient_id_of)}
        patient_ids = tuple(sorted(set(patient_id_of.values())))
        patient_of = {patient_id: patient for patient, patient_id in enumerate(patient_ids)}
        disorder_ids = [disorder_id for disorder_id, _, _ in by_disorder]
        starts = [row for row, this in enumerate(disorder_ids) if row == 0 or disorder_ids[row - 1] != this]
        return cls(
            image_ids=tuple(patient_id_of),
            patient_ids=patient_ids,
            disorders=tuple(known.get(disorder_ids[row], Disorder(disorder_ids[row])) for row in starts),
            patient_of_image=np.array([patient_of[patient_id] for patient_id in patient_id_of.values()], dtype=np.intp),
            image_of_label=np.array([image_of[image_id] for _, _, image_id in by_disorder], dtype=np.intp),
            first_label=np.array(starts, dtype=np.intp),
        )

    def __repr__(self) -> str:
        return f"<Roster of {self.sizes}>"

    @property
    def sizes(self) -> str:
        """How many there are, in words."""
        people = f"{len(self.image_ids):,} images, {len(self.patient_ids):,} patients"
        return f"{people}, {len(self.disorders):,} disorders"

    @cached_property
    def images_of_disorder(self) -> Ints:
        """How many images stand behind each disorder."""
        return np.diff(self.first_label, append=len(self.image_of_label))

    @cached_property
    def patient_of_label(self) -> Ints:
        """The patient of each label's image."""
        return self.patient_of_image[self.image_of_label]

    @cached_property
    def patients_of_disorder(self) -> Ints:
        """How many patients stand behind each disorder."""
        starts = run_starts(self.patient_of_label)  # a disorder's labels are sorted by patient
        starts[self.first_label] = True
        return np.diff(np.cumsum(starts)[self.first_label], append=np.count_nonzero(starts) + 1)

    @cached_property
    def patient_of_id(self) -> dict[str, int]:
        """Where a patient id stands in `patient_ids`."""
        return {patient_id: patient for patient, patient_id in enumerate(self.patient_ids)}

    @cached_property
    def image_of_id(self) -> dict[str, int]:
        """Where an image id stands in `image_ids`."""
        return {image_id: image for image, image_id in enumerate(self.image_ids)}

    @cached_property
    def disorder_of_id(self) -> dict[str, int]:
        """Where a disorder id stands in `disorders`."""
        return {disorder.disorder_id: place for place, disorder in enumerate(self.disorders)}

    @cached_property
    def disorder_ids_of_image(self) -> list[list[str]]:
        """The disorders of each image: mostly one."""
        found: list[list[str]] = [[] for _ in self.image_ids]
        for place, disorder in enumerate(self.disorders):
            for image in self.images_with(place).tolist():
                found[image].append(disorder.disorder_id)
        return found

    def images_with(self, disorder: int) -> Ints:
        """The images of one disorder, sorted by (patient, image)."""
        start = self.first_label[disorder]
        return self.image_of_label[start : start + self.images_of_disorder[disorder]]

    def labels(self) -> list[Label]:
        """The labels as rows, in the roster's order."""
        return [
            Label(self.image_ids[image], self.patient_ids[self.patient_of_image[image]], disorder.disorder_id)
            for place, disorder in enumerate(self.disorders)
            for image in self.images_with(place).tolist()
        ]


def run_starts(values: Ints) -> Bools:
    """Where a run of equal values begins.

    >>> run_starts(np.array([7, 7, 8, 8, 8])).tolist()
    [True, False, True, False, False]
    """
    starts = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts


def places_in_runs(values: Ints) -> Ints:
    """Where each value stands in its run of equal values, which are sorted.

    >>> places_in_runs(np.array([7, 7, 8, 8, 8])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(len(values)) - np.searchsorted(values, values)

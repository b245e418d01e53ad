"""The gallery images of a study: in one place, or in several, each of which answers for its own images.

A patient's images are in one part, so that a part can average them. What parts answer is joined by group (a disorder
with its images of one gallery): sums add up, the nearest of all is the nearest of the parts' nearest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s, Float64s, Ints
from mien.core.centroids import CENTROID_OF_KIND, CentroidKind, ExactSum
from mien.core.cohort import Encodings
from mien.core.embeddings import unit_rows
from mien.core.roster import Label, Roster, run_starts
from mien.core.scores.nearest import nearest_distance
from mien.errors import InvalidStudyError, shown, shown_ids
from mien.evaluation.probe_rows import ProbeRows

IMAGES_PER_BLOCK = 512  # whose unit rows are made at a time: 25 MB of GM-Arc's
DECIMALS = 12

Gallery = tuple[Label, ...]


@dataclass(frozen=True, eq=False)
class Groups:
    """A group is a disorder with its images of one gallery. Galleries with the same images of a disorder share it.

    >>> one, other = Label("1", "p", "A"), Label("2", "q", "B")
    >>> [groups.tolist() for groups in Groups.of([(one, other), (other,)]).of_gallery]
    [[0, 1], [1]]
    """

    labels: tuple[Gallery, ...]  # of each group, sorted by (patient, image)
    of_gallery: tuple[Ints, ...]  # the groups of each gallery, sorted by disorder

    @classmethod
    def of(cls, galleries: Sequence[Gallery]) -> Groups:
        """The same galleries give the same numbers, wherever they are counted."""
        number_of: dict[Gallery, int] = {}
        of_gallery = []
        for gallery in galleries:
            by_disorder = groupby(Roster.of_labels(gallery).labels(), key=lambda label: label.disorder_id)
            groups = [number_of.setdefault(tuple(labels), len(number_of)) for _, labels in by_disorder]
            of_gallery.append(np.array(groups, dtype=np.intp))
        return cls(tuple(number_of), tuple(of_gallery))

    @cached_property
    def sizes(self) -> Ints:
        """How many labels each group has."""
        return np.array([len(labels) for labels in self.labels], dtype=np.intp)

    @cached_property
    def patients(self) -> Ints:
        """How many patients each group has."""
        return np.array([len({label.patient_id for label in labels}) for labels in self.labels], dtype=np.intp)


class PartDistances(NamedTuple):
    """Distances of probes to the groups and labels that a part has, of those it was asked for."""

    groups: Ints
    nearest: Float64s  # (probes, groups)
    labels: Ints  # numbered through all groups
    each: Float64s  # (probes, labels), or no rows where nobody asked


@dataclass(frozen=True, eq=False)
class GalleryImages:
    """The gallery images that are in one place: their raw embeddings, and their labels in all groups.

    Labels are sorted by (group, patient, image), images by their first label.
    """

    encodings: Encodings
    row_of_image: Ints  # of the encodings, which may have others
    image_of_label: Ints
    patient_of_label: Ints
    group_of_label: Ints
    number_of_label: Ints  # among those of all parts

    @classmethod
    def of(cls, encodings: Encodings, groups: Groups) -> GalleryImages:
        """The part of some groups whose images the encodings have."""
        row_of_id = {image_id: row for row, image_id in enumerate(encodings.image_ids)}
        rows: dict[int, int] = {}
        patients: dict[str, int] = {}
        every = ((group, label) for group, labels in enumerate(groups.labels) for label in labels)
        labels = [
            (rows.setdefault(row, len(rows)), patients.setdefault(label.patient_id, len(patients)), group, number)
            for number, (group, label) in enumerate(every)
            if (row := row_of_id.get(label.image_id)) is not None
        ]
        columns = np.array(labels, dtype=np.intp).reshape(-1, 4).T
        return cls(encodings, np.array(list(rows), dtype=np.intp), *columns)

    def image_ids(self) -> list[str]:
        """The gallery images that are here."""
        return [self.encodings.image_ids[row] for row in self.row_of_image.tolist()]

    def sums(self, *, groups: Ints, kind: CentroidKind) -> dict[int, ExactSum]:
        """The sums that make the groups' centroids, over the images that are here."""
        starts, ends = (np.searchsorted(self.group_of_label, groups, side) for side in ("left", "right"))
        return {
            group: CENTROID_OF_KIND[kind](self._raw(self.image_of_label[start:end]), self.patient_of_label[start:end])
            for group, start, end in zip(groups.tolist(), starts.tolist(), ends.tolist(), strict=True)
            if start < end
        }

    def distances(self, *, rows: ProbeRows, groups: Ints, each: bool) -> PartDistances:
        """Of probes to the nearest image of each group, and if asked to each image."""
        labels = np.flatnonzero(np.isin(self.group_of_label, groups))
        images, image_of_label = np.unique(self.image_of_label[labels], return_inverse=True)
        found, group_of_label = np.unique(self.group_of_label[labels], return_inverse=True)
        probes = len(rows.place_of_probe)
        nearest = np.full((probes, len(found)), np.inf)
        of_each = np.empty((probes if each else 0, len(labels)))
        for start in range(0, len(images), IMAGES_PER_BLOCK):
            block = images[start : start + IMAGES_PER_BLOCK]
            of_images = rows.distances(unit_rows(self._raw(block)))
            inside = np.flatnonzero((image_of_label >= start) & (image_of_label < start + len(block)))
            of_labels = of_images.take(image_of_label[inside] - start, axis=1)
            first = np.flatnonzero(run_starts(group_of_label[inside]))
            met = group_of_label[inside[first]]
            nearest[:, met] = np.minimum(nearest[:, met], nearest_distance(of_labels, first))
            if each:
                of_each[:, inside] = of_labels
        return PartDistances(found, nearest.round(DECIMALS, out=nearest), self.number_of_label[labels], of_each)

    def _raw(self, images: Ints) -> Float32s:
        return self.encodings.embeddings[self.row_of_image[images]]


def joined_distances(answers: Sequence[PartDistances]) -> PartDistances:
    """Joins the parts' answers into what one part with all images would answer."""
    if len(answers) == 1:
        return answers[0]
    probes, asked = len(answers[0].nearest), len(answers[0].each)
    groups = np.unique(np.concatenate([answer.groups for answer in answers]))
    labels = np.sort(np.concatenate([answer.labels for answer in answers]))
    nearest, each = np.full((probes, len(groups)), np.inf), np.empty((asked, len(labels)))
    for answer in answers:
        columns = np.searchsorted(groups, answer.groups)
        nearest[:, columns] = np.minimum(nearest[:, columns], answer.nearest)
        each[:, np.searchsorted(labels, answer.labels)] = answer.each
    return PartDistances(groups, nearest, labels, each)


def image_ids_of_parts(galleries: Iterable[Gallery], parts: int) -> list[list[str]]:
    """The image ids of each part. Patients stay whole: each goes where the fewest images are.

    >>> labels = Label("1", "p", "A"), Label("2", "p", "A"), Label("3", "q", "A"), Label("4", "r", "B")
    >>> image_ids_of_parts([labels], 2)
    [['1', '2'], ['3', '4']]
    """
    images_of: dict[str, set[str]] = {}
    for gallery in galleries:
        for label in gallery:
            images_of.setdefault(label.patient_id, set()).add(label.image_id)
    of_part: list[list[str]] = [[] for _ in range(parts)]
    for _, images in sorted(images_of.items()):
        min(of_part, key=len).extend(sorted(images))
    return of_part


def check_parts(groups: Groups, image_ids_of_part: Sequence[Sequence[str]]) -> None:
    """Refuses parts that lack an image of a gallery, hold one twice, or share a patient."""
    patient_of = {label.image_id: label.patient_id for labels in groups.labels for label in labels}
    if missing := sorted(patient_of.keys() - {image_id for image_ids in image_ids_of_part for image_id in image_ids}):
        raise InvalidStudyError(f"{len(missing)} gallery images without an encoding: {shown_ids(missing)}")
    parts_of = Counter(
        patient_id for image_ids in image_ids_of_part for patient_id in {patient_of[image_id] for image_id in image_ids}
    )
    for patient_id, parts in parts_of.items():
        if parts > 1:
            raise InvalidStudyError(
                f"patient {shown(patient_id)} is in {parts} parts: keep a patient's images together"
            )

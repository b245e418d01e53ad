"""Distances of test images and fused patients to the disorders of all galleries: a table for each block of patients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.centroids import CentroidKind, added_up
from mien.core.cohort import Encodings
from mien.core.gallery_parts import Parts
from mien.core.method import Method, fuse_distances
from mien.core.scores import Evidence
from mien.core.scores.proportional import proportional_nearest_distance
from mien.evaluation.evaluated_patients import EvaluatedPatient
from mien.evaluation.gallery_images import DECIMALS, IMAGES_PER_BLOCK, GalleryImages, Groups, joined_distances
from mien.evaluation.outcomes import true_ranks_in_lists
from mien.evaluation.probe_rows import Probe, ProbeRows

NUMBERS_PER_BLOCK = 2**25  # that are kept of a block's probes: 256 MB
MOST_PROBES = 1024  # progress is told between two blocks, and a block travels to every part
PATIENTS_RANKED = 64  # at a time: their distances stay in the cache
GROUPS_PER_QUESTION = 256  # whose sums are held at a time


def probes_of(patient: EvaluatedPatient, fusion: str) -> list[tuple[Probe, int]]:
    """What is ranked of a patient, with the number of photos: each image, alone or as one of several, or all fused.

    >>> probes_of(EvaluatedPatient("p", "A", (3, 5)), "distance")
    [((3,), 2), ((5,), 2)]
    """
    if fusion == "embedding":
        return [(patient.images, len(patient.images))]
    return [((image,), len(patient.images) if fusion == "distance" else 1) for image in patient.images]


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """Distances (probes, groups) of a block's probes, a group's images reduced to one distance."""

    row_of_probe: dict[Probe, int]
    gallery_images: Ints  # of each group
    gallery_patients: Ints
    nearest: Floats
    centroid: dict[CentroidKind, Floats]
    nearest_means: dict[bytes, Floats]  # by the numbers of images that are averaged

    def ranks(self, method: Method, patients: Sequence[EvaluatedPatient], true_column: Ints, in_list: Float32s) -> Ints:
        """Ranks (lists, rankings) of patients' disorders: one ranking for each patient, or for each image.

        `true_column` is the column of each patient's disorder, -1 where it has none; `in_list` (columns, lists), one or
        zero, says which columns a list has.
        """
        neighbours, kind = method.neighbours(self.gallery_images), method.scoring.centroid
        means = self.nearest if (neighbours == 1).all() else self.nearest_means[neighbours.tobytes()]
        ranks = []
        for start in range(0, len(patients), PATIENTS_RANKED):
            some, columns = patients[start : start + PATIENTS_RANKED], true_column[start : start + PATIENTS_RANKED]
            images = np.array([len(patient.images) for patient in some], dtype=np.intp)
            probes = [probe for patient in some for probe in probes_of(patient, method.fusion)]
            rows = [self.row_of_probe[probe] for probe, _ in probes]
            nearest = self.nearest[rows]
            evidence = Evidence(
                nearest=nearest,
                nearest_mean=nearest if means is self.nearest else means[rows],
                centroid=np.full_like(nearest, np.nan) if kind is None else self.centroid[kind][rows],
                gallery_images=self.gallery_images,
                gallery_patients=self.gallery_patients,
                photos=np.array([[photos] for _, photos in probes], dtype=np.intp),
            )
            distances = method.distance(evidence)
            method.require_rising(distances, distances)
            if method.fusion == "distance":
                distances = fuse_distances(distances, np.cumsum(images) - images)
            columns = np.repeat(columns, images) if method.fusion == "none" else columns
            ranks.append(true_ranks_in_lists(distances, columns, in_list))
        return np.concatenate(ranks, axis=1)


@dataclass(frozen=True, eq=False)
class Comparer:
    """Compares probes with the groups of all parts."""

    encodings: Encodings  # of the test images
    groups: Groups
    parts: Parts[GalleryImages]
    centroid_rows: dict[CentroidKind, Float64s]  # (groups, representations * dimensions)
    neighbours: tuple[Ints, ...]  # how many nearest images of each group are averaged, in each way that is asked for

    @classmethod
    def of(
        cls, encodings: Encodings, groups: Groups, parts: Parts[GalleryImages], methods: Sequence[Method]
    ) -> Comparer:
        """Makes the centroids that some methods use, once."""
        width = encodings.embeddings[0].size
        kinds = dict.fromkeys(kind for method in methods if (kind := method.scoring.centroid))
        counted = {counts.tobytes(): counts for counts in (method.neighbours(groups.sizes) for method in methods)}
        return cls(
            encodings,
            groups,
            parts,
            {kind: _centroid_rows(groups, parts, kind, width) for kind in kinds},
            tuple(counts for counts in counted.values() if (counts > 1).any()),
        )

    @property
    def most_probes(self) -> int:
        """How many may be in one block."""
        kept = len(self.groups.labels) * (2 + len(self.centroid_rows) + len(self.neighbours))  # and those scored
        representations, dimensions = self.encodings.embeddings.shape[1:]
        passing: int = representations * dimensions + (1 + representations) * IMAGES_PER_BLOCK
        if self.neighbours:
            passing += 2 * int(self.groups.sizes.sum())  # once as parts answer, once joined
        return max(1, min(MOST_PROBES, NUMBERS_PER_BLOCK // (kept + passing)))

    def table(self, probes: Sequence[Probe], groups: Ints) -> DistanceTable:
        """The distances of a block's probes to the groups that they meet."""
        rows = ProbeRows.of(self.encodings.embeddings, probes)
        ask = partial(GalleryImages.distances, rows=rows, groups=groups, each=bool(self.neighbours))
        [found] = self.parts.combined([ask], joined_distances)
        all_groups = len(groups) == len(self.groups.labels)  # then no copy is made
        centroid: dict[CentroidKind, Floats] = {
            kind: rows.distances(of_kind if all_groups else of_kind[groups]).round(DECIMALS)
            for kind, of_kind in self.centroid_rows.items()
        }
        row_of_probe = {probe: row for row, probe in enumerate(probes)}
        gallery_images, gallery_patients = self.groups.sizes[groups], self.groups.patients[groups]
        counts = [of_all[groups] for of_all in self.neighbours]
        means = (
            proportional_nearest_distance(found.each, np.cumsum(gallery_images) - gallery_images, counts)
            if counts
            else []
        )
        by_counts = {of.tobytes(): mean.round(DECIMALS) for of, mean in zip(counts, means, strict=True)}
        return DistanceTable(row_of_probe, gallery_images, gallery_patients, found.nearest, centroid, by_counts)


def blocks_of(
    patients: Iterable[EvaluatedPatient], most_probes: int, *, fused: bool = True
) -> Iterator[tuple[list[EvaluatedPatient], list[Probe]]]:
    """Patients one after the other in blocks, each with its distinct probes, fused ones if asked.

    >>> one, two, three = (EvaluatedPatient(*of) for of in [("p", "A", (0, 1)), ("q", "A", (2,)), ("r", "B", (3,))])
    >>> [(len(block), probes) for block, probes in blocks_of([one, two, three], 4)]
    [(2, [(0,), (1,), (0, 1), (2,)]), (1, [(3,)])]
    """
    block: list[EvaluatedPatient] = []
    probes: dict[Probe, None] = {}
    for patient in patients:
        own = dict.fromkeys([*((image,) for image in patient.images), *[patient.images] * fused])
        if block and len(probes | own) > most_probes:
            yield block, list(probes)
            block, probes = [], {}
        block.append(patient)
        probes |= own
    if block:
        yield block, list(probes)


def _centroid_rows(groups: Groups, parts: Parts[GalleryImages], kind: CentroidKind, width: int) -> Float64s:
    rows = np.empty((len(groups.labels), width))
    for start in range(0, len(rows), GROUPS_PER_QUESTION):
        asked = np.arange(start, min(start + GROUPS_PER_QUESTION, len(rows)))
        [sums] = parts.combined([partial(GalleryImages.sums, groups=asked, kind=kind)], added_up)
        for group, of_group in sums.items():
            rows[group] = of_group.unit_row
    return rows

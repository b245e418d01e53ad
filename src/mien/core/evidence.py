"""The second look: at the disorders that the first one, over the whole gallery, left at the top.

Queries have shortlists of different lengths, and disorders different numbers of images. All of them stand one after
the other in flat arrays: an *entry* is one disorder for one probe, a *label* is one gallery image of an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Floats, Ints, run_starts
from mien.core.fusion import fuse_distances
from mien.core.index import GalleryIndex
from mien.core.method import Method
from mien.core.roster import Roster
from mien.core.scores import Parts
from mien.core.scores.nearest import nearest_distance


class RankedDisorder(NamedTuple):
    """One line of a ranking and its evidence.

    Where several photos of the query are compared one by one (fusion `distance`), the two parts are means over
    the photos, and the nearest image is the one that came closest to any of them.
    """

    rank: int
    disorder_id: str
    disorder_name: str | None
    omim: str | None
    distance: float
    nearest_distance: float
    centroid_distance: float  # to the image-weighted centroid where that is the score, else to the patient-weighted one
    nearest_image_id: str
    nearest_patient_id: str
    gallery_images: int
    gallery_patients: int


class Probes(NamedTuple):
    """What the queries of a batch compare with the gallery: unit rows, one or several per query."""

    rows: Float32s  # (probes, width)
    query_of_probe: Ints  # sorted
    excluded: Bools | None  # (queries, patients of the gallery): who is not to be compared with


def float32_error(width: int) -> float:
    """The most by which a difference of two distances can change between the looks: four sums of `width` products."""
    return 4 * (width + 8) * 2.0**-24


def pair_distances(row: Float32s, others: Floats) -> Float64s:
    """Distances one pair at a time, so that each depends on its two rows alone: equal rows give equal distances."""
    products: Float64s = np.vecdot(others, row).astype(np.float64)
    return np.maximum(1 - products, 0)  # rounding must not make a photo closer than itself


@dataclass(frozen=True, eq=False)
class Shortlists:
    """The disorders that can be among the first ones of each query, once per probe, in the order (probe, disorder)."""

    probe_of_entry: Ints
    disorder_of_entry: Ints
    first_label: Ints  # (entries,): where each entry's labels start
    label_count: Ints  # (entries,)
    image_of_label: Ints  # without images of excluded patients
    place_of_label: Ints  # where in the first look's distances

    @classmethod
    def of(cls, index: GalleryIndex, first_look: Floats, probes: Probes, top: int | None) -> Shortlists:
        """Takes each disorder within rounding of a query's first `top`, and any that loses images by exclusion.

        `first_look` is (queries, disorders).
        """
        roster = index.roster
        near = np.ones(first_look.shape, dtype=bool)
        if probes.excluded is not None:
            lost = np.logical_or.reduceat(probes.excluded[:, roster.patient_of_label], roster.first_label, axis=1)
            first_look = np.where(lost, np.inf, first_look)
        if top is not None and top < len(roster.disorders):
            kth = np.partition(first_look, top - 1, axis=1)[:, top - 1 : top]
            near = first_look <= kth + float32_error(index.image_rows.shape[1])
            near = near if probes.excluded is None else near | lost
        probe, disorder = np.nonzero(near[probes.query_of_probe])
        count = roster.images_of_disorder[disorder]
        first = count.cumsum() - count
        place = np.arange(count.sum()) + (roster.first_label[disorder] - first).repeat(count)
        if probes.excluded is not None:
            query_of_label = probes.query_of_probe[probe].repeat(count)
            kept = ~probes.excluded[query_of_label, roster.patient_of_label[place]]
            count = np.add.reduceat(kept.astype(np.intp), first)
            place, probe, disorder, count = place[kept], probe[count > 0], disorder[count > 0], count[count > 0]
            first = count.cumsum() - count
        return cls(probe, disorder, first, count, roster.image_of_label[place], place)

    def compare(self, index: GalleryIndex, first_look: Floats, probes: Probes, method: Method) -> Parts:
        """Distances of the entries, pair by pair wherever an image can be among the nearest that decide.

        `first_look` is (probes, labels of the gallery). The result has one row.
        """
        scoring = method.scoring
        image_distances = first_look[self.probe_of_entry.repeat(self.label_count), self.place_of_label].astype(
            np.float64
        )
        neighbours = scoring.neighbours(self.label_count, method.weights)
        bound = _kth_smallest(image_distances, self.first_label, neighbours) + float32_error(probes.rows.shape[1])
        decides = np.flatnonzero(image_distances <= bound.repeat(self.label_count))
        images = self.image_of_label[decides]
        centroid_rows = index.centroid_rows(scoring.centroid)
        centroid_distances = np.empty(len(self.disorder_of_entry))
        first_entry = np.searchsorted(self.probe_of_entry, np.arange(len(probes.rows) + 1))
        first_image = np.searchsorted(decides, np.append(self.first_label, len(self.image_of_label))[first_entry])
        for probe, row in enumerate(probes.rows):
            entries = slice(first_entry[probe], first_entry[probe + 1])
            chosen = slice(first_image[probe], first_image[probe + 1])
            centroid_distances[entries] = pair_distances(row, centroid_rows[self.disorder_of_entry[entries]])
            image_distances[decides[chosen]] = pair_distances(row, index.image_rows[images[chosen]])
        for entry in np.flatnonzero(self.label_count < index.roster.images_of_disorder[self.disorder_of_entry]):
            labels = slice(self.first_label[entry], self.first_label[entry] + self.label_count[entry])
            row = index.centroid_row_of(self.image_of_label[labels], scoring.centroid).astype(np.float32)
            probe_row = probes.rows[self.probe_of_entry[entry]]
            centroid_distances[entry] = pair_distances(probe_row, row[np.newaxis])[0]
        return Parts(image_distances[np.newaxis], self.first_label, centroid_distances[np.newaxis])

    def evidence(self, roster: Roster, image_distances: Float64s, nearest: Float64s) -> tuple[Ints, Ints]:
        """Of each entry: its nearest image, ties going to the first by (patient id, image id), and its patients."""
        closest = np.flatnonzero(image_distances == nearest.repeat(self.label_count))
        images = self.image_of_label[closest[np.searchsorted(closest, self.first_label)]]
        starts = run_starts(roster.patient_of_image[self.image_of_label], self.first_label)  # sorted by patient
        return images, np.add.reduceat(starts.astype(np.intp), self.first_label)


def _kth_smallest(image_distances: Float64s, first_image: Ints, k: Ints) -> Float64s:
    """The k-th smallest distance of each entry's images."""
    if (k == 1).all():
        return nearest_distance(image_distances, first_image).astype(np.float64, copy=False)
    ends = np.append(first_image[1:], len(image_distances))
    spans = zip(first_image.tolist(), ends.tolist(), (k - 1).tolist(), strict=True)
    return np.array([np.partition(image_distances[start:end], kth)[kth] for start, end, kth in spans])


def ranked_disorders(
    index: GalleryIndex, shortlists: Shortlists, parts: Parts, probes: Probes, method: Method, top: int | None
) -> Iterator[tuple[RankedDisorder, ...]]:
    """Orders each query's shortlist by (distance, disorder id) and attaches the evidence."""
    roster, disorders = index.roster, len(index.roster.disorders)
    nearest = nearest_distance(parts.image_distances, parts.first_image)
    distances = np.concatenate([method.scoring.distance(parts, method.weights), nearest, parts.centroid_distances]).T

    cell_of_entry = probes.query_of_probe[shortlists.probe_of_entry] * disorders + shortlists.disorder_of_entry
    entries = np.argsort(cell_of_entry, kind="stable")
    cells, first_entry = np.unique(cell_of_entry[entries], return_index=True)  # one per query and disorder
    fused = fuse_distances(distances[entries], first_entry)
    closest = np.lexsort((nearest[0], cell_of_entry))[first_entry]  # of each cell's entries

    query = cells // disorders
    order = np.lexsort((cells, fused[:, 0], query))
    place = np.arange(len(order)) - np.searchsorted(query, query)
    order, place = (order, place) if top is None else (order[place < top], place[place < top])
    images, patients = shortlists.evidence(roster, parts.image_distances[0], nearest[0])
    shown = closest[order]
    lines = zip(
        (place + 1).tolist(),
        (cells[order] % disorders).tolist(),
        *fused[order].T.tolist(),
        images[shown].tolist(),
        shortlists.label_count[shown].tolist(),
        patients[shown].tolist(),
        strict=True,
    )
    ranked = (
        RankedDisorder(
            rank=rank,
            disorder_id=roster.disorders[disorder].disorder_id,
            disorder_name=roster.disorders[disorder].name,
            omim=roster.disorders[disorder].omim,
            distance=distance,
            nearest_distance=nearest_part,
            centroid_distance=centroid_part,
            nearest_image_id=roster.image_ids[image],
            nearest_patient_id=roster.patient_ids[roster.patient_of_image[image]],
            gallery_images=image_count,
            gallery_patients=patient_count,
        )
        for rank, disorder, distance, nearest_part, centroid_part, image, image_count, patient_count in lines
    )
    for count in np.bincount(query[order]).tolist():
        yield tuple(islice(ranked, count))

"""The second look: at the disorders that the first one, over the whole gallery, left at the top.

Queries have shortlists of different lengths, and disorders different numbers of images. All of them stand one after
the other in flat arrays: an *entry* is one disorder for one probe, a *label* is one gallery image of an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Floats, Ints, run_starts
from mien.core.evidence import Entries, float32_error, pair_distances
from mien.core.index import GalleryIndex
from mien.core.method import Method
from mien.core.roster import Roster
from mien.core.scores import Parts
from mien.core.scores.nearest import nearest_distance


class Probes(NamedTuple):
    """What the queries of a batch compare with the gallery: unit rows, one or several per query."""

    rows: Float32s  # (probes, width)
    query_of_probe: Ints  # sorted
    excluded: Bools | None  # (queries, patients of the gallery): who is not to be compared with


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

    def entries(self, roster: Roster, parts: Parts, method: Method) -> Entries:
        """The entries with all that is known of them after the second look.

        Of images at the same distance, the first by (patient id, image id) is the nearest.
        """
        nearest = nearest_distance(parts.image_distances, self.first_label)[0]
        closest = np.flatnonzero(parts.image_distances[0] == nearest.repeat(self.label_count))
        starts = run_starts(roster.patient_of_image[self.image_of_label], self.first_label)  # sorted by patient
        return Entries(
            probe=self.probe_of_entry,
            disorder=self.disorder_of_entry,
            distance=method.scoring.distance(parts, method.weights)[0],
            nearest=nearest,
            centroid=parts.centroid_distances[0],
            case=self.image_of_label[closest[np.searchsorted(closest, self.first_label)]],
            images=self.label_count,
            patients=np.add.reduceat(starts.astype(np.intp), self.first_label),
        )


def _kth_smallest(image_distances: Float64s, first_image: Ints, k: Ints) -> Float64s:
    """The k-th smallest distance of each entry's images."""
    if (k == 1).all():
        return nearest_distance(image_distances, first_image).astype(np.float64, copy=False)
    ends = np.append(first_image[1:], len(image_distances))
    spans = zip(first_image.tolist(), ends.tolist(), (k - 1).tolist(), strict=True)
    return np.array([np.partition(image_distances[start:end], kth)[kth] for start, end, kth in spans])

"""The exact look at the disorders that a fast look left at the top."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mien.core.arrays import Bools, Float64s, Floats, Ints
from mien.core.errors import EmptyGalleryError
from mien.core.fusion import fuse_distances
from mien.core.index import FIRST, GalleryIndex
from mien.core.method import Method
from mien.core.scores import Parts
from mien.core.scores.nearest import nearest_distance


@dataclass(frozen=True)
class RankedDisorder:
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


def float32_error(width: int) -> float:
    """The most by which two distances of the fast look can be off together: rounding of `width` float32 products."""
    return 2 * (width + 8) * 2.0**-24


def exact_distances(row: Float64s, others: Floats) -> Float64s:
    """Distances in float64, one pair at a time, so that each depends on its two rows alone."""
    return np.maximum(1 - np.vecdot(others.astype(np.float64), row), 0)


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The disorders that can be among the first ones, in the order of ids, with the gallery images behind each."""

    disorders: Ints
    labels: Ints  # of the first disorder, then of the second, ...: without the query's own patient
    first_image: Ints  # (disorders,): where each disorder's labels start

    @classmethod
    def of(
        cls, index: GalleryIndex, fast_distances: Floats, excluded_image: Bools | None, top: int | None
    ) -> Shortlist:
        """Takes every disorder within rounding of the first `top`, and each that loses an image, whatever it looked."""
        roster = index.roster
        near = np.ones(len(fast_distances), dtype=bool)
        if excluded_image is not None:
            lost = np.logical_or.reduceat(excluded_image[roster.image_of_label], roster.first_label)
            fast_distances = np.where(lost, np.inf, fast_distances)
        if top is not None and top < len(fast_distances):
            error = float32_error(index.image_rows.shape[1])
            near = fast_distances <= np.partition(fast_distances, top - 1)[top - 1] + error
        disorders = np.flatnonzero(near if excluded_image is None else near | lost)
        first, count = roster.first_label[disorders], roster.images_of_disorder[disorders]
        place = np.repeat(np.arange(len(disorders)), count)  # of each label among the disorders
        labels = np.arange(len(place)) + (first - np.cumsum(count) + count)[place]
        if excluded_image is not None:
            kept = ~excluded_image[roster.image_of_label[labels]]
            labels, place = labels[kept], place[kept]
            left = np.unique(place)
            disorders, place = disorders[left], np.searchsorted(left, place)
            if not len(disorders):
                raise EmptyGalleryError("every gallery image belongs to the query's own patient: nothing to rank")
        return cls(disorders, labels, np.searchsorted(place, np.arange(len(disorders))))

    @property
    def images_of_disorder(self) -> Ints:
        """How many gallery images stand behind each disorder of the list."""
        return np.diff(self.first_image, append=len(self.labels))

    def compare_exactly(
        self,
        index: GalleryIndex,
        rows: Float64s,  # (probes, width): the unit rows of one query
        fast_image_distances: Floats,  # (probes, labels of the gallery)
        method: Method,
        excluded_image: Bools | None,
    ) -> Parts:
        """Distances of a query to the list: exact wherever an image can be among the nearest that decide."""
        scoring, counts = method.scoring, self.images_of_disorder
        image_distances = fast_image_distances[:, self.labels].astype(np.float64)
        neighbours = np.maximum(scoring.neighbours(counts, method.weights), 1)  # the nearest is shown in any case
        bound = _kth_smallest(image_distances, self.first_image, neighbours) + float32_error(rows.shape[1])
        decides = image_distances <= np.repeat(bound, counts, axis=1)
        images = index.roster.image_of_label[self.labels]
        centroid_rows = index.centroid_rows(scoring.centroid)[self.disorders]
        if excluded_image is not None:
            for place in np.flatnonzero(counts < index.roster.images_of_disorder[self.disorders]):
                centroid_rows[place] = index.centroid_row_without(
                    int(self.disorders[place]), excluded_image, scoring.centroid
                )
        centroid_distances = np.empty((len(rows), len(self.disorders)))
        for probe, row in enumerate(rows):
            deciding = decides[probe]
            image_distances[probe, deciding] = exact_distances(row, index.image_rows[images[deciding]])
            centroid_distances[probe] = exact_distances(row, centroid_rows)
        return Parts(image_distances, self.first_image, centroid_distances)


def _kth_smallest(image_distances: Float64s, first_image: Ints, k: Ints) -> Float64s:
    """The k-th smallest distance of each disorder's images, (probes, disorders)."""
    if (k == 1).all():
        return nearest_distance(image_distances, first_image)
    ends = np.append(first_image[1:], image_distances.shape[1])
    return np.stack(
        [
            np.partition(image_distances[:, start:end], kth - 1, axis=1)[:, kth - 1]
            for start, end, kth in zip(first_image, ends, k, strict=True)
        ],
        axis=1,
    )


def ranked_disorders(
    index: GalleryIndex, shortlist: Shortlist, exact: Parts, method: Method, top: int | None
) -> Iterator[RankedDisorder]:
    """Orders the shortlist by (distance, disorder id) and attaches the evidence."""
    roster = index.roster
    distance = fuse_distances(method.scoring.distance(exact, method.weights), FIRST)[0]
    nearest = fuse_distances(nearest_distance(exact.image_distances, exact.first_image), FIRST)[0]
    centroid = fuse_distances(exact.centroid_distances, FIRST)[0]
    closest = exact.image_distances.min(axis=0)  # to any photo of the query
    images = roster.image_of_label[shortlist.labels]
    counts = shortlist.images_of_disorder
    for place_in_list, place in enumerate(np.argsort(distance, kind="stable")[:top].tolist()):
        span = slice(exact.first_image[place], exact.first_image[place] + counts[place])
        nearest_image = int(images[span][closest[span].argmin()])  # ties: the first by (patient id, image id)
        disorder = roster.disorders[shortlist.disorders[place]]
        yield RankedDisorder(
            rank=place_in_list + 1,
            disorder_id=disorder.disorder_id,
            disorder_name=disorder.name,
            omim=disorder.omim,
            distance=float(distance[place]),
            nearest_distance=float(nearest[place]),
            centroid_distance=float(centroid[place]),
            nearest_image_id=roster.image_ids[nearest_image],
            nearest_patient_id=roster.patient_ids[roster.patient_of_image[nearest_image]],
            gallery_images=int(counts[place]),
            gallery_patients=len(set(roster.patient_of_image[images[span]].tolist())),
        )

"""What a scan of all parts says of every disorder: bounds of its evidence, and who can be among the first by them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Floats, Ints, smallest_of_runs
from mien.core.centroids import added_up
from mien.core.fusion import fuse_distances
from mien.core.gallery_parts import GallerySummary, Parts, unit_row_of
from mien.core.index import GalleryIndex
from mien.core.method import ROUNDING, Method
from mien.core.one_part import Question, ScannedPart, scan_part
from mien.core.rounded_rows import Bounds, pair_distances
from mien.core.scores import Evidence

FARTHEST = 3.0  # no distance is above two, but for rounding; a disorder without images is as far away as this


class Estimates(NamedTuple):
    """What a scan says of queries and all disorders of a gallery, without measuring: to about three digits.

    Images by rounded rows, centroids by exact ones. Another batch changes the seventh digit.
    """

    evidence: Evidence  # of probes
    there: Bools
    first_probe: Ints  # of each query

    def distances(self, method: Method) -> Float64s:
        """Distances (queries, disorders) by a method, infinite where a disorder has no image."""
        fused = fuse_distances(method.distance(self.evidence), self.first_probe)
        return np.where(self.there[self.first_probe], fused, np.inf)

    @property
    def gallery_patients(self) -> Ints:
        """Of each disorder (queries, disorders), without the query's own."""
        return self.evidence.gallery_patients[self.first_probe]

    @property
    def photos(self) -> Ints:
        """Of each query."""
        photos: Ints = self.evidence.photos[self.first_probe, 0]
        return photos


class ScannedGallery(NamedTuple):
    """What the parts found of probes and disorders, in arrays that broadcast to (probes, disorders)."""

    question: Question
    parts: Sequence[ScannedPart]
    lower: Evidence
    upper: Evidence
    there: Bools  # whether an image is left to compare with
    neighbours: Ints  # how many nearest images count
    threshold: Float32s  # no image farther than this is one of them

    def candidates(self, method: Method, top: int | None) -> Bools:
        """Which disorders (queries, disorders) can be among the first `top` of a query, by the bounds."""
        if top is None:
            return self.there[self.question.first_probe]
        low, high = self._bounds(method)
        last = _nth_smallest(high, top)
        return np.isfinite(low) & (low <= np.where(np.isfinite(last), last + ROUNDING * np.abs(last), np.inf))

    def likely(self, method: Method, top: int) -> Bools:
        """The `top` disorders of each query whose upper bounds are the smallest; more, if some are equal."""
        _, high = self._bounds(method)
        return np.isfinite(high) & (high <= _nth_smallest(high, top))

    def _bounds(self, method: Method) -> list[Floats]:
        """Lower and upper bounds (queries, disorders) of distances by a method, infinite where no image is left."""
        bounds = [method.distance(evidence) for evidence in (self.lower, self.upper)]
        method.require_rising(*(np.broadcast_to(bound, self.there.shape)[self.there] for bound in bounds))
        return [fuse_distances(np.where(self.there, bound, np.inf), self.question.first_probe) for bound in bounds]

    @property
    def estimates(self) -> Estimates:
        """What lies in the middle of the bounds."""
        nearest, mean, centroid = ((low + high) / 2 for low, high in zip(self.lower[:3], self.upper[:3], strict=True))
        middle = self.lower._replace(nearest=nearest, nearest_mean=mean, centroid=centroid)
        return Estimates(middle, self.there, self.question.first_probe)


def _nth_smallest(distances: Floats, top: int) -> Floats:
    return np.partition(distances, top - 1, axis=1)[:, [top - 1]]


def scan_gallery(
    parts: Parts[GalleryIndex],
    gallery: GallerySummary,
    to_centroids: Bounds,
    question: Question,
    method: Method,
    *,
    fine: bool,
) -> ScannedGallery:
    """Scans all parts, by exact rows if it is to be `fine`, and joins their bounds with those of the centroids."""
    slots = method.neighbours(gallery.images_of_disorder)
    first_slot = np.cumsum(slots) - slots
    shape = len(question.rows), len(slots)
    counts = gallery.images_of_disorder, gallery.patients_of_disorder, slots
    images, patients, neighbours = (np.broadcast_to(of, shape) for of in counts)
    scanned = parts.ask(partial(scan_part, question=question, fine=fine))
    centroid = [bound.T.astype(np.float64) for bound in to_centroids]
    if question.lost:
        images, patients, neighbours = images.copy(), patients.copy(), neighbours.copy()
    for (query, disorder_id), rest in added_up(part.rest for part in scanned).items():
        place = np.flatnonzero(question.query_of_probe == query), gallery.place_of_disorder[disorder_id]
        images[place], patients[place] = rest.images, rest.patients
        neighbours[place] = min(int(method.neighbours(np.array([rest.images]))[0]), int(slots[place[1]]))
        for probe in place[0].tolist():
            [distance] = pair_distances(unit_row_of(rest.sums), question.rows[[probe]])
            centroid[0][probe, place[1]] = centroid[1][probe, place[1]] = distance
    nearest = [_merged([getattr(part, name) for part in scanned], gallery, slots) for name in ("lower", "upper")]
    one_each = nearest[0].shape == shape
    low, high = (
        Evidence(
            nearest=of_slots if one_each else of_slots[:, first_slot],
            nearest_mean=of_slots if one_each else _means(of_slots, first_slot, neighbours),
            centroid=to_centroid.clip(0, FARTHEST),
            gallery_images=images,
            gallery_patients=patients,
            photos=question.photos[:, np.newaxis],
        )
        for of_slots, to_centroid in zip(nearest, centroid, strict=True)
    )
    last = high.nearest if one_each else np.take_along_axis(nearest[1], first_slot + neighbours - 1, axis=1)
    threshold = np.nextafter(last.astype(np.float32), np.float32(np.inf))
    there = low.nearest < FARTHEST
    return ScannedGallery(question, scanned, low, high, there, neighbours, threshold)


def _merged(bounds: Sequence[Float32s], gallery: GallerySummary, slots: Ints) -> Float64s:
    """Bounds (probes, slots) for the whole gallery, from those (slots, probes) of each part."""
    if len(bounds) == 1:
        return bounds[0].T.astype(np.float64).clip(0, FARTHEST)
    disorder_of_slot = np.concatenate(
        [
            disorders.repeat(np.minimum(slots[disorders], images))
            for disorders, images in zip(gallery.disorders_of_parts, gallery.images_of_parts, strict=True)
        ]
    )
    order = np.argsort(disorder_of_slot, kind="stable")
    first = np.searchsorted(disorder_of_slot[order], np.arange(len(slots)))
    return smallest_of_runs(np.concatenate(bounds)[order], first, slots).T.astype(np.float64).clip(0, FARTHEST)


def _means(slots: Floats, first_slot: Ints, counts: Ints) -> Floats:
    """The mean of the first so many slots of each disorder; `counts` is (probes, disorders)."""
    lengths = np.diff(first_slot, append=slots.shape[1])
    place = np.arange(slots.shape[1]) - first_slot.repeat(lengths)
    counted = np.where(place < np.repeat(counts, lengths, axis=1), slots, 0)
    return np.asarray(np.add.reduceat(counted, first_slot, axis=1) / counts)

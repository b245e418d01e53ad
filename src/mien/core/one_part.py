"""What one part of a gallery answers: it scans all of its images for bounds, and measures the few that can decide.

Labels, not images, are compared: an image of a patient with two disorders has two. A *slot* is one of the nearest
images of a disorder that count; a disorder has as many slots as the score has neighbours, mostly one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Ints, places_in_runs, run_starts, smallest_of_runs
from mien.core.centroids import Sums
from mien.core.cohort import Query
from mien.core.index import CentroidKind, GalleryIndex
from mien.core.roster import Roster
from mien.core.rounded_rows import Bounds, measured_rounding, scan

LABELS_AT_A_TIME = 1 << 20  # that are looked through for those to measure
SAME_PHOTO = 1e-4  # a distance far below that of any two photos, and far above what is lost in encoding one twice
PATIENTS_NAMED = 3  # nearest patients of a disorder that are named


class Question(NamedTuple):
    """What is asked of every part. Probes are the unit rows of queries: one fused row, or one for each photo."""

    rows: Float32s  # (probes, width)
    query_of_probe: Ints  # sorted
    photos: Ints  # of the query, of each probe
    own_patients: tuple[tuple[str, ...], ...]  # of each query: they are left out
    lost: tuple[tuple[int, str], ...]  # query and disorder id, where a disorder loses images with the own patients
    centroid: CentroidKind
    neighbours: Mapping[str, int] | None  # by disorder id; None: one each

    @property
    def first_probe(self) -> Ints:
        """Of each query."""
        return np.flatnonzero(run_starts(self.query_of_probe))


class RestOfDisorder(NamedTuple):
    """What is left of a disorder where a query's own patients are left out."""

    images: int
    patients: int
    sums: Sums  # behind its centroid

    def plus(self, other: RestOfDisorder) -> RestOfDisorder:
        """Of both parts."""
        return RestOfDisorder(self.images + other.images, self.patients + other.patients, self.sums.plus(other.sums))


@dataclass(frozen=True, eq=False)
class ScannedPart:
    """Bounds (slots, probes) of the distances to the nearest images of each disorder, the smallest ones first."""

    lower: Float32s
    upper: Float32s
    rest: dict[tuple[int, str], RestOfDisorder]  # by query and disorder id
    lower_of_labels: Float32s | None  # (labels, probes): it is for measuring here, and does not travel

    def __reduce__(self) -> tuple[Any, ...]:
        return ScannedPart, (self.lower, self.upper, self.rest, None)


class Pairs(NamedTuple):
    """Probes and disorders whose nearest images are to be measured, in the order (probe, disorder)."""

    probe: Ints
    disorder: Ints  # as the part numbers them
    neighbours: Ints  # how many images
    threshold: Float32s  # an image that is farther does not count


class MeasuredPart(NamedTuple):
    """Distances to the nearest images of pairs, sorted by (pair, distance); who is on the nearest of each."""

    pair: Ints  # number among those that were asked for
    distance: Float64s
    who: list[tuple[str, str]]  # patient and image id, of each distinct pair


class NearestPatient(NamedTuple):
    """A gallery patient, by the photo that comes nearest to the query."""

    patient_id: str
    image_id: str
    distance: float


def scan_part(index: GalleryIndex, question: Question, *, fine: bool) -> ScannedPart:
    """Bounds for every disorder of this part."""
    roster = index.roster
    own = _own_patients_here(roster, question)
    bounds = _scan_labels(index, question, own, None, fine=fine)
    wanted = np.ones_like(roster.first_label)
    if question.neighbours is not None:
        counted = [question.neighbours[disorder.disorder_id] for disorder in roster.disorders]
        wanted = np.minimum(counted, roster.images_of_disorder)
    lower, upper = (smallest_of_runs(bound, roster.first_label, wanted) for bound in bounds)
    return ScannedPart(lower, upper, dict(_rests(index, question, own)), bounds.lower)


def measure_part(
    index: GalleryIndex, question: Question, pairs: Pairs, lower_of_labels: Float32s | None = None
) -> MeasuredPart:
    """The nearest images of pairs, measured exactly. Without `lower_of_labels` their disorders are scanned again."""
    roster = index.roster
    if not len(pairs.probe):
        return MeasuredPart(np.zeros(0, np.intp), np.zeros(0), [])
    pair, label, lower = _near_labels(index, question, pairs, lower_of_labels)
    distance = np.full(len(pair), np.inf)

    def measure(some: Bools) -> None:
        images, probes = roster.image_of_label[label[some]], pairs.probe[pair[some]]
        distance[some] = index.images.distances(images, question.rows, probes)

    likely = places_in_runs(pair) < pairs.neighbours[pair]  # by their bounds; then all that can be as near as these
    measure(likely)
    farthest = np.zeros(len(pairs.probe))
    np.maximum.at(farthest, pair[likely], distance[likely])
    measure((lower <= farthest[pair]) & ~likely)
    order = np.lexsort((label, distance, pair))  # labels of a disorder are sorted by (patient id, image id)
    pair, label, distance = pair[order], label[order], distance[order]
    starts = np.flatnonzero(run_starts(pair))
    kept = (places_in_runs(pair) < pairs.neighbours[pair]) & np.isfinite(distance)
    who = [_who(roster, image) for image in roster.image_of_label[label[starts]].tolist()]
    return MeasuredPart(pair[kept], distance[kept], who)


def own_patients(index: GalleryIndex, queries: Sequence[Query]) -> list[list[str]]:
    """The patients of this part that are each query's own: nobody is compared with themselves.

    They have its patient id, or hold one of its images: by image id where the query's patient is unknown, and where
    somebody else is said to be on it, by image id and embedding. Where ids are names of files, by embedding alone.
    """
    return [[index.roster.patient_ids[patient] for patient in sorted(_own(index, query))] for query in queries]


def disorders_of(index: GalleryIndex, patients: Sequence[Sequence[str]]) -> list[list[str]]:
    """The disorders that this part's patients among some have."""
    roster = index.roster

    def of(patient_ids: Sequence[str]) -> list[str]:
        labels = np.flatnonzero(np.isin(roster.patient_of_label, _places(roster.patient_of_id, patient_ids)))
        places = np.searchsorted(roster.first_label, labels, side="right") - 1
        return [roster.disorders[place].disorder_id for place in np.unique(places).tolist()]

    return [of(patient_ids) for patient_ids in patients]


def nearest_patients(
    index: GalleryIndex, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]
) -> list[list[NearestPatient]]:
    """The nearest patients of each disorder, without the query's own: nearest to any of its unit rows."""
    own_here = _places(index.roster.patient_of_id, own)
    return [_nearest_patients(index, rows, own_here, disorder_id) for disorder_id in disorder_ids]


def _scan_labels(
    index: GalleryIndex, question: Question, own: Sequence[Sequence[int]], labels: Ints | None, *, fine: bool = False
) -> Bounds:
    """Bounds for labels, all or some; those of the own patients are infinitely far away."""
    roster = index.roster
    if labels is not None:
        bounds = scan(index.images, question.rows, fine=fine, only=roster.image_of_label[labels])
    else:
        bounds = scan(index.images, question.rows, fine=fine)
        if len(roster.image_of_label) > len(roster.image_ids):
            bounds = Bounds(*(bound.take(roster.image_of_label, axis=0) for bound in bounds))
    for query, patients in enumerate(own):
        if patients:
            patient_of_label = roster.patient_of_label if labels is None else roster.patient_of_label[labels]
            left_out = np.flatnonzero(np.isin(patient_of_label, patients))
            for bound in bounds:
                bound[np.ix_(left_out, np.flatnonzero(question.query_of_probe == query))] = np.inf
    return bounds


def _near_labels(
    index: GalleryIndex, question: Question, pairs: Pairs, lower: Float32s | None
) -> tuple[Ints, Ints, Float32s]:
    """Pair, label and lower bound of all images within the threshold of a pair, sorted by pair and bound."""
    roster, first = index.roster, index.roster.first_label
    if lower is None:
        disorders = np.unique(pairs.disorder)
        sizes = roster.images_of_disorder[disorders]
        labels = _ranges(first[disorders], sizes)
        lower = _scan_labels(index, question, _own_patients_here(roster, question), labels).lower
        first = np.zeros_like(first)
        first[disorders] = np.cumsum(sizes) - sizes
    found = []
    count = roster.images_of_disorder[pairs.disorder]
    step = max(1, LABELS_AT_A_TIME // int(count.max()))
    for start in range(0, len(count), step):
        counts, disorder = count[start : start + step], pairs.disorder[start : start + step]
        pair = np.repeat(np.arange(start, start + len(counts)), counts)
        place = _ranges(first[disorder], counts)
        bound = lower[place, pairs.probe[pair]]
        near = np.flatnonzero(bound <= pairs.threshold[pair])
        label = place + (roster.first_label - first)[disorder].repeat(counts)
        found.append((pair[near], label[near], bound[near]))
    pair, label, bound = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((bound, pair))
    return pair[order], label[order], bound[order]


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """Numbers from each start on, so many of each."""
    before = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) + (starts - before).repeat(counts)


def _places(place_of: Mapping[str, int], ids: Collection[str]) -> list[int]:
    return [place_of[each] for each in ids if each in place_of]


def _own_patients_here(roster: Roster, question: Question) -> list[list[int]]:
    return [_places(roster.patient_of_id, patient_ids) if patient_ids else [] for patient_ids in question.own_patients]


def _who(roster: Roster, image: int) -> tuple[str, str]:
    return roster.patient_ids[roster.patient_of_image[image]], roster.image_ids[image]


def _rests(
    index: GalleryIndex, question: Question, own: Sequence[Sequence[int]]
) -> Iterator[tuple[tuple[int, str], RestOfDisorder]]:
    roster = index.roster
    for query, disorder_id in question.lost:
        if disorder_id in roster.disorder_of_id:
            images = roster.images_with(roster.disorder_of_id[disorder_id])
            patients = roster.patient_of_image[images]
            kept = ~np.isin(patients, own[query])
            if kept.any():
                sums = index.sums_of(images[kept], question.centroid)
                yield (query, disorder_id), RestOfDisorder(int(kept.sum()), len(np.unique(patients[kept])), sums)


def _own(index: GalleryIndex, query: Query) -> set[int]:
    roster, encodings = index.roster, query.encodings
    own = set(_places(roster.patient_of_id, [query.patient_id] if query.patient_id is not None else ()))
    if encodings.ids_are_file_names:
        near, photo = np.nonzero(scan(index.images, encodings.unit_rows).lower < SAME_PHOTO)
        same = index.images.distances(near, encodings.unit_rows, photo) < SAME_PHOTO
        return own | set(roster.patient_of_image[near[same]].tolist())
    for row, image_id in enumerate(encodings.image_ids):
        image = roster.image_of_id.get(image_id)
        if image is not None and (query.patient_id is None or _same_photo(index, image, encodings.unit_rows[[row]])):
            own.add(int(roster.patient_of_image[image]))
    return own


def _same_photo(index: GalleryIndex, image: int, unit_row: Float32s) -> bool:
    [distance] = index.images.distances(np.array([image]), unit_row, np.zeros(1, np.intp))
    return bool(distance < 4 * measured_rounding(unit_row.shape[1]))


def _nearest_patients(
    index: GalleryIndex, rows: Float32s, own_here: list[int], disorder_id: str
) -> list[NearestPatient]:
    roster = index.roster
    if disorder_id not in roster.disorder_of_id:
        return []
    images = roster.images_with(roster.disorder_of_id[disorder_id])
    if own_here:
        images = images[~np.isin(roster.patient_of_image[images], own_here)]
    patients, first_image = np.unique(roster.patient_of_image[images], return_index=True)
    if len(patients) > PATIENTS_NAMED:
        bounds = scan(index.images, rows, only=images)
        of_patients = np.minimum.reduceat(bounds.upper.min(axis=1), first_image)
        images = images[bounds.lower.min(axis=1) <= np.partition(of_patients, PATIENTS_NAMED - 1)[PATIENTS_NAMED - 1]]
    image, probe = np.divmod(np.arange(len(images) * len(rows)), len(rows))
    distances = index.images.distances(images[image], rows, probe).reshape(len(images), len(rows)).min(axis=1)
    nearest: dict[int, NearestPatient] = {}
    for place in np.argsort(distances, kind="stable").tolist():  # stable: ties go to the first by (patient, image)
        patient = int(roster.patient_of_image[images[place]])
        nearest.setdefault(patient, NearestPatient(*_who(roster, images[place]), float(distances[place])))
        if len(nearest) == PATIENTS_NAMED:
            break
    return list(nearest.values())

"""What one part of a gallery knows of some queries, and how the answers of several parts become one.

A disorder's nearest images are the nearest of those that the parts name, and the sum behind a centroid is the sum of
the parts' sums. So merged answers are those of one gallery that holds all images. A part is read in blocks of rows,
and never held in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Floats, Ints
from mien.core.centroids import Sums
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance
from mien.core.evidence import float32_error, pair_distances
from mien.core.index import CentroidKind, GalleryIndex
from mien.core.own_patients import own_patients
from mien.core.roster import Roster

T = TypeVar("T", str, tuple[str, str])

BYTES_PER_BLOCK = 1 << 25  # 32 MB of rows


class Question(NamedTuple):
    """What is asked of every part."""

    rows: Float32s  # (probes, width): unit rows
    query_of_probe: Ints
    own_patients: tuple[tuple[str, ...], ...]  # of each query
    lost: tuple[tuple[int, str], ...]  # query and disorder id, where a disorder loses images with the own patients
    neighbours: Mapping[str, int] | None  # how many of a disorder's nearest images count; None: one
    centroid: CentroidKind


class Near(NamedTuple):
    """Gallery images that are the nearest of a disorder to a probe, in the order (probe, disorder, distance, case)."""

    probe: Ints
    disorder: Ints
    case: Ints
    distance: Float64s

    def nearest(self, neighbours: Ints) -> Near:
        """The first so many of each disorder; ties go to the first case."""
        order = np.lexsort((self.case, self.distance, self.disorder, self.probe))
        sorted_ = self.only(order)
        first = sorted_.first_of_entry
        place = np.arange(len(order)) - first.repeat(np.diff(first, append=len(order)))
        return sorted_.only(np.flatnonzero(place < neighbours[sorted_.disorder]))

    def only(self, rows: Ints) -> Near:
        """Some of them."""
        return Near(self.probe[rows], self.disorder[rows], self.case[rows], self.distance[rows])

    @property
    def first_of_entry(self) -> Ints:
        """Where the images of each probe and disorder start."""
        return np.flatnonzero((np.diff(self.probe, prepend=-1) != 0) | (np.diff(self.disorder, prepend=-1) != 0))


class Left(NamedTuple):
    """What is left of a disorder where a query's own patients are left out."""

    images: int
    patients: int
    sums: Sums

    def plus(self, other: Left) -> Left:
        """Of both parts."""
        return Left(self.images + other.images, self.patients + other.patients, self.sums.plus(other.sums))


@dataclass(frozen=True, eq=False)
class Partial:
    """One part's answer."""

    disorder_ids: tuple[str, ...]  # sorted
    cases: tuple[tuple[str, str], ...]  # patient id and image id of every near image, sorted
    neighbours: Ints  # of each disorder
    near: Near
    left: dict[tuple[int, str], Left]  # by query and disorder id


def recognised(index: GalleryIndex, queries: Sequence[Query]) -> list[list[str]]:
    """Those of this part's patients that are each query's own."""
    return [
        [index.roster.patient_ids[patient] for patient in own_patients(index, query, row_blocks(index))]
        for query in queries
    ]


def disorders_of(index: GalleryIndex, patients: Sequence[Sequence[str]]) -> list[list[str]]:
    """The disorders that this part's patients among some have."""
    roster = index.roster

    def of(patient_ids: Sequence[str]) -> list[str]:
        inside = [roster.patient_of_id[patient_id] for patient_id in patient_ids if patient_id in roster.patient_of_id]
        places = _disorders_at(roster, np.flatnonzero(np.isin(roster.patient_of_label, inside))) if inside else ()
        return [roster.disorders[place].disorder_id for place in np.unique(places).tolist()]

    return [of(patient_ids) for patient_ids in patients]


def rows_per_block(width: int) -> int:
    """How many image rows are looked at in one go."""
    return max(1, BYTES_PER_BLOCK // (width * 4))


def row_blocks(index: GalleryIndex) -> Iterator[tuple[int, Float32s]]:
    """The image rows, some at a time, each block with its first row; what was read is let go."""
    size = rows_per_block(index.image_rows.shape[1])
    for start in range(0, len(index.image_rows), size):
        yield start, index.image_rows[start : start + size]
        index.let_go(start, start + size)


def look(index: GalleryIndex, question: Question) -> Partial:
    """This part's answer: of each probe and disorder the nearest images, compared pair by pair."""
    roster = index.roster
    counted = question.neighbours
    ids = tuple(disorder.disorder_id for disorder in roster.disorders)
    neighbours = np.array([1 if counted is None else counted[disorder_id] for disorder_id in ids], dtype=np.intp)
    own = [
        [roster.patient_of_id[patient_id] for patient_id in own if patient_id in roster.patient_of_id]
        for own in question.own_patients
    ]
    labels_of = _labels_by_image(roster)
    found = [
        _look_at_block(roster, block, start, labels_of(start, start + len(block)), question, own, neighbours)
        for start, block in row_blocks(index)
    ]
    near = Near(*(np.concatenate(columns) for columns in zip(*found, strict=True))).nearest(neighbours)
    images, case = np.unique(roster.image_of_label[near.case], return_inverse=True)
    who = [(roster.patient_ids[roster.patient_of_image[image]], roster.image_ids[image]) for image in images.tolist()]
    cases, place = _sorted_places(who)
    return Partial(ids, tuple(cases), neighbours, near._replace(case=place[case]), _left(index, question, own))


def _labels_by_image(roster: Roster) -> _LabelsByImage:
    plain = len(roster.image_of_label) == len(roster.image_ids)  # one disorder each: labels stand as images do
    return _LabelsByImage(None if plain else np.argsort(roster.image_of_label, kind="stable"), roster.image_of_label)


class _LabelsByImage(NamedTuple):
    order: Ints | None
    image_of_label: Ints

    def __call__(self, start: int, end: int) -> Ints:
        """The labels of some rows, sorted."""
        if self.order is None:
            return np.arange(start, end)
        bounds = np.searchsorted(self.image_of_label, [start, end], sorter=self.order)
        return np.sort(self.order[bounds[0] : bounds[1]])


def _disorders_at(roster: Roster, labels: Ints) -> Ints:
    return np.searchsorted(roster.first_label, labels, side="right") - 1


def _look_at_block(
    roster: Roster,
    block: Float32s,
    start: int,
    labels: Ints,
    question: Question,
    own: Sequence[Sequence[int]],
    neighbours: Ints,
) -> Near:
    """Both looks at some rows: a product over all of them, then pairs, wherever an image can be among the nearest."""
    place = roster.image_of_label[labels] - start
    disorder = _disorders_at(roster, labels)
    first = np.flatnonzero(np.diff(disorder, prepend=-1))
    first_look = mean_cosine_distance(question.rows, block)
    if len(labels) > len(block):
        first_look = first_look[:, place]
    _exclude(first_look, roster.patient_of_label[labels], question.query_of_probe, own)
    bound = _kth_smallest(first_look, first, neighbours[disorder[first]]) + float32_error(block.shape[1])
    decides: Bools = first_look <= bound.repeat(np.diff(first, append=len(labels)), axis=1)
    if any(own):
        decides &= np.isfinite(first_look)
    probe, column = np.nonzero(decides)
    distance = np.empty(len(probe))
    ends = np.searchsorted(probe, np.arange(len(question.rows) + 1))
    for number, row in enumerate(question.rows):
        chosen = slice(ends[number], ends[number + 1])
        distance[chosen] = pair_distances(row, block[place[column[chosen]]])
    return Near(probe, disorder[column], labels[column], distance).nearest(neighbours)


def _exclude(first_look: Floats, patient_of_label: Ints, query_of_probe: Ints, own: Sequence[Sequence[int]]) -> None:
    for query, patients in enumerate(own):
        if patients:
            probes = np.flatnonzero(query_of_probe == query)
            first_look[np.ix_(probes, np.isin(patient_of_label, patients).nonzero()[0])] = np.inf


def _kth_smallest(distances: Floats, first: Ints, k: Ints) -> Floats:
    """The k-th smallest distance of each run of columns, or the largest where there are fewer."""
    if (k == 1).all():
        smallest: Floats = np.minimum.reduceat(distances, first, axis=1)
        return smallest
    found = np.empty((len(distances), len(first)), distances.dtype)
    for run, (start, end) in enumerate(zip(first, [*first[1:], distances.shape[1]], strict=True)):
        kth = min(k[run], end - start) - 1
        found[:, run] = np.partition(distances[:, start:end], kth, axis=1)[:, kth]
    return found


def _left(index: GalleryIndex, question: Question, own: Sequence[Sequence[int]]) -> dict[tuple[int, str], Left]:
    roster = index.roster
    left = {}
    for query, disorder_id in question.lost:
        if disorder_id in roster.disorder_of_id:
            images = roster.images_with(roster.disorder_of_id[disorder_id])
            patients = roster.patient_of_image[images]
            kept = ~np.isin(patients, own[query])
            if kept.any():
                sums = index.sums_of(images[kept], question.centroid)
                left[query, disorder_id] = Left(int(kept.sum()), len(np.unique(patients[kept])), sums)
    return left


def merged(partials: Sequence[Partial]) -> Partial:
    """The answer of all parts together."""
    disorder_ids, disorder = _sorted_places([name for part in partials for name in part.disorder_ids])
    cases, case = _sorted_places([who for part in partials for who in part.cases])
    neighbours = np.empty(len(disorder_ids), dtype=np.intp)
    neighbours[disorder] = np.concatenate([part.neighbours for part in partials])
    first_disorder = np.cumsum([0, *(len(part.disorder_ids) for part in partials)])
    first_case = np.cumsum([0, *(len(part.cases) for part in partials)])
    near = Near(
        probe=np.concatenate([part.near.probe for part in partials]),
        disorder=np.concatenate(
            [disorder[first + part.near.disorder] for first, part in zip(first_disorder, partials, strict=False)]
        ),
        case=np.concatenate([case[first + part.near.case] for first, part in zip(first_case, partials, strict=False)]),
        distance=np.concatenate([part.near.distance for part in partials]),
    ).nearest(neighbours)
    named, place = np.unique(near.case, return_inverse=True)
    left: dict[tuple[int, str], Left] = {}
    for part in partials:
        for of, rest in part.left.items():
            left[of] = left[of].plus(rest) if of in left else rest
    who = tuple(cases[case] for case in named.tolist())
    return Partial(tuple(disorder_ids), who, neighbours, near._replace(case=place), left)


def _sorted_places(values: Sequence[T]) -> tuple[list[T], Ints]:
    """Distinct values in their order, and the place of each value among them."""
    distinct = sorted(set(values))
    place_of = {value: place for place, value in enumerate(distinct)}
    return distinct, np.array([place_of[value] for value in values], dtype=np.intp)

"""A gallery's parts, in this process or on the machines of a cluster: how they are asked, and what each answers.

A part scans all of its images for bounds, and measures the few that can decide. Labels, not images, are compared: an
image of a patient with two disorders has two. A *slot* is one of the nearest images of a disorder that count; a
disorder has as many slots as the score has neighbours, mostly one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Ints
from mien.core.centroids import CENTROID_OF_KIND, CentroidKind, ExactSum, added_up
from mien.core.cohort import Query
from mien.core.embeddings import Encoder
from mien.core.index import GalleryIndex, measured_rounding, scan
from mien.core.roster import Disorder, Roster, places_in_runs, run_starts

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")
OwnPatients = dict[str, Counter[str]]  # by patient id: how many images of each disorder, by its id
SAME_PHOTO = 1e-4  # a distance far below that of any two photos, and far above what is lost in encoding one twice
PATIENTS_NAMED = 3  # nearest patients of a disorder that are named
NOBODY: Ints = np.zeros(0, np.intp)


class Parts(Protocol[Part_co]):
    """Asks parts, where they are. Questions and answers may travel, parts stay.

    So a question is a function of a module, or `functools.partial` of one.
    """

    def __len__(self) -> int: ...

    def ask(self, question: Callable[[Part_co], Answer]) -> list[Answer]:
        """Every part's answer, in the order of the parts."""
        return self.ask_each([question] * len(self))

    def ask_each(self, questions: Sequence[Callable[[Part_co], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""

    def combined(
        self, questions: Sequence[Callable[[Part_co], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together near to where they are given."""


@dataclass(frozen=True)
class LocalParts(Parts[Part]):
    """Parts that are in this process.

    >>> LocalParts(["ab", "c"]).ask(len)
    [2, 1]
    >>> LocalParts(["ab", "c"]).combined([len, str.isupper], sum)
    [3, 0]
    """

    parts: Sequence[Part]

    def __len__(self) -> int:
        return len(self.parts)

    def ask_each(self, questions: Sequence[Callable[[Part], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""
        return [question(part) for question, part in zip(questions, self.parts, strict=True)]

    def combined(
        self, questions: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together."""
        return [combine(self.ask(question)) for question in questions]


class Question(NamedTuple):
    """What is asked of every part. Probes are the unit rows of queries: one fused row, or one for each photo."""

    rows: Float32s  # (probes, width)
    query_of_probe: Ints  # sorted
    photos: Ints  # of the query, of each probe
    own_patients: Sequence[OwnPatients]  # of each query: they are left out
    centroid: CentroidKind

    @property
    def first_probe(self) -> Ints:
        """Of each query."""
        return np.flatnonzero(run_starts(self.query_of_probe))


@dataclass(frozen=True, eq=False)
class ScannedPart:
    """Bounds (2, slots, probes) of the distances to the nearest images of each disorder, the smallest ones first."""

    bounds: Float32s
    left: dict[tuple[int, str], ExactSum]  # by query and disorder that own patients have: behind the others' centroid
    lower_of_labels: Float32s | None  # (labels, probes): it is for measuring here, and does not travel

    def __reduce__(self) -> tuple[Any, ...]:
        return ScannedPart, (self.bounds, self.left, None)


class MeasuredPart(NamedTuple):
    """Distances to the nearest images of a part, as many as count, sorted by (probe, disorder, distance)."""

    probe: Ints
    disorder: Ints  # as the part numbers them
    distance: Float64s
    who: list[tuple[str, str]]  # patient and image id, on the nearest image of each probe and disorder


class NearestPatient(NamedTuple):
    """A gallery patient, by the photo that comes nearest to the query."""

    patient_id: str
    image_id: str
    distance: float


def scan_part(index: GalleryIndex, question: Question, slots: Ints, *, fine: bool) -> ScannedPart:
    """Bounds for every disorder of this part, which has so many slots in all parts together."""
    roster = index.roster
    own = _own_patients_here(roster, question)
    bounds = _scan_labels(index, question, own, None, fine=fine)
    wanted = np.minimum(slots, roster.images_of_disorder)
    smallest = smallest_of_runs(bounds, roster.first_label, wanted)
    return ScannedPart(smallest, dict(_left_of_disorders(index, question, own)), bounds[0])


def measure_part(
    index: GalleryIndex,
    question: Question,
    disorders: Ints,
    threshold: Float32s,
    neighbours: Ints,
    lower_of_labels: Float32s | None,
) -> MeasuredPart:
    """Exact distances of the images that can be among so many nearest ones (disorders, probes) of some disorders.

    Their lower bounds are within the threshold, which is minus infinity where nobody asks. The likely ones are measured
    first: what cannot be as near as these is not. Without `lower_of_labels`, these disorders are scanned again.
    """
    roster = index.roster
    asked = np.isin(np.arange(len(roster.disorders)), disorders)
    labels = np.flatnonzero(asked.repeat(roster.images_of_disorder))
    disorder = np.arange(len(disorders)).repeat(roster.images_of_disorder[disorders])  # among those that are asked for
    if lower_of_labels is not None:
        lower = lower_of_labels[labels]
    else:
        lower = _scan_labels(index, question, _own_patients_here(roster, question), labels)[0]
    near, probe = np.nonzero(lower <= threshold[disorder])
    label, disorder, lower = labels[near], disorder[near], lower[near, probe]
    order = np.lexsort((lower, disorder, probe))
    label, disorder, probe, lower = label[order], disorder[order], probe[order], lower[order]
    distance = np.full(len(label), np.inf)

    def measure(some: Bools) -> None:
        distance[some] = index.images.distances(roster.image_of_label[label[some]], question.rows, probe[some])

    pair = probe * len(disorders) + disorder
    likely = places_in_runs(pair) < neighbours[disorder, probe]
    measure(likely)
    first = run_starts(pair)
    farthest = np.maximum.reduceat(np.where(likely, distance, 0), np.flatnonzero(first))
    measure(~likely & (lower <= farthest[np.cumsum(first) - 1]))
    order = np.lexsort((label, distance, pair))  # labels of a disorder are sorted by (patient id, image id)
    who = [_who(roster, image) for image in roster.image_of_label[label[order][first]].tolist()]
    order = order[np.isfinite(distance[order]) & (places_in_runs(pair) < neighbours[disorder, probe])]
    return MeasuredPart(probe[order], disorders[disorder[order]], distance[order], who)


def own_patients(index: GalleryIndex, queries: Sequence[Query]) -> list[OwnPatients]:
    """The patients of this part that are each query's own: nobody is compared with themselves.

    They have its patient id, or hold one of its images: by image id where the query's patient is unknown, and where
    somebody else is said to be on it, by image id and embedding. Where ids are names of files, by embedding alone.
    """
    roster = index.roster
    return [{roster.patient_ids[own]: _images_of_disorders(roster, own) for own in _own(index, of)} for of in queries]


def nearest_patients(
    index: GalleryIndex, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]
) -> list[list[NearestPatient]]:
    """The nearest patients of each disorder, without the query's own: nearest to any of its unit rows."""
    own_here = _places(index.roster.patient_of_id, own)
    return [_nearest_patients(index, rows, own_here, disorder_id) for disorder_id in disorder_ids]


def _scan_labels(
    index: GalleryIndex, question: Question, own: Sequence[Sequence[int]], labels: Ints | None, *, fine: bool = False
) -> Float32s:
    """Bounds (2, labels, probes) for labels, all or some; those of the own patients are infinitely far away."""
    image_of_label, patient_of_label = index.roster.image_of_label, index.roster.patient_of_label
    if labels is not None:
        bounds = scan(index.images, question.rows, fine=fine, only=image_of_label[labels])
        patient_of_label = patient_of_label[labels]
    else:
        bounds = scan(index.images, question.rows, fine=fine)
        if len(image_of_label) > len(index.images):
            bounds = bounds.take(image_of_label, axis=1)
    for query, patients in enumerate(own):
        if patients:
            left_out = np.flatnonzero(np.isin(patient_of_label, patients))
            bounds[:, left_out[:, np.newaxis], np.flatnonzero(question.query_of_probe == query)] = np.inf
    return bounds


def smallest_of_runs(values: Float32s, first_of_run: Ints, wanted: Ints) -> Float32s:
    """The smallest so many rows of each run of rows, column by column, in their order; `values` are several matrices.

    >>> smallest_of_runs(np.array([[[3.0], [1.0], [2.0], [5.0]]]), np.array([0, 3]), np.array([2, 1]))[0].T.tolist()
    [[1.0, 2.0, 5.0]]
    """
    if (wanted == 1).all():
        flat = values[..., 0] if values.shape[2] == 1 else values  # several times faster
        smallest: Float32s = np.minimum.reduceat(flat, first_of_run, axis=1).reshape(len(values), len(wanted), -1)
        return smallest
    ends = np.append(first_of_run[1:], values.shape[1])
    runs = zip(first_of_run.tolist(), ends.tolist(), wanted.tolist(), strict=True)
    return np.concatenate([np.sort(values[:, start:end], axis=1)[:, :count] for start, end, count in runs], axis=1)


def _places(place_of: Mapping[str, int], ids: Collection[str]) -> list[int]:
    return [place_of[each] for each in ids if each in place_of]


def _own_patients_here(roster: Roster, question: Question) -> list[list[int]]:
    return [_places(roster.patient_of_id, patient_ids) if patient_ids else [] for patient_ids in question.own_patients]


def _who(roster: Roster, image: int) -> tuple[str, str]:
    return roster.patient_ids[roster.patient_of_image[image]], roster.image_ids[image]


def _images_of_disorders(roster: Roster, patient: int) -> Counter[str]:
    labels = np.flatnonzero(roster.patient_of_label == patient)
    places = np.searchsorted(roster.first_label, labels, side="right") - 1
    return Counter(roster.disorders[place].disorder_id for place in places.tolist())


def _left_of_disorders(
    index: GalleryIndex, question: Question, own: Sequence[Sequence[int]]
) -> Iterator[tuple[tuple[int, str], ExactSum]]:
    roster = index.roster
    for query, left_out in enumerate(question.own_patients):
        for disorder_id in {*chain.from_iterable(left_out.values())} & roster.disorder_of_id.keys():
            images = roster.images_with(roster.disorder_of_id[disorder_id])
            kept = images[~np.isin(roster.patient_of_image[images], own[query])]
            if len(kept):
                centroid = CENTROID_OF_KIND[question.centroid]
                yield (query, disorder_id), centroid(index.raw_embeddings(kept), roster.patient_of_image[kept])


def _own(index: GalleryIndex, query: Query) -> set[int]:
    roster, encodings = index.roster, query.encodings
    own = set(_places(roster.patient_of_id, [query.patient_id] if query.patient_id is not None else ()))
    if encodings.ids_are_file_names:
        near, photo = np.nonzero(scan(index.images, encodings.unit_rows)[0] < SAME_PHOTO)
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
    images = roster.images_with(roster.disorder_of_id[disorder_id]) if disorder_id in roster.disorder_of_id else NOBODY
    images = images[~np.isin(roster.patient_of_image[images], own_here)]
    if not len(images):
        return []
    lower, upper = scan(index.images, rows, only=images).min(axis=2)
    of_patients = np.minimum.reduceat(upper, np.flatnonzero(run_starts(roster.patient_of_image[images])))
    images = images[lower <= np.sort(of_patients)[:PATIENTS_NAMED][-1]]
    image, probe = np.divmod(np.arange(len(images) * len(rows)), len(rows))
    distances = index.images.distances(images[image], rows, probe).reshape(len(images), len(rows)).min(axis=1)
    order = np.argsort(distances, kind="stable")  # ties go to the first by (patient, image)
    _, first_of_patient = np.unique(roster.patient_of_image[images[order]], return_index=True)
    chosen = order[np.sort(first_of_patient)[:PATIENTS_NAMED]].tolist()
    return [NearestPatient(*_who(roster, images[each]), float(distances[each])) for each in chosen]


@dataclass(frozen=True, eq=False)
class GallerySummary:
    """Which disorders a gallery has, or a part of it, and how much stands behind them."""

    encoder: Encoder
    disorders: tuple[Disorder, ...]  # sorted by id
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int

    @cached_property
    def place_of_disorder(self) -> dict[str, int]:
        """Where a disorder id stands among all."""
        return {disorder.disorder_id: place for place, disorder in enumerate(self.disorders)}

    @classmethod
    def of_parts(cls, parts: Sequence[GallerySummary], names: Sequence[str]) -> GallerySummary:
        """What parts, which have these names, are together; different encoders are refused."""
        encoder = parts[0].encoder
        for name, part in zip(names, parts, strict=True):
            part.encoder.require_same(encoder, here=f"the gallery {name}", there=f"the gallery {names[0]}")
            encoder = encoder.completed_by(part.encoder)
        disorder_of: dict[str, Disorder] = {}
        for each in chain.from_iterable(part.disorders for part in parts):
            known = disorder_of.get(each.disorder_id, each)
            disorder_of[each.disorder_id] = Disorder(each.disorder_id, known.name or each.name, known.omim or each.omim)
        place_of = {disorder_id: place for place, disorder_id in enumerate(sorted(disorder_of))}
        places = [place_of[each.disorder_id] for part in parts for each in part.disorders]
        images = np.bincount(places, np.concatenate([part.images_of_disorder for part in parts]))
        patients = np.bincount(places, np.concatenate([part.patients_of_disorder for part in parts]))
        return cls(
            encoder,
            disorders=tuple(disorder_of[disorder_id] for disorder_id in place_of),
            images_of_disorder=images.astype(np.intp),
            patients_of_disorder=patients.astype(np.intp),
            images=sum(part.images for part in parts),
            patients=sum(part.patients for part in parts),
        )


def summary_of(index: GalleryIndex) -> GallerySummary:
    """What a part says of itself."""
    roster = index.roster
    of_disorder = roster.images_of_disorder, roster.patients_of_disorder
    return GallerySummary(index.encoder, roster.disorders, *of_disorder, len(roster.image_ids), len(roster.patient_ids))


def sums_of_disorders(index: GalleryIndex, disorder_ids: Sequence[str], kind: CentroidKind) -> dict[str, ExactSum]:
    """What this part adds to the centroids of some disorders."""
    place_of = index.roster.disorder_of_id
    return {each: index.sum_of_disorder(place_of[each], kind) for each in disorder_ids if each in place_of}


def rows_of_sums(parts: Sequence[dict[str, ExactSum]]) -> Float32s:
    """The unit rows of centroids, in the order of the disorders' ids, from what each part adds to them."""
    return np.concatenate([total.unit_row for _, total in sorted(added_up(parts).items())]).astype(np.float32)

"""A gallery's parts, in this process or on the machines of a cluster: how they are asked, and what each answers.

A part scans all of its images for bounds, and measures the few that can decide. Labels, not images, are compared: an
image of a patient with two disorders has two. A *slot* is one of the nearest images of a disorder that count; a
disorder has as many slots as the score has neighbours, mostly one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Ints
from mien.core.centroids import Sums, added_up
from mien.core.cohort import Query
from mien.core.embeddings import Encoder, unit_rows
from mien.core.index import Bounds, CentroidKind, GalleryIndex, measured_rounding, scan
from mien.core.roster import Disorder, Roster, places_in_runs, run_starts

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")
LABELS_AT_A_TIME = 1 << 20  # that are looked through for those to measure
SAME_PHOTO = 1e-4  # a distance far below that of any two photos, and far above what is lost in encoding one twice
PATIENTS_NAMED = 3  # nearest patients of a disorder that are named


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


def smallest_of_runs(values: Float32s, first_of_run: Ints, wanted: Ints) -> Float32s:
    """The smallest so many rows of each run of rows, column by column, in their order.

    >>> smallest_of_runs(np.array([[3.0], [1.0], [2.0], [5.0]]), np.array([0, 3]), np.array([2, 1])).T.tolist()
    [[1.0, 2.0, 5.0]]
    """
    if (wanted == 1).all():
        flat = values[:, 0] if values.shape[1] == 1 else values  # several times faster
        smallest: Float32s = np.minimum.reduceat(flat, first_of_run, axis=0).reshape(len(first_of_run), -1)
        return smallest
    ends = np.append(first_of_run[1:], len(values))
    runs = zip(first_of_run.tolist(), ends.tolist(), wanted.tolist(), strict=True)
    return np.concatenate([np.sort(values[start:end], axis=0)[:count] for start, end, count in runs])


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


@dataclass(frozen=True, eq=False)
class GallerySummary:
    """Who is in a gallery, and which of them in which part."""

    encoder: Encoder
    disorders: tuple[Disorder, ...]  # sorted by id
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int
    disorders_of_parts: tuple[Ints, ...]  # where each part's disorders stand among all
    images_of_parts: tuple[Ints, ...]  # of each part's disorders

    @cached_property
    def place_of_disorder(self) -> dict[str, int]:
        """Where a disorder id stands among all."""
        return {disorder.disorder_id: place for place, disorder in enumerate(self.disorders)}

    @cached_property
    def place_in_parts(self) -> list[Ints]:
        """Where each disorder stands in each part; -1 where the part lacks it."""
        places = [np.full(len(self.disorders), -1) for _ in self.disorders_of_parts]
        for place, here in zip(places, self.disorders_of_parts, strict=True):
            place[here] = np.arange(len(here))
        return places


def summary_of_parts(parts: Parts[GalleryIndex], names: Sequence[str] = ()) -> GallerySummary:
    """Asks the parts, which have these names; different encoders are refused."""
    summaries = parts.ask(summary_of)
    called = names or [f"part {number + 1}" for number in range(len(summaries))]
    encoder = summaries[0].encoder
    for name, summary in zip(called[1:], summaries[1:], strict=True):
        summary.encoder.require_same(encoder, here=f"the gallery {name}", there=f"the gallery {called[0]}")
        encoder = encoder.completed_by(summary.encoder)
    disorder_of: dict[str, Disorder] = {}
    for summary in summaries:
        for disorder in summary.disorders:
            known = disorder_of.get(disorder.disorder_id, disorder)
            disorder_of[disorder.disorder_id] = Disorder(
                known.disorder_id, known.name or disorder.name, known.omim or disorder.omim
            )
    disorders = tuple(disorder_of[disorder_id] for disorder_id in sorted(disorder_of))
    place_of = {disorder.disorder_id: place for place, disorder in enumerate(disorders)}
    places = [np.array([place_of[disorder.disorder_id] for disorder in summary.disorders]) for summary in summaries]
    images, patients = np.zeros((2, len(disorders)), dtype=np.intp)
    for summary, of_part in zip(summaries, places, strict=True):
        images[of_part] += summary.images_of_disorder
        patients[of_part] += summary.patients_of_disorder
    return GallerySummary(
        encoder,
        disorders,
        images,
        patients,
        sum(summary.images for summary in summaries),
        sum(summary.patients for summary in summaries),
        tuple(places),
        tuple(summary.images_of_disorder for summary in summaries),
    )


def summary_of(index: GalleryIndex) -> GallerySummary:
    """What a part says of itself."""
    roster = index.roster
    images, patients = roster.images_of_disorder, roster.patients_of_disorder
    sizes = len(roster.image_ids), len(roster.patient_ids)
    return GallerySummary(
        index.encoder, roster.disorders, images, patients, *sizes, (np.arange(len(images)),), (images,)
    )


def sums_of_disorders(index: GalleryIndex, disorder_ids: Sequence[str], kind: CentroidKind) -> dict[str, Sums]:
    """What this part adds to the centroids of some disorders."""
    place_of = index.roster.disorder_of_id
    return {each: index.sums(np.array([place_of[each]]), kind) for each in disorder_ids if each in place_of}


def rows_of_sums(parts: Sequence[dict[str, Sums]]) -> Float32s:
    """The unit rows of centroids, in the order of the disorders' ids, from what each part adds to them."""
    return np.concatenate([unit_row_of(sums) for _, sums in sorted(added_up(parts).items())])


def unit_row_of(sums: Sums) -> Float32s:
    """The unit row of one centroid."""
    return unit_rows(sums.means).astype(np.float32)


def joined(
    found: Sequence[MeasuredPart], asked: Sequence[Ints], neighbours: Ints
) -> tuple[Ints, Float64s, list[tuple[str, str]]]:
    """The nearest images of all parts: where those of each pair start, their distances, and who is on the nearest."""
    pair = np.concatenate([numbers[part.pair] for part, numbers in zip(found, asked, strict=True)])
    distance = np.concatenate([part.distance for part in found])
    first_of: dict[int, tuple[float, tuple[str, str]]] = {}
    for part, numbers in zip(found, asked, strict=True):
        starts = np.flatnonzero(run_starts(part.pair))
        nearest = zip(numbers[part.pair[starts]].tolist(), part.distance[starts].tolist(), part.who, strict=True)
        for number, *candidate in nearest:
            first_of[number] = min(first_of.get(number, tuple(candidate)), tuple(candidate))
    order = np.lexsort((distance, pair))
    pair, distance = pair[order], distance[order]
    kept = places_in_runs(pair) < neighbours[pair]
    pair, distance = pair[kept], distance[kept]
    first = np.searchsorted(pair, np.arange(len(neighbours)))
    return first, distance, [first_of[number][1] for number in range(len(neighbours))]

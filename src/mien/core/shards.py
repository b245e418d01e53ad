"""A gallery in several parts: here, read in blocks, or on the machines of a cluster.

Queries go to every part and partial answers come back (`partial`). What is known of the gallery as a whole stays here:
how many images and patients each disorder has, and its centroid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.census import Census
from mien.core.centroids import Sums, joined_sums
from mien.core.cohort import Query
from mien.core.embeddings import unit_rows
from mien.core.encoder import Encoder
from mien.core.evidence import Entries, Known, Ranking, float32_error, pair_distances, ranked
from mien.core.fusion import fuse_distances
from mien.core.index import CentroidKind, GalleryIndex
from mien.core.method import Method
from mien.core.nearest_cases import CASES, Case, nearest_cases
from mien.core.partial import Near, Partial, Question, disorders_of, look, merged, recognised, rows_per_block
from mien.core.parts import Everywhere
from mien.core.probes import batches, nobody_left, probe_rows
from mien.core.roster import Disorder
from mien.core.scores import Parts
from mien.core.scores.patient_centroid import centroid_distance

ENTRIES_PER_BATCH = 1 << 20  # probes times disorders: some 100 MB
DISTANCES_PER_BLOCK = 1 << 24  # probes times image rows: 64 MB
CENTROIDS_PER_BLOCK = 64  # whose sums are put together at a time: 6 MB from each part


@dataclass(frozen=True, eq=False)
class Shards:
    """Parts of a gallery, and what they are together. A patient is in one of them, a disorder in any number.

    >>> import numpy as np
    >>> from mien import Cohort, Query, rank
    >>> from mien.core.parts import Here
    >>> one, other = (
    ...     Cohort.of(rows, image_ids=ids, patient_ids=ids, disorder_ids=disorders).index
    ...     for rows, ids, disorders in [
    ...         (np.eye(3)[:2], ["1", "2"], ["Noonan", "Kabuki"]),
    ...         (np.eye(3)[2:], ["3"], ["Kabuki"]),
    ...     ]
    ... )
    >>> [answer] = rank(Shards.of(Here([one, other])), Query.of(np.array([[0.0, 0.9, 1.0]])))
    >>> line = answer.disorders[0]
    >>> line.disorder_id, line.gallery_images, line.nearest_image_id
    ('Kabuki', 2, '3')
    """

    everywhere: Everywhere[GalleryIndex]
    parts: int
    encoder: Encoder
    disorders: tuple[Disorder, ...]  # sorted by id
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int
    _centroid_rows: dict[CentroidKind, Float32s] = field(default_factory=dict)

    @classmethod
    def of(cls, everywhere: Everywhere[GalleryIndex], names: Sequence[str] = ()) -> Shards:
        """Asks the parts who is in them; different encoders, or a patient or an image in two parts, are refused.

        `names` are what the parts are called.
        """
        census = Census.of(everywhere, names)
        return cls(everywhere, *census)

    @property
    def shards(self) -> Shards:
        """Itself: shards can stand wherever a gallery can."""
        return self

    def own_patients(self, queries: Sequence[Query]) -> list[tuple[str, ...]]:
        """The ids of each query's own patients."""
        answers = self.everywhere(partial(recognised, queries=queries))
        return [tuple(sorted(who for part in of_query for who in part)) for of_query in zip(*answers, strict=True)]

    def rank_known(self, queries: Sequence[Known], method: Method, top: int | None) -> list[Ranking]:
        """Ranks queries of whom it is known who they are in the gallery."""
        width = self.encoder.representations * self.encoder.dimensions
        most = max(1, min(ENTRIES_PER_BATCH // len(self.disorders), DISTANCES_PER_BLOCK // rows_per_block(width)))
        return [ranking for batch in batches(queries, most) for ranking in self._rank_batch(batch, method, top)]

    def nearest_cases(self, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]) -> list[list[Case]]:
        """The nearest patients of each disorder."""
        answers = self.everywhere(partial(nearest_cases, rows=rows, own=own, disorder_ids=disorder_ids))
        return [
            sorted((case for part in of_disorder for case in part), key=lambda case: (case.distance, *case))[:CASES]
            for of_disorder in zip(*answers, strict=True)
        ]

    def centroid_rows(self, kind: CentroidKind) -> Float32s:
        """The unit rows of the disorders' centroids, from the sums of all parts; made once."""
        if kind not in self._centroid_rows:
            if self.parts == 1:
                [rows] = self.everywhere(partial(GalleryIndex.centroid_rows, kind=kind))
            else:
                ids = [disorder.disorder_id for disorder in self.disorders]
                blocks = [ids[start : start + CENTROIDS_PER_BLOCK] for start in range(0, len(ids), CENTROIDS_PER_BLOCK)]
                asks = [partial(sums_of_disorders, disorder_ids=block, kind=kind) for block in blocks]
                rows = np.concatenate(self.everywhere.combined(asks, rows_of_sums))
            self._centroid_rows[kind] = rows
        return self._centroid_rows[kind]

    def _rank_batch(self, batch: list[Known], method: Method, top: int | None) -> Iterator[Ranking]:
        rows, query_of_probe = probe_rows([known.query for known in batch], method.fusion)
        neighbours = method.scoring.neighbours(self.images_of_disorder, method.weights)
        counted = dict(zip((disorder.disorder_id for disorder in self.disorders), neighbours.tolist(), strict=True))
        question = Question(
            rows=rows,
            query_of_probe=query_of_probe,
            own_patients=tuple(known.own_patients for known in batch),
            lost=self._lost([known.own_patients for known in batch]),
            neighbours=None if (neighbours == 1).all() else counted,
            centroid=method.scoring.centroid,
        )
        answer = merged(self.everywhere(partial(look, question=question)))
        compared = set(query_of_probe[answer.near.probe].tolist())
        for number, known in enumerate(batch):
            if number not in compared:
                raise nobody_left(known.query)
        entries = self._entries(answer, question, method, top)
        lists = ranked(entries, query_of_probe, self.disorders, answer.cases.__getitem__, top)
        for (query, own), disorders in zip(batch, lists, strict=True):
            yield Ranking(query.patient_id, query.encodings.image_ids, own, disorders)

    def _lost(self, own_patients: Sequence[tuple[str, ...]]) -> tuple[tuple[int, str], ...]:
        """Queries and disorders that lose images with the queries' own patients."""
        if not any(own_patients):
            return ()
        answers = self.everywhere(partial(disorders_of, patients=own_patients))
        return tuple(sorted({(query, each) for part in answers for query, ids in enumerate(part) for each in ids}))

    def _entries(self, answer: Partial, question: Question, method: Method, top: int | None) -> Entries:
        """What is known of each probe and disorder, those that cannot be among the first `top` left out."""
        found = _Found.of(answer.near)
        images, patients = self.images_of_disorder[found.disorder], self.patients_of_disorder[found.disorder]
        query = question.query_of_probe[found.probe]
        special: dict[int, Float32s] = {}  # centroid rows of entries that lose images
        for (of_query, disorder_id), left in answer.left.items():
            row = _unit_row(left.sums)
            for entry in np.flatnonzero((query == of_query) & (found.disorder == self._place[disorder_id])).tolist():
                images[entry], patients[entry], special[entry] = left.images, left.patients, row
        if question.neighbours is not None:
            found = found.only_nearest(method.scoring.neighbours(images, method.weights))

        rows, centroid_rows = question.rows, self.centroid_rows(question.centroid)
        centroid = centroid_distance(rows, centroid_rows)[found.probe, found.disorder].astype(np.float64)
        for entry, row in special.items():
            centroid[entry] = pair_distances(rows[found.probe[entry]], row)[0]
        kept = np.arange(len(centroid))
        if top is not None and top < len(self.disorders):
            first_look = found.score(method, centroid)
            kept = self._shortlisted(first_look, found, question.query_of_probe, top)
        for probe, row in enumerate(rows):
            start, end = np.searchsorted(found.probe[kept], [probe, probe + 1])
            entries = kept[start:end]
            plain = entries[~np.isin(entries, list(special))] if special else entries
            centroid[plain] = pair_distances(row, centroid_rows[found.disorder[plain]])
        return Entries(
            probe=found.probe[kept],
            disorder=found.disorder[kept],
            distance=found.score(method, centroid)[kept],
            nearest=found.distance[found.first[kept]],
            centroid=centroid[kept],
            case=found.case[found.first[kept]],
            images=images[kept],
            patients=patients[kept],
        )

    @cached_property
    def _place(self) -> dict[str, int]:
        return {disorder.disorder_id: place for place, disorder in enumerate(self.disorders)}

    def _shortlisted(self, first_look: Float64s, found: _Found, query_of_probe: Ints, top: int) -> Ints:
        """The entries of disorders within rounding of a query's first `top`."""
        table = np.full((len(query_of_probe), len(self.disorders)), np.inf)
        table[found.probe, found.disorder] = first_look
        fused = fuse_distances(table, np.searchsorted(query_of_probe, np.arange(query_of_probe[-1] + 1)))
        kth = np.partition(fused, top - 1, axis=1)[:, top - 1 : top]
        width = self.encoder.representations * self.encoder.dimensions
        near = fused <= kth + float32_error(width)
        return np.flatnonzero(near[query_of_probe[found.probe], found.disorder])


class _Found(NamedTuple):
    """The near images, and the entries that they belong to."""

    probe: Ints  # of each entry
    disorder: Ints
    first: Ints  # where its images start
    case: Ints  # of each image
    distance: Float64s

    @classmethod
    def of(cls, near: Near) -> _Found:
        first = near.first_of_entry
        return cls(near.probe[first], near.disorder[first], first, near.case, near.distance)

    def only_nearest(self, counts: Ints) -> _Found:
        """The first so many images of each entry."""
        lengths = np.diff(self.first, append=len(self.case))
        kept = np.arange(len(self.case)) - self.first.repeat(lengths) < counts.repeat(lengths)
        first = np.cumsum(np.minimum(lengths, counts)) - np.minimum(lengths, counts)
        return self._replace(first=first, case=self.case[kept], distance=self.distance[kept])

    def score(self, method: Method, centroid: Floats) -> Float64s:
        """The entries' distances; all images that are left count."""
        parts = Parts(self.distance[np.newaxis], self.first, centroid[np.newaxis])
        distances: Float64s = method.scoring.distance(parts, method.weights._replace(alpha=1.0))[0]
        return distances


def sums_of_disorders(index: GalleryIndex, disorder_ids: Sequence[str], kind: CentroidKind) -> dict[str, Sums]:
    """What this part adds to the centroids of some disorders."""
    sums, place_of = index.sums(kind), index.roster.disorder_of_id
    places = {disorder_id: place_of[disorder_id] for disorder_id in disorder_ids if disorder_id in place_of}
    return {
        disorder_id: Sums(sums.high[[place]], sums.low[[place]], sums.counts[[place]])
        for disorder_id, place in places.items()
    }


def rows_of_sums(parts: Sequence[dict[str, Sums]]) -> Float32s:
    """The unit rows of centroids, in the order of the disorders' ids, from what each part adds to them."""
    return np.concatenate([_unit_row(sums) for _, sums in sorted(joined_sums(parts).items())])


def _unit_row(sums: Sums) -> Float32s:
    return unit_rows(sums.means).astype(np.float32)

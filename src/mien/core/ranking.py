"""From queries to ranked disorders with their evidence.

Two looks. The first is a matrix product over the whole gallery, whose last digits depend on how it is cut into blocks
and threads; the second repeats, one pair at a time, every distance that can decide a place in the list. So an answer
does not depend on the batch it was asked in or on the order of rows, and what is equal ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from mien.core.arrays import Floats
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.errors import shown
from mien.core.evidence import Probes, RankedDisorder, Shortlists, ranked_disorders
from mien.core.fusion import fuse_distances, probe_embeddings
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method
from mien.core.scores import Parts
from mien.core.scores.patient_centroid import centroid_distance

DISTANCES_PER_BLOCK = 1 << 24  # 64 MB of float32
DISTANCES_PER_WHOLE_BLOCK = 1 << 20  # where every disorder is ranked, everything is looked at twice


class Ranking(NamedTuple):
    """The answer to one query; `excluded_gallery_patients` are the query's own patient, left out of the gallery."""

    patient_id: str | None
    image_ids: tuple[str, ...]
    excluded_gallery_patients: tuple[str, ...]
    disorders: tuple[RankedDisorder, ...]


class Gallery(Protocol):
    """Anything that queries can be ranked against: a cohort, a stored gallery, or an index itself."""

    @property
    def index(self) -> GalleryIndex:
        """The unit rows."""


def rank(
    gallery: Gallery, queries: Query | Iterable[Query], method: Method = FULL, *, top: int | None = 10
) -> list[Ranking]:
    """Ranks the gallery's disorders for each query by (distance, disorder id), the closest first.

    With fusion `none` every image is a query of its own. `top=None` ranks all disorders.

    >>> import numpy as np
    >>> from mien import Cohort, Query
    >>> gallery = Cohort.of(np.eye(3), image_ids=["1", "2", "3"], patient_ids=["p", "q", "r"],
    ...                     disorder_ids=["Noonan", "Kabuki", "Kabuki"])
    >>> [answer] = rank(gallery, Query.of(np.array([[0.9, 0.1, 0.0], [0.8, 0.0, 0.1]])))
    >>> [(line.disorder_id, round(line.distance, 3)) for line in answer.disorders]
    [('Noonan', 0.003), ('Kabuki', 0.923)]
    """
    index = gallery.index
    asked = [queries] if isinstance(queries, Query) else list(queries)
    for encoder in {query.encodings.encoder for query in asked}:
        encoder.require_same(index.encoder, here="the query", there="the gallery")
    if method.fusion == "none":
        asked = [single for query in asked for single in query.per_image()]
    return [ranking for block in _blocks(asked, index, top) for ranking in _rank_block(index, block, method, top)]


def compare(index: GalleryIndex, rows: Floats, method: Method) -> Parts:
    """Distances of unit rows to all of the gallery, with the precision of the rows."""
    image_distances = mean_cosine_distance(rows, index.image_rows)
    of_label = index.roster.image_of_label
    if len(of_label) > len(index.image_rows):  # some image stands for two disorders
        image_distances = np.take(image_distances, of_label, axis=1)
    centroid_distances = centroid_distance(rows, index.centroid_rows(method.scoring.centroid))
    return Parts(image_distances, index.roster.first_label, centroid_distances)


def _blocks(queries: Sequence[Query], index: GalleryIndex, top: int | None) -> Iterator[list[Query]]:
    most = max(1, (DISTANCES_PER_BLOCK if top else DISTANCES_PER_WHOLE_BLOCK) // len(index.roster.image_of_label))
    block: list[Query] = []
    images = 0
    for query in queries:
        images += len(query.encodings.image_ids)
        if block and images > most:
            yield block
            block, images = [], len(query.encodings.image_ids)
        block.append(query)
    if block:
        yield block


def _rank_block(index: GalleryIndex, queries: list[Query], method: Method, top: int | None) -> Iterator[Ranking]:
    own_patients = [_patients_of_query(index, query) for query in queries]
    probes = _probes(index, queries, own_patients, method.fusion)
    first_look = compare(index, probes.rows, method)
    first_of_query = np.searchsorted(probes.query_of_probe, np.arange(len(queries)))
    disorder_distances = fuse_distances(method.scoring.distance(first_look, method.weights), first_of_query)
    shortlists = Shortlists.of(index, disorder_distances, probes, top)
    second_look = shortlists.compare(index, first_look.image_distances, probes, method)
    ranked = ranked_disorders(index, shortlists, second_look, probes, method, top)
    for query, own, disorders in zip(queries, own_patients, ranked, strict=True):
        excluded = tuple(index.roster.patient_ids[patient] for patient in own)
        yield Ranking(query.patient_id, query.encodings.image_ids, excluded, disorders)


def _probes(index: GalleryIndex, queries: list[Query], own_patients: list[list[int]], fusion: str) -> Probes:
    rows = []
    for query in queries:
        whose = f"the images {', '.join(map(shown, query.encodings.image_ids))}"
        rows.append(unit_rows(probe_embeddings(query.encodings.embeddings, fusion), whose).astype(np.float32))
    excluded = None
    if any(own_patients):
        excluded = np.zeros((len(queries), len(index.roster.patient_ids)), dtype=bool)
        for number, own in enumerate(own_patients):
            excluded[number, own] = True
    return Probes(np.concatenate(rows), np.repeat(np.arange(len(queries)), [len(of) for of in rows]), excluded)


def _patients_of_query(index: GalleryIndex, query: Query) -> list[int]:
    """The gallery patients that are the query's own: by its patient id or, if that is unknown, by its images' ids."""
    roster = index.roster
    if query.patient_id is not None:
        patient = roster.patient_of_id.get(query.patient_id)
        return [] if patient is None else [patient]
    images = [roster.image_of_id[image_id] for image_id in query.encodings.image_ids if image_id in roster.image_of_id]
    return sorted({int(roster.patient_of_image[image]) for image in images})

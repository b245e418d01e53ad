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
from mien.core.errors import EmptyGalleryError, InvalidMethodError, shown
from mien.core.evidence import Probes, RankedDisorder, Shortlists, float32_error, pair_distances, ranked_disorders
from mien.core.fusion import fuse_distances, probe_embeddings
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method
from mien.core.scores import Parts
from mien.core.scores.patient_centroid import centroid_distance

DISTANCES_PER_BLOCK = 1 << 24  # 64 MB of float32
DISTANCES_PER_WHOLE_BLOCK = 1 << 20  # where every disorder is ranked, everything is looked at twice
SAME_PHOTO = 1e-4  # a distance far below that of any two photos, and far above what is lost in encoding one twice


class Ranking(NamedTuple):
    """The answer to one query; `excluded_gallery_patients` are the query's own patient, left out of the gallery."""

    patient_id: str | None
    image_ids: tuple[str, ...]
    excluded_gallery_patients: tuple[str, ...]
    disorders: tuple[RankedDisorder, ...]


class HasIndex(Protocol):
    """Anything that queries can be ranked against: a cohort, a stored gallery, or an index itself."""

    @property
    def index(self) -> GalleryIndex:
        """The unit rows."""


def rank(
    gallery: HasIndex, queries: Query | Iterable[Query], method: Method = FULL, *, top: int | None = 10
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
    if top is not None and top < 1:
        raise InvalidMethodError(f"top is {top}: rank at least one disorder")
    asked = [queries] if isinstance(queries, Query) else list(queries)
    for encoder in {query.encodings.encoder for query in asked}:
        encoder.require_same(index.encoder, here="the query", there="the gallery")
    known = [Known(query, own_patients(index, query)) for query in asked]
    if method.fusion == "none":
        known = [Known(single, own) for query, own in known for single in query.per_image()]
    return rank_known(index, known, method, top)


class Known(NamedTuple):
    """A query, and the gallery patients that are its own."""

    query: Query
    own_patients: list[int]


def rank_known(index: GalleryIndex, queries: Sequence[Known], method: Method, top: int | None) -> list[Ranking]:
    """Ranks queries of whom it is known who they are in the gallery."""
    return [ranking for block in _blocks(queries, index, top) for ranking in _rank_block(index, block, method, top)]


def compare(index: GalleryIndex, rows: Floats, method: Method) -> Parts:
    """Distances of unit rows to all of the gallery, with the precision of the rows."""
    image_distances = mean_cosine_distance(rows, index.image_rows)
    of_label = index.roster.image_of_label
    if len(of_label) > len(index.image_rows):  # some image stands for two disorders
        image_distances = np.take(image_distances, of_label, axis=1)
    centroid_distances = centroid_distance(rows, index.centroid_rows(method.scoring.centroid))
    return Parts(image_distances, index.roster.first_label, centroid_distances)


def _blocks(queries: Sequence[Known], index: GalleryIndex, top: int | None) -> Iterator[list[Known]]:
    few = top is not None and 4 * top < len(index.roster.disorders)
    most = max(1, (DISTANCES_PER_BLOCK if few else DISTANCES_PER_WHOLE_BLOCK) // len(index.roster.image_of_label))
    block: list[Known] = []
    images = 0
    for known in queries:
        images += len(known.query.encodings.image_ids)
        if block and images > most:
            yield block
            block, images = [], len(known.query.encodings.image_ids)
        block.append(known)
    if block:
        yield block


def _rank_block(index: GalleryIndex, block: list[Known], method: Method, top: int | None) -> Iterator[Ranking]:
    probes = _probes(index, block, method.fusion)
    first_look = compare(index, probes.rows, method)
    first_of_query = np.searchsorted(probes.query_of_probe, np.arange(len(block)))
    disorder_distances = fuse_distances(method.scoring.distance(first_look, method.weights), first_of_query)
    shortlists = Shortlists.of(index, disorder_distances, probes, top)
    second_look = shortlists.compare(index, first_look.image_distances, probes, method)
    ranked = ranked_disorders(index, shortlists, second_look, probes, method, top)
    for (query, own_patients), disorders in zip(block, ranked, strict=True):
        excluded = tuple(index.roster.patient_ids[patient] for patient in own_patients)
        yield Ranking(query.patient_id, query.encodings.image_ids, excluded, disorders)


def _probes(index: GalleryIndex, block: list[Known], fusion: str) -> Probes:
    rows = []
    excluded = np.zeros((len(block), len(index.roster.patient_ids)), dtype=bool)
    for number, (query, own_patients) in enumerate(block):
        whose = f"the images {', '.join(map(shown, query.encodings.image_ids))}"
        rows.append(unit_rows(probe_embeddings(query.encodings.embeddings, fusion), whose).astype(np.float32))
        excluded[number, own_patients] = True
        if excluded[number].all():
            raise EmptyGalleryError(f"every gallery image belongs to the own patient of {whose}: nothing to rank")
    query_of_probe = np.repeat(np.arange(len(block)), [len(of_query) for of_query in rows])
    return Probes(np.concatenate(rows), query_of_probe, excluded if excluded.any() else None)


def own_patients(index: GalleryIndex, query: Query) -> list[int]:
    """The gallery patients that are the query's own.

    They have its patient id, or hold one of its images: by image id where the query's patient is unknown, and where
    somebody else is said to be on it, by image id and embedding. Where ids are names of files, by embedding alone.
    """
    roster, encodings = index.roster, query.encodings
    own = {roster.patient_of_id[query.patient_id]} if query.patient_id in roster.patient_of_id else set()
    if query.ids_are_file_names:
        rows = unit_rows(encodings.embeddings).astype(np.float32)
        same = (mean_cosine_distance(rows, index.image_rows) < SAME_PHOTO).any(axis=0)
        return sorted(own.union(roster.patient_of_image[same].tolist()))
    for row, image_id in enumerate(encodings.image_ids):
        image = roster.image_of_id.get(image_id)
        if image is not None and (query.patient_id is None or _same_photo(index, image, encodings.embeddings[row])):
            own.add(int(roster.patient_of_image[image]))
    return sorted(own)


def _same_photo(index: GalleryIndex, image: int, embedding: Floats) -> bool:
    row = unit_rows(embedding[np.newaxis]).astype(np.float32)[0]
    return bool(pair_distances(row, index.image_rows[image : image + 1])[0] < float32_error(len(row)))

"""From queries to ranked disorders with their evidence.

Two looks. The fast one is a float32 matrix product over the whole gallery; the exact one repeats, in float64 and one
pair at a time, every distance that can decide a place in the list. So an answer does not depend on the batch it was
asked in, on the number of threads or on the order of rows, and equal distances really are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mien.core.arrays import Floats
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.errors import shown
from mien.core.evidence import RankedDisorder, Shortlist, ranked_disorders
from mien.core.fusion import fuse_distances, probe_embeddings
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method
from mien.core.scores import Parts
from mien.core.scores.patient_centroid import centroid_distance

DISTANCES_PER_BLOCK = 1 << 24  # 64 MB of float32


@dataclass(frozen=True)
class Ranking:
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
    return [ranking for block in _blocks(asked, index) for ranking in _rank_block(index, block, method, top)]


def compare(index: GalleryIndex, rows: Floats, method: Method) -> Parts:
    """Distances of unit rows to all of the gallery, with the precision of the rows."""
    image_distances = mean_cosine_distance(rows, index.image_rows)
    of_label = index.roster.image_of_label
    if len(of_label) > len(index.image_rows):  # some image stands for two disorders
        image_distances = np.take(image_distances, of_label, axis=1)
    centroid_distances = centroid_distance(rows, index.centroid_rows(method.scoring.centroid))
    return Parts(image_distances, index.roster.first_label, centroid_distances)


def _blocks(queries: Sequence[Query], index: GalleryIndex) -> Iterator[list[Query]]:
    most = max(1, DISTANCES_PER_BLOCK // len(index.roster.image_of_label))
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
    images_of_query = np.array([len(query.encodings.image_ids) for query in queries])
    first_of_query = np.cumsum(images_of_query) - images_of_query
    probes, first_probe = probe_embeddings(
        np.concatenate([query.encodings.embeddings for query in queries]), first_of_query, method.fusion
    )
    rows = unit_rows(probes, [f"the query of images {', '.join(map(shown, q.encodings.image_ids))}" for q in queries])
    fast = compare(index, rows.astype(np.float32), method)
    fast_distances = fuse_distances(method.scoring.distance(fast, method.weights), first_probe)
    for number, (query, start) in enumerate(zip(queries, first_probe, strict=True)):
        probes_of_query = slice(start, first_probe[number + 1] if number + 1 < len(queries) else len(rows))
        excluded = _patients_of_query(index, query)
        excluded_image = np.isin(index.roster.patient_of_image, excluded) if excluded else None
        shortlist = Shortlist.of(index, fast_distances[number], excluded_image, top)
        exact = shortlist.compare_exactly(
            index, rows[probes_of_query], fast.image_distances[probes_of_query], method, excluded_image
        )
        yield Ranking(
            patient_id=query.patient_id,
            image_ids=query.encodings.image_ids,
            excluded_gallery_patients=tuple(index.roster.patient_ids[patient] for patient in excluded),
            disorders=tuple(ranked_disorders(index, shortlist, exact, method, top)),
        )


def _patients_of_query(index: GalleryIndex, query: Query) -> list[int]:
    """The gallery patients that are the query's own: by its patient id or, where that is unknown, by its images' ids."""
    roster = index.roster
    if query.patient_id is not None:
        patient = roster.patient_of_id.get(query.patient_id)
        return [] if patient is None else [patient]
    images = [roster.image_of_id[image_id] for image_id in query.encodings.image_ids if image_id in roster.image_of_id]
    return sorted({int(roster.patient_of_image[image]) for image in images})

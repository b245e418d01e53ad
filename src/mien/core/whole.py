"""A gallery whose rows are in memory, or mapped into it as a whole.

Two looks. The first is a matrix product over the whole gallery, whose last digits depend on how it is cut into blocks
and threads; the second repeats, one pair at a time, every distance that can decide a place in the list. So an answer
does not depend on the batch it was asked in or on the order of rows, and what is equal ties.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mien.core.arrays import Float32s, Floats
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance
from mien.core.encoder import Encoder
from mien.core.evidence import Known, Ranking, ranked
from mien.core.fusion import fuse_distances
from mien.core.index import GalleryIndex
from mien.core.method import Method
from mien.core.nearest_cases import Case, nearest_cases
from mien.core.own_patients import own_patients
from mien.core.probes import batches, nobody_left, probe_rows
from mien.core.scores import Parts
from mien.core.scores.patient_centroid import centroid_distance
from mien.core.shortlists import Probes, Shortlists

DISTANCES_PER_BLOCK = 1 << 24  # 64 MB of float32
DISTANCES_PER_WHOLE_BLOCK = 1 << 20  # where every disorder is ranked, everything is looked at twice


@dataclass(frozen=True, eq=False)
class Whole:
    """An index, as a source of rankings."""

    index: GalleryIndex

    @property
    def encoder(self) -> Encoder:
        """Of the gallery's embeddings."""
        return self.index.encoder

    def own_patients(self, queries: Sequence[Query]) -> list[tuple[str, ...]]:
        """The ids of each query's own patients."""
        patient_ids = self.index.roster.patient_ids
        return [tuple(patient_ids[patient] for patient in own_patients(self.index, query)) for query in queries]

    def rank_known(self, queries: Sequence[Known], method: Method, top: int | None) -> list[Ranking]:
        """Ranks queries of whom it is known who they are in the gallery."""
        blocks = _blocks(queries, self.index, top)
        return [ranking for block in blocks for ranking in _rank_block(self.index, block, method, top)]

    def nearest_cases(self, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]) -> list[list[Case]]:
        """The nearest patients of each disorder."""
        return nearest_cases(self.index, rows, own, disorder_ids)


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
    return batches(queries, most)


def _rank_block(index: GalleryIndex, block: list[Known], method: Method, top: int | None) -> Iterator[Ranking]:
    roster = index.roster
    probes = _probes(index, block, method.fusion)
    first_look = compare(index, probes.rows, method)
    first_of_query = np.searchsorted(probes.query_of_probe, np.arange(len(block)))
    disorder_distances = fuse_distances(method.scoring.distance(first_look, method.weights), first_of_query)
    shortlists = Shortlists.of(index, disorder_distances, probes, top)
    second_look = shortlists.compare(index, first_look.image_distances, probes, method)
    entries = shortlists.entries(roster, second_look, method)
    lists = ranked(
        entries,
        probes.query_of_probe,
        roster.disorders,
        lambda image: (roster.patient_ids[roster.patient_of_image[image]], roster.image_ids[image]),
        top,
    )
    for (query, own), disorders in zip(block, lists, strict=True):
        yield Ranking(query.patient_id, query.encodings.image_ids, own, disorders)


def _probes(index: GalleryIndex, block: list[Known], fusion: str) -> Probes:
    rows, query_of_probe = probe_rows([known.query for known in block], fusion)
    excluded = np.zeros((len(block), len(index.roster.patient_ids)), dtype=bool)
    for number, known in enumerate(block):
        if known.own_patients:
            excluded[number, [index.roster.patient_of_id[patient_id] for patient_id in known.own_patients]] = True
            if excluded[number].all():
                raise nobody_left(known.query)
    return Probes(rows, query_of_probe, excluded if excluded.any() else None)

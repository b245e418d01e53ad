"""From queries to ranked disorders with their evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, runtime_checkable

from mien.core.arrays import Float32s
from mien.core.cohort import Query
from mien.core.encoder import Encoder
from mien.core.errors import InvalidMethodError
from mien.core.evidence import Known, Ranking
from mien.core.index import LARGEST_WHOLE, GalleryIndex
from mien.core.method import FULL, Method
from mien.core.nearest_cases import Case
from mien.core.parts import Here
from mien.core.shards import Shards
from mien.core.whole import Whole


class HasIndex(Protocol):
    """Anything with unit rows: a cohort, a stored gallery, or an index itself."""

    @property
    def index(self) -> GalleryIndex:
        """The unit rows."""


@runtime_checkable
class HasShards(Protocol):
    """Anything in parts: a gallery of several directories, or shards themselves."""

    @property
    def shards(self) -> Shards:
        """The parts."""


class Source(Protocol):
    """What queries are ranked against: whole, or in parts."""

    @property
    def encoder(self) -> Encoder:
        """Of the gallery's embeddings."""

    def own_patients(self, queries: Sequence[Query]) -> list[tuple[str, ...]]:
        """The ids of each query's own patients, sorted."""

    def rank_known(self, queries: Sequence[Known], method: Method, top: int | None) -> list[Ranking]:
        """Ranks queries of whom it is known who they are in the gallery."""

    def nearest_cases(self, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]) -> list[list[Case]]:
        """The nearest patients of each disorder to any of some unit rows."""


def source_of(gallery: HasIndex | HasShards) -> Source:
    """How a gallery is ranked against: in one go, or in blocks where it may be larger than the memory."""
    if isinstance(gallery, HasShards):
        return gallery.shards
    index = gallery.index
    return Whole(index) if index.image_rows.nbytes <= LARGEST_WHOLE else Shards.of(Here([index]))


def rank(
    gallery: HasIndex | HasShards, queries: Query | Iterable[Query], method: Method = FULL, *, top: int | None = 10
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
    source = source_of(gallery)
    if top is not None and top < 1:
        raise InvalidMethodError(f"top is {top}: rank at least one disorder")
    asked = [queries] if isinstance(queries, Query) else list(queries)
    for encoder in {query.encodings.encoder for query in asked}:
        encoder.require_same(source.encoder, here="the query", there="the gallery")
    known = [Known(*pair) for pair in zip(asked, source.own_patients(asked), strict=True)]
    if method.fusion == "none":
        known = [Known(single, own) for query, own in known for single in query.per_image()]
    return source.rank_known(known, method, top)

"""From queries to ranked disorders with their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mien.core.answers import Ranking
from mien.core.cohort import Query
from mien.core.errors import InvalidMethodError, WrongArgumentError, require
from mien.core.gallery_parts import LocalParts
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method
from mien.core.searcher import AskedQuery, Searcher


class HasIndex(Protocol):
    """Anything in one part: a cohort, a stored gallery."""

    @property
    def index(self) -> GalleryIndex:
        """The unit rows."""


class HasSearcher(Protocol):
    """Anything in several parts."""

    @property
    def searcher(self) -> Searcher:
        """What asks the parts."""


AnyGallery = HasIndex | HasSearcher | GalleryIndex | Searcher


def searcher_of(gallery: AnyGallery) -> Searcher:
    """What ranks queries against a gallery."""
    found = gallery if isinstance(gallery, GalleryIndex | Searcher) else getattr(gallery, "searcher", None)
    found = found or getattr(gallery, "index", None)
    if not isinstance(found, GalleryIndex | Searcher):
        raise WrongArgumentError(f"{type(gallery).__name__} is no gallery: pass Gallery.open(directory) or a Cohort")
    return found if isinstance(found, Searcher) else Searcher.of(LocalParts([found]))


def rank(
    gallery: AnyGallery, queries: Query | Iterable[Query], method: Method = FULL, *, top: int | None = 10
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
    searcher = searcher_of(gallery)
    asked = [queries] if isinstance(queries, Query) else list(queries)
    for query in asked:
        require(query, Query, "query", "Query.of(embeddings)")
    require(method, Method, "method", "Method(...), BASELINE or FULL")
    if top is not None and top < 1:
        raise InvalidMethodError(f"top is {top}: rank at least one disorder")
    for encoder in {query.encodings.encoder for query in asked}:
        encoder.require_same(searcher.encoder, here="the query", there="the gallery")
    known = [AskedQuery(*pair) for pair in zip(asked, searcher.own_patients(asked), strict=True)]
    if method.fusion == "none":
        known = [AskedQuery(single, own) for query, own in known for single in query.per_image()]
    return searcher.rank(known, method, top)

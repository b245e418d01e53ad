"""What of queries is compared with a gallery: unit rows, one or several per query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mien.core.arrays import Float32s, Ints
from mien.core.cohort import Query
from mien.core.embeddings import unit_rows
from mien.core.errors import EmptyGalleryError, shown
from mien.core.evidence import Known
from mien.core.fusion import probe_embeddings


def probe_rows(queries: Sequence[Query], fusion: str) -> tuple[Float32s, Ints]:
    """The unit rows of some queries, and the query of each row."""
    rows = [
        unit_rows(probe_embeddings(query.encodings.embeddings, fusion), _images(query)).astype(np.float32)
        for query in queries
    ]
    return np.concatenate(rows), np.repeat(np.arange(len(queries)), [len(of_query) for of_query in rows])


def batches(queries: Sequence[Known], most_images: int) -> Iterator[list[Known]]:
    """Queries a few at a time; one with more images than that stands alone."""
    block: list[Known] = []
    images = 0
    for known in queries:
        images += len(known.query.encodings.image_ids)
        if block and images > most_images:
            yield block
            block, images = [], len(known.query.encodings.image_ids)
        block.append(known)
    if block:
        yield block


def nobody_left(query: Query) -> EmptyGalleryError:
    """What is said where the query's own patient is all there is."""
    return EmptyGalleryError(f"every gallery image belongs to the own patient of {_images(query)}: nothing to rank")


def _images(query: Query) -> str:
    return f"the images {', '.join(map(shown, query.encodings.image_ids))}"

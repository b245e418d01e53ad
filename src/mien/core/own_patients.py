"""Who a query is in the gallery: nobody is compared with themselves."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mien.core.arrays import Float32s, Floats
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.evidence import float32_error, pair_distances
from mien.core.index import GalleryIndex

SAME_PHOTO = 1e-4  # a distance far below that of any two photos, and far above what is lost in encoding one twice


def own_patients(
    index: GalleryIndex, query: Query, blocks: Iterable[tuple[int, Float32s]] | None = None
) -> tuple[int, ...]:
    """The gallery patients that are the query's own.

    They have its patient id, or hold one of its images: by image id where the query's patient is unknown, and where
    somebody else is said to be on it, by image id and embedding. Where ids are names of files, by embedding alone.
    `blocks` are the gallery's image rows, each from a first row on; by default all in one.
    """
    roster, encodings = index.roster, query.encodings
    own = {roster.patient_of_id[query.patient_id]} if query.patient_id in roster.patient_of_id else set()
    if query.ids_are_file_names:
        rows = unit_rows(encodings.embeddings).astype(np.float32)
        for start, block in blocks or [(0, index.image_rows)]:
            same = (mean_cosine_distance(rows, block) < SAME_PHOTO).any(axis=0)
            own.update(roster.patient_of_image[start : start + len(block)][same].tolist())
        return tuple(sorted(own))
    for row, image_id in enumerate(encodings.image_ids):
        image = roster.image_of_id.get(image_id)
        if image is not None and (query.patient_id is None or _same_photo(index, image, encodings.embeddings[row])):
            own.add(int(roster.patient_of_image[image]))
    return tuple(sorted(own))


def _same_photo(index: GalleryIndex, image: int, embedding: Floats) -> bool:
    row = unit_rows(embedding[np.newaxis]).astype(np.float32)[0]
    return bool(pair_distances(row, index.image_rows[image : image + 1])[0] < float32_error(len(row)))

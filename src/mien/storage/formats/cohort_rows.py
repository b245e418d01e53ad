"""Cohort tables, whatever their file format: rows with `image_id`, `embedding` and, for labelled images, more ids.

An embedding is a list of numbers, or a list of such lists, one per representation. An image of a patient with two
disorders stands in two rows.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.core.encoder import Encoder
from mien.core.roster import Disorder
from mien.errors import InvalidFileError, MienError, shown
from mien.storage.formats.annotations import Annotations

REQUIRED_COLUMNS = ("image_id", "embedding")
TEXT_COLUMNS = ("image_id", "patient_id", "disorder_id", "disorder_name", "omim")


class CohortRow(NamedTuple):
    """One row; None for a column that the table does not have, and blank for a cell that holds nothing."""

    row: int
    embedding: Float32s  # (representations, dimensions)
    image_id: str
    patient_id: str | None = None
    disorder_id: str | None = None
    disorder_name: str | None = None
    omim: str | None = None


class CohortCollector:
    """Gathers the rows of a table into embeddings and annotations; a contradiction refuses the table."""

    def __init__(self, path: Path, wanted: Container[str] | None, *, labelled: bool) -> None:
        self.path = path
        self.wanted = wanted
        self.labelled = labelled  # else the disorder of an image is ignored
        self.annotations = Annotations()
        self.embedding_of: dict[str, Float32s] = {}
        self.left_out: set[str] = set()
        self.problems: list[str] = []

    def add(self, row: CohortRow) -> None:
        if row.image_id and self.wanted is not None and row.image_id not in self.wanted:
            self.left_out.add(row.image_id)
            return
        disorder_id = row.disorder_id if self.labelled else None
        wrong = self.annotations.add_image(row.image_id, row.patient_id, disorder_id) or self._add_embedding(row)
        if row.disorder_id and (row.disorder_name or row.omim):
            named = Disorder(row.disorder_id, row.disorder_name or None, row.omim or None)
            wrong = wrong or self.annotations.add_disorder(named)
        if wrong:
            self.problems.append(f"row {row.row}: {wrong}")

    def _add_embedding(self, row: CohortRow) -> str | None:
        others = next(iter(self.embedding_of.values()), row.embedding)
        if row.embedding.shape != others.shape:
            sizes = [" x ".join(map(str, embedding.shape)) for embedding in (row.embedding, others)]
            return f"image {shown(row.image_id)} has an embedding of {sizes[0]} numbers, others of {sizes[1]}"
        first = self.embedding_of.setdefault(row.image_id, row.embedding)
        if first is not row.embedding and not np.array_equal(first, row.embedding):
            return f"image {shown(row.image_id)} is there twice, with different embeddings: keep one"
        return None

    def result(self, encoder: Encoder | None = None) -> tuple[Encodings, int, Annotations]:
        """Embeddings, how many images were not wanted, and annotations."""
        if self.problems:
            raise InvalidFileError(self.path, self.problems)
        embeddings = np.stack(list(self.embedding_of.values())) if self.embedding_of else np.empty((0, 1, 1))
        try:
            encodings = Encodings.of(list(self.embedding_of), embeddings, encoder)
        except MienError as error:
            raise InvalidFileError(self.path, [str(error)]) from error
        return encodings, len(self.left_out), self.annotations

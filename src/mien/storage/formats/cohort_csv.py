"""Cohort tables as CSV: embeddings are JSON lists in a quoted field."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path

import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.errors import shown
from mien.storage.formats import text_tables
from mien.storage.formats.annotations import (
    REQUIRED_COLUMNS,
    TEXT_COLUMNS,
    Annotations,
    CohortCollector,
    CohortRow,
    require_columns,
)


def read_cohort_csv(path: Path, wanted: Container[str] | None, *, labelled: bool) -> tuple[Encodings, int, Annotations]:
    """Reads the wanted images (all, if None), how many others the table holds, and what it says of the wanted ones."""
    _, text, names, separator = text_tables.read_table(path)
    require_columns(path, names, REQUIRED_COLUMNS, separator)
    place = {name: names.index(name) for name in TEXT_COLUMNS if name in names}
    embedding_at = names.index("embedding")
    collector = CohortCollector(path, wanted, labelled=labelled)
    problems = collector.problems
    for row, fields in text_tables.rows(text, separator, len(names), problems):
        texts = {name: fields[at] for name, at in place.items()}
        try:
            embedding = _embedding(fields[embedding_at])
        except (ValueError, TypeError):
            where = f"row {row}, image {shown(texts['image_id'])}"
            problems.append(f"{where}: expected a list of numbers, or lists of one length, in the field embedding")
            continue
        collector.add(CohortRow(row, embedding, **texts))
    return collector.result()


def _embedding(text: str) -> Float32s:
    """A list of numbers, or one such list per representation."""
    with np.errstate(over="ignore"):  # an infinite value is refused by name
        embedding: Float32s = np.array(json.loads(text), dtype=np.float32)
    if embedding.ndim not in {1, 2}:
        raise ValueError("it is no list")
    return embedding.reshape(-1, embedding.shape[-1])

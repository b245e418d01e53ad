"""Cohort tables as CSV: embeddings are JSON lists in a quoted field."""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path

import numpy as np

from mien.core.arrays import Float32s
from mien.errors import shown
from mien.storage.formats.annotations import REQUIRED_COLUMNS, TEXT_COLUMNS, CohortCollector, EncodingsFile
from mien.storage.formats.text_tables import read_table


def read_cohort_csv(path: Path, wanted: Container[str] | None, *, labelled: bool) -> EncodingsFile:
    """Reads the wanted images (all, if None)."""
    collector = CohortCollector(path, wanted, labelled=labelled)

    def take(row: dict[str, str]) -> str | None:
        texts = {name: row[name] for name in TEXT_COLUMNS if name in row}
        try:
            embedding = _embedding(row["embedding"])
        except (ValueError, TypeError):
            what = "expected a list of numbers, or lists of one length, in the field embedding"
            return f"image {shown(row['image_id'])}: {what}"
        return collector.add(embedding, **texts)

    read_table(path).each_row(REQUIRED_COLUMNS, take)
    return collector.result()


def _embedding(text: str) -> Float32s:
    """A list of numbers, or one such list per representation."""
    with np.errstate(over="ignore"):  # an infinite value is refused by name
        embedding: Float32s = np.array(json.loads(text), dtype=np.float32)
    if embedding.ndim not in {1, 2}:
        raise ValueError("it is no list")
    return embedding.reshape(-1, embedding.shape[-1])

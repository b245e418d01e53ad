"""Cohort tables as CSV: embeddings are JSON lists in a quoted field."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.core.errors import InvalidFileError, shown
from mien.storage.formats import text_tables
from mien.storage.formats.annotations import Annotations
from mien.storage.formats.cohort_rows import REQUIRED_COLUMNS, TEXT_COLUMNS, CohortCollector, CohortRow
from mien.storage.formats.float_lists import BadListError, float_rows, one_list


def read_cohort_csv(path: Path, wanted: Container[str] | None) -> tuple[Encodings, Annotations, int]:
    """Reads the wanted images (all, if None), what the table says of them, and how many others it holds."""
    text = text_tables.read_text(path)
    names, separator = text_tables.header_of(path, text)
    text_tables.require_columns(path, names, REQUIRED_COLUMNS, separator)
    place = {name: names.index(name) for name in TEXT_COLUMNS if name in names}
    embedding_at = names.index("embedding")
    collector = CohortCollector(path, wanted)
    for row, fields in text_tables.rows(path, text, separator, len(names)):
        texts = {name: fields[at] for name, at in place.items()}
        try:
            embedding = _embedding(fields[embedding_at])
        except BadListError as error:
            where = f"row {row}, image {shown(texts['image_id'])}, field embedding"
            raise InvalidFileError(path, [f"{where}: {error}"]) from error
        collector.add(CohortRow(row, embedding, **texts))
    return collector.result()


def _embedding(text: str) -> Float32s:
    lists = max(1, text.count("[") - 1)
    flat = one_list(text).encode()
    numbers = float_rows(flat, np.array([1]), np.array([len(flat) - 1]))
    if numbers.size % lists:
        raise BadListError(0, f"{numbers.size} numbers in {lists} lists of unequal length")
    return numbers.reshape(lists, -1)

"""Cohort tables and plain encodings as Parquet, read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mien.core.arrays import Float32s, Floats, Ints
from mien.core.cohort import Encodings
from mien.core.embeddings import Encoder
from mien.core.roster import Roster
from mien.errors import InvalidFileError, shown
from mien.progress import Progress
from mien.storage.formats.annotations import (
    REQUIRED_COLUMNS,
    TEXT_COLUMNS,
    CohortCollector,
    EncodingsFile,
    require_columns,
)
from mien.storage.outputs import private_file

ENCODER_KEY = b"mien.encoder"
ROWS_PER_BATCH = 1024


def read_cohort_parquet(path: Path, wanted: Container[str] | None, *, labelled: bool) -> EncodingsFile:
    """Reads the wanted images (all, if None)."""
    collector = CohortCollector(path, wanted, labelled=labelled)
    problems = []
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            require_columns(path, schema.names, REQUIRED_COLUMNS)
            names = [name for name in TEXT_COLUMNS if name in schema.names]
            _check_id_types(path, schema, names)
            row = 1
            for batch in file.iter_batches(ROWS_PER_BATCH, columns=[*names, "embedding"]):
                columns = [["" if v is None else str(v) for v in batch[name].to_pylist()] for name in names]
                embeddings = _embeddings(path, batch["embedding"], columns[0], row)
                for embedding, *texts in zip(embeddings, *columns, strict=True):
                    if wrong := collector.add(embedding, **dict(zip(names, texts, strict=True))):
                        problems.append(f"row {row}: {wrong}")
                    row += 1
    except (pa.ArrowException, OSError) as error:
        raise InvalidFileError(path, [f"not a readable Parquet file ({error})"]) from error
    if problems:
        raise InvalidFileError(path, problems)
    try:
        stored = json.loads((schema.metadata or {}).get(ENCODER_KEY, b"null"))
        encoder = None if stored is None else Encoder.from_dict(stored)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidFileError(path, [f"its description of the encoder is damaged ({error})"]) from error
    return collector.result(encoder)


def _check_id_types(path: Path, schema: pa.Schema, names: list[str]) -> None:
    problems = []
    for name in names:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        if not (texts or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            problems.append(f"the column {shown(name)} has type {kind}: ids are texts or whole numbers")
    if problems:
        raise InvalidFileError(path, problems)


def _embeddings(path: Path, column: pa.Array, image_ids: list[str], first_row: int) -> Float32s:
    """Lists of one length, or lists of lists, as an array (rows, representations, dimensions)."""
    shape = [len(column)]
    values = column
    while pa.types.is_nested(values.type) and hasattr(values, "value_lengths"):
        lengths = values.value_lengths().fill_null(0).to_numpy()
        if (bad := np.flatnonzero((lengths != lengths[0]) | (lengths == 0))).size:
            row = int(bad[0]) * len(column) // len(lengths)
            what = "the embedding is missing or not as long as the others"
            raise InvalidFileError(path, [f"row {first_row + row}, image {shown(image_ids[row])}: {what}"])
        shape.append(int(lengths[0]))
        values = values.flatten()
    numeric = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    if not numeric or len(shape) not in {2, 3}:
        raise InvalidFileError(path, [f"the column 'embedding' has type {column.type}: expected lists of numbers"])
    numbers: Float32s = values.to_numpy(zero_copy_only=False).astype(np.float32)  # a missing number is NaN
    return numbers.reshape(shape[0], shape[1] if len(shape) == 3 else 1, shape[-1])


def write_cohort_parquet(path: Path, roster: Roster, encoder: Encoder, read: Callable[[Ints], Floats]) -> None:
    """Writes a labelled cohort, one row group per disorder."""
    with private_file(path) as file, _writer(file, TEXT_COLUMNS, encoder) as writer:
        for place, disorder in enumerate(roster.disorders):
            images = roster.images_with(place)
            columns: list[list[Any]] = [
                [roster.image_ids[image] for image in images],
                [roster.patient_ids[roster.patient_of_image[image]] for image in images],
                *[[value] * len(images) for value in disorder],
            ]
            _write_rows(writer, columns, read(images))


def write_encodings_parquet(path: Path, encodings: Encodings, progress: Progress) -> None:
    """Writes embeddings by image id, without labels."""
    image_ids = encodings.image_ids
    with private_file(path) as file, _writer(file, TEXT_COLUMNS[:1], encodings.encoder) as writer:
        for start in range(0, len(image_ids), ROWS_PER_BATCH):
            rows = slice(start, start + ROWS_PER_BATCH)
            _write_rows(writer, [list(image_ids[rows])], encodings.embeddings[rows])
            progress(min(rows.stop, len(image_ids)), len(image_ids))


def _writer(file: BinaryIO, names: Sequence[str], encoder: Encoder) -> pq.ParquetWriter:
    """A writer of texts and embeddings; the file says which encoder made them."""
    vector = pa.list_(pa.float32(), encoder.dimensions)
    embedding = vector if encoder.representations == 1 else pa.list_(vector, encoder.representations)
    schema = pa.schema(
        [*[pa.field(name, pa.string()) for name in names], pa.field("embedding", embedding)],
        metadata={ENCODER_KEY: json.dumps(encoder.as_dict())},
    )
    return pq.ParquetWriter(file, schema)


def _write_rows(writer: pq.ParquetWriter, columns: list[list[Any]], embeddings: Floats) -> None:
    """One row group; `embeddings` is an array (rows, representations, dimensions)."""
    _, representations, dimensions = embeddings.shape
    nested = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.ravel()), dimensions)
    if representations > 1:
        nested = pa.FixedSizeListArray.from_arrays(nested, representations)
    arrays = [*[pa.array(column, pa.string()) for column in columns], nested]
    writer.write_table(pa.Table.from_arrays(arrays, schema=writer.schema))

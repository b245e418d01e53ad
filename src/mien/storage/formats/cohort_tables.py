"""Cohort tables: Parquet or CSV with `image_id`, `embedding` and, for labelled images, `patient_id`, `disorder_id`.

An embedding is a list of numbers, or a list of such lists, one per representation. An image of a patient with two
disorders stands in two rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mien.core.arrays import Float32s, Floats, Ints
from mien.core.cohort import Encodings
from mien.core.encoder import Encoder
from mien.core.errors import InvalidFileError, MienError, shown
from mien.core.roster import Disorder, Roster
from mien.storage.formats import text_tables
from mien.storage.formats.annotations import Annotations
from mien.storage.formats.float_lists import BadListError, float_rows, one_list

ENCODER_KEY = b"mien.encoder"
ID_COLUMNS = ("image_id", "patient_id", "disorder_id", "disorder_name", "omim")
ROWS_PER_BATCH = 1024


class Batch(NamedTuple):
    """Some rows of a cohort table."""

    first_row: int
    columns: Mapping[str, Sequence[str | None]]
    embeddings: Float32s  # (rows, representations, dimensions)


def read_cohort_parquet(path: Path, wanted: Container[str] | None) -> tuple[Encodings, Annotations, int]:
    """Reads the wanted images (all, if None), what the table says of them, and how many others it holds."""
    try:
        with pq.ParquetFile(path) as file:
            text_tables.require_columns(path, file.schema_arrow.names, ["image_id", "embedding"], ",")
            stored = (file.schema_arrow.metadata or {}).get(ENCODER_KEY)
            encoder = None if stored is None else Encoder.from_dict(json.loads(stored))
            return _collect(path, _parquet_batches(path, file), wanted, encoder)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFileError(path, [f"not a readable Parquet file ({error})"]) from error


def read_cohort_csv(path: Path, wanted: Container[str] | None) -> tuple[Encodings, Annotations, int]:
    """The same for a CSV file, whose embeddings are JSON lists."""
    return _collect(path, _csv_batches(path), wanted, None)


def _parquet_batches(path: Path, file: pq.ParquetFile) -> Iterator[Batch]:
    names = [name for name in ID_COLUMNS if name in file.schema_arrow.names]
    first_row = 1
    for batch in file.iter_batches(ROWS_PER_BATCH, columns=[*names, "embedding"]):
        columns = {name: [None if v is None else str(v) for v in batch[name].to_pylist()] for name in names}
        yield Batch(first_row, columns, _embeddings(path, batch["embedding"], columns["image_id"], first_row))
        first_row += len(batch)


def _embeddings(path: Path, column: pa.Array, image_ids: Sequence[str | None], first_row: int) -> Float32s:
    """Nested lists of one shape as an array (rows, representations, dimensions)."""
    shape = [len(column)]
    values = column
    while pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type):
        lengths = np.array([-1 if n is None else n for n in values.value_lengths().to_pylist()])
        if len(lengths) and (lengths != lengths[0]).any() | (lengths[0] < 1):
            row = int(np.flatnonzero((lengths != lengths[0]) | (lengths < 1))[0]) * len(column) // len(lengths)
            raise InvalidFileError(
                path, [f"row {first_row + row}, image {shown(str(image_ids[row]))}: embedding missing or of another size"]
            )
        shape.append(int(lengths[0]) if len(lengths) else 1)
        values = values.flatten()
    if not pa.types.is_floating(values.type) or len(shape) not in (2, 3):
        raise InvalidFileError(path, [f"the column 'embedding' has type {column.type}: expected lists of numbers"])
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float32)  # a missing number becomes NaN and is refused
    return numbers.reshape(shape if len(shape) == 3 else (shape[0], 1, shape[1]))


def _csv_batches(path: Path) -> Iterator[Batch]:
    text = text_tables.read_text(path)
    names, separator = text_tables.header_of(path, text)
    text_tables.require_columns(path, names, ["image_id", "embedding"], separator)
    place = {name: names.index(name) for name in ID_COLUMNS if name in names}
    embedding_at = names.index("embedding")
    for row, fields in text_tables.rows(path, text, separator, len(names)):
        representations = max(1, fields[embedding_at].count("[") - 1)
        try:
            flat = one_list(fields[embedding_at]).encode()
            vector = float_rows(flat, np.array([1]), np.array([len(flat) - 1]))[0]
            if len(vector) % representations:
                raise BadListError(0, f"{len(vector)} numbers in {representations} lists of unequal length")
        except BadListError as error:
            where = f"row {row}, image {shown(fields[place['image_id']])}, field embedding"
            raise InvalidFileError(path, [f"{where}: {error}"]) from error
        columns = {name: [fields[at]] for name, at in place.items()}
        yield Batch(row, columns, vector.reshape(1, representations, -1))


def _collect(
    path: Path, batches: Iterator[Batch], wanted: Container[str] | None, encoder: Encoder | None
) -> tuple[Encodings, Annotations, int]:
    annotations = Annotations()
    row_of: dict[str, int] = {}
    kept: list[Float32s] = []
    left_out: set[str] = set()
    problems = []
    for batch in batches:
        for place in range(len(batch.embeddings)):
            image_id, patient_id, disorder_id, name, omim = (
                batch.columns[column][place] if column in batch.columns else None for column in ID_COLUMNS
            )
            if image_id is not None and wanted is not None and image_id not in wanted:
                left_out.add(image_id)
                continue
            # a missing id is blank, whatever the format calls it
            known = {column: value or "" for column, value in zip(ID_COLUMNS, (image_id, patient_id, disorder_id), strict=False) if column in batch.columns}
            wrong = annotations.add(known["image_id"], known.get("patient_id"), known.get("disorder_id"))
            if disorder_id and (name or omim):
                wrong = wrong or annotations.name(Disorder(disorder_id, name, omim))
            embedding = batch.embeddings[place]
            first = row_of.setdefault(known["image_id"], len(kept))
            if first == len(kept):
                if kept and kept[0].shape != embedding.shape:
                    wrong = wrong or f"image {shown(known['image_id'])} has an embedding of shape {embedding.shape}, others {kept[0].shape}"
                kept.append(embedding)
            elif not np.array_equal(kept[first], embedding):
                wrong = wrong or f"image {shown(known['image_id'])} is there twice, with different embeddings: keep one"
            if wrong:
                problems.append(f"row {batch.first_row + place}: {wrong}")
    if problems:
        raise InvalidFileError(path, problems)
    if not kept:
        return Encodings.of([], np.empty((0, 1, 1))), annotations, len(left_out)
    try:
        return Encodings.of(list(row_of), np.stack(kept), encoder), annotations, len(left_out)
    except MienError as error:
        raise InvalidFileError(path, [str(error)]) from error


def write_cohort_parquet(path: Path, roster: Roster, encoder: Encoder, read: Callable[[Ints], Floats]) -> None:
    """Writes a labelled cohort, one row group per disorder."""
    vector = pa.list_(pa.float32(), encoder.dimensions)
    embedding = vector if encoder.representations == 1 else pa.list_(vector, encoder.representations)
    schema = pa.schema(
        [*[pa.field(name, pa.string()) for name in ID_COLUMNS], pa.field("embedding", embedding)],
        metadata={ENCODER_KEY: json.dumps(encoder.as_dict())},
    )
    with pq.ParquetWriter(path, schema) as writer:
        for place, disorder in enumerate(roster.disorders):
            images = roster.images_with(place)
            values = pa.array(read(images).astype(np.float32).ravel())
            nested = pa.FixedSizeListArray.from_arrays(values, encoder.dimensions)
            if encoder.representations > 1:
                nested = pa.FixedSizeListArray.from_arrays(nested, encoder.representations)
            columns: list[Any] = [
                [roster.image_ids[image] for image in images],
                [roster.patient_ids[roster.patient_of_image[image]] for image in images],
                *[[value] * len(images) for value in (disorder.disorder_id, disorder.name, disorder.omim)],
            ]
            arrays = [*[pa.array(column, pa.string()) for column in columns], nested]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

"""GM-Arc encodings as the official scripts write them: `;`-separated, a row per image, model and view.

Such a file has gigabytes: it is read and written row by row, and only the wanted images are converted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import simdjson

from mien.core.cohort import Encodings
from mien.core.embeddings import VIEWS, Encoder, representation_name
from mien.errors import InvalidFileError, shown
from mien.progress import Progress, silent
from mien.storage.formats.annotations import EncodingsFile
from mien.storage.formats.gm_arc import COLUMNS, RowCollector, image_id_of
from mien.storage.formats.text_tables import unsafe_cell
from mien.storage.outputs import private_file

ROWS_BETWEEN_REPORTS = 2000
IMAGES_BETWEEN_REPORTS = 100
IMG_NAME = "{}_rot_aligned.jpg"
# nine digits identify a float32, also when they are read as float64 first; the exponent keeps the sign of -0.0
NUMBER = "%.8e"


def read_gm_arc_csv(path: Path, wanted: Container[str] | None, progress: Progress) -> EncodingsFile:
    """Reads the wanted images (all, if None)."""
    size = path.stat().st_size
    problems: list[str] = []
    image_id_of_name: dict[bytes, str | None] = {}  # None: not wanted
    with path.open("rb", buffering=1 << 20) as file, np.errstate(over="ignore"):  # infinite values are refused by name
        _check_header(path, file.readline())
        collector = RowCollector(path, expected_rows=0)
        parse = simdjson.Parser().parse
        for row, line in enumerate(file, start=2):
            if row % ROWS_BETWEEN_REPORTS == 0:
                progress(file.tell(), size)
            fields = line.split(b";")
            try:
                if len(fields) != len(COLUMNS):
                    if line.strip():
                        problems.append(
                            f"row {row}: expected {len(COLUMNS)} fields separated by ';', found {len(fields)}"
                        )
                    continue
                name, model, flip, gray, _class_conf, text = fields
                if name not in image_id_of_name:
                    image_id = image_id_of(name.decode())
                    image_id_of_name[name] = image_id if wanted is None or image_id in wanted else None
                    collector.expected_rows = collector.expected_rows or math.ceil(1.02 * size / len(line))
                if (known := image_id_of_name[name]) is not None:
                    collector.add(known, (model, flip, gray), _numbers(text, parse))
            except UnicodeDecodeError:
                problems.append(f"row {row}: not UTF-8 text: save the file as UTF-8")
            except ValueError as error:
                problems.append(
                    f"row {row}, image {shown(image_id_of_name[name] or '')}, field representations: {error}"
                )
    progress(size, size)
    if problems:
        raise InvalidFileError(path, problems)
    kept = set(image_id_of_name.values())
    left_out = {image_id_of(name.decode()) for name, image_id in image_id_of_name.items() if image_id is None}
    return EncodingsFile(collector.encodings(), len(left_out - kept))


def _check_header(path: Path, line: bytes) -> None:
    header = tuple(line.decode(errors="replace").rstrip("\r\n").split(";"))
    if header != COLUMNS:
        found = shown(";".join(header))
        raise InvalidFileError(path, [f"row 1: expected the header {';'.join(COLUMNS)}, found {found}"])


def _numbers(text: bytes, parse: Callable[[bytes], Any]) -> Any:
    """A JSON list of numbers; simdjson hands them over as a buffer, without a Python object for each."""
    if text.rfind(b"[") == 0:
        try:
            numbers = np.frombuffer(parse(text).as_buffer(of_type="d"))
            if len(numbers):
                return numbers
        except (ValueError, TypeError, RuntimeError):
            pass  # NaN and Infinity are not JSON, but Python writes them; they are refused later, by name
    try:
        numbers = np.array(json.loads(text), dtype=np.float64)
    except (ValueError, TypeError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or not len(numbers):
        beginning = shown(text[:40].strip().decode(errors="replace"))
        raise ValueError(f"expected a list of numbers in brackets, found {beginning}")
    return numbers


def write_gm_arc_csv(path: Path, encodings: Encodings, progress: Progress = silent) -> None:
    """Writes embeddings as models m0, m1, ... of four views each; they read back bit by bit."""
    keys = check_gm_arc(path, encodings.image_ids, encodings.encoder)
    numbers = f"[{', '.join([NUMBER] * encodings.encoder.dimensions)}]"
    images = len(encodings.image_ids)
    with private_file(path) as file:
        file.write(f"{';'.join(COLUMNS)}\n".encode())
        for image, image_id in enumerate(encodings.image_ids):
            if image % IMAGES_BETWEEN_REPORTS == 0:
                progress(image, images)
            for (model, flip, gray), vector in zip(keys, encodings.embeddings[image].tolist(), strict=True):
                row = (IMG_NAME.format(image_id), model, str(flip), str(gray), "[0]", numbers % tuple(vector))
                file.write(f"{';'.join(row)}\n".encode())
    progress(images, images)


def check_gm_arc(path: Path, image_ids: Sequence[str], encoder: Encoder) -> list[tuple[str, int, int]]:
    """Model, flip and gray of every representation; refuses what this layout cannot hold."""
    if problems := list(_unsafe_ids(image_ids)):
        raise InvalidFileError(path.name, problems)
    models, rest = divmod(encoder.representations, len(VIEWS))
    if rest:
        what = f"{encoder} has {encoder.representations} representations, which are not whole models of 4 views each"
        raise InvalidFileError(path.name, [f"{what}: write Parquet instead"])
    digits = len(str(models - 1))  # names are read in the order of text
    keys = [(f"m{model:0{digits}}", flip, gray) for model, (flip, gray) in product(range(models), VIEWS)]
    names = tuple(representation_name(*key) for key in keys)
    for mine, theirs in zip(names, encoder.representation_names or names, strict=True):
        if mine != theirs:
            what = f"the representation {shown(theirs)} would stand here as {shown(mine)}"
            raise InvalidFileError(path.name, [f"{what}: write Parquet instead"])
    return keys


def _unsafe_ids(image_ids: Sequence[str]) -> Iterator[str]:
    """What is wrong with ids that would not come back from a photo's name."""
    for image_id in image_ids:
        if wrong := unsafe_cell(image_id):
            yield f"image {wrong}"
        elif ";" in image_id or image_id_of(IMG_NAME.format(image_id)) != image_id:
            yield f"image {shown(image_id)} holds one of '_' and ';', which end an id in this format: rename it"

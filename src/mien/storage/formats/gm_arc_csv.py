"""GM-Arc encodings as the official scripts write them: `;`-separated, a row per image, model and view.

Such a file has gigabytes; it is read in blocks, two at a time, and only the wanted images are converted.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.core.errors import InvalidFileError, shown
from mien.storage.formats.float_lists import BadListError, float_rows
from mien.storage.formats.gm_arc import COLUMNS, Key, RowCollector, image_id_of

BLOCK_BYTES = 4 << 20
THREADS = min(4, os.cpu_count() or 1)


class Block(NamedTuple):
    """Whole lines of the file."""

    text: bytes
    first_row: int  # counted as an editor counts lines: the header is 1


class Rows(NamedTuple):
    """A block, parsed."""

    image_ids: list[str]
    keys: list[Key]
    vectors: Float32s
    left_out: set[str]


def read_gm_arc_csv(
    path: Path, wanted: Container[str] | None, progress: Callable[[int, int], None]
) -> tuple[Encodings, int]:
    """Reads the wanted images (all, if None); also says how many others the file holds."""
    collector = RowCollector(path)
    left_out: set[str] = set()
    size, done = path.stat().st_size, 0
    with path.open("rb") as file, ThreadPoolExecutor(THREADS) as pool:
        _check_header(path, file.readline())
        pending: deque[tuple[int, Future[Rows]]] = deque()
        for block in _blocks(file):
            pending.append((len(block.text), pool.submit(_parse, path, block, wanted)))
            if len(pending) > THREADS:
                done += _collect(pending, collector, left_out)
                progress(done, size)
        while pending:
            done += _collect(pending, collector, left_out)
            progress(done, size)
    return collector.encodings(), len(left_out)


def _check_header(path: Path, line: bytes) -> None:
    header = tuple(line.decode(errors="replace").rstrip("\r\n").split(";"))
    if header != COLUMNS:
        raise InvalidFileError(path, [f"row 1: expected the header {';'.join(COLUMNS)}, found {shown(';'.join(header))}"])


def _blocks(file: BinaryIO) -> Iterator[Block]:
    first_row = 2
    while text := file.read(BLOCK_BYTES):
        text += file.readline()
        yield Block(text, first_row)
        first_row += text.count(b"\n")


def _collect(pending: deque[tuple[int, Future[Rows]]], collector: RowCollector, left_out: set[str]) -> int:
    size, future = pending.popleft()
    rows = future.result()
    if rows.image_ids:
        collector.add(rows.image_ids, rows.keys, rows.vectors)
    left_out |= rows.left_out
    return size


def _parse(path: Path, block: Block, wanted: Container[str] | None) -> Rows:
    image_ids: list[str] = []
    keys: list[Key] = []
    lists: list[bytes] = []
    row_of_list: list[int] = []
    left_out: set[str] = set()
    problems: list[str] = []
    for row, line in enumerate(block.text.split(b"\n"), start=block.first_row):
        if not line.strip():
            continue
        try:
            img_name, model, flip, gray, rest = line.split(b";", 4)
            _class_conf, vector = rest.rsplit(b";", 1)
            image_id = image_id_of(img_name.decode())
            key = (model.decode(), flip.decode(), gray.decode())
        except UnicodeDecodeError:
            problems.append(f"row {row}: not UTF-8 text: save the file as UTF-8")
        except ValueError:
            problems.append(f"row {row}: expected {len(COLUMNS)} fields separated by ';', found {line.count(b';') + 1}")
        else:
            if wanted is not None and image_id not in wanted:
                left_out.add(image_id)
                continue
            image_ids.append(image_id)
            keys.append(key)
            lists.append(vector.rstrip(b"\r"))
            row_of_list.append(row)
    if problems:
        raise InvalidFileError(path, problems)
    try:
        return Rows(image_ids, keys, float_rows(lists), left_out)
    except BadListError as error:
        where = f"row {row_of_list[error.row]}, image {shown(image_ids[error.row])}"
        raise InvalidFileError(path, [f"{where}, field representations: {error.what}"]) from error

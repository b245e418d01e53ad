"""GM-Arc encodings as the official scripts write them: `;`-separated, a row per image, model and view.

Such a file has gigabytes; it is read in blocks, several at a time, and only the wanted images are converted.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Container
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.core.errors import InvalidFileError, shown
from mien.storage.formats.float_lists import BadListError, float_rows
from mien.storage.formats.gm_arc import COLUMNS, Key, RowCollector, image_id_of

BLOCK_BYTES = 2 << 20
OPEN, CLOSE = b"[]"
LONG_LINE = 1 << 15
LONGEST_LINE = 1 << 26
THREADS = min(4, os.cpu_count() or 1)


class Rows(NamedTuple):
    """A block of the file, parsed. Lines are counted inside the block: nobody knows yet how many came before."""

    image_ids: list[str]  # of the block
    keys: list[Key]
    image_of_row: list[int]
    key_of_row: list[int]
    vectors: Float32s
    left_out: set[str]
    lines: int
    problems: list[tuple[int, str]]


def read_gm_arc_csv(
    path: Path, wanted: Container[str] | None, progress: Callable[[int, int], None]
) -> tuple[Encodings, int]:
    """Reads the wanted images (all, if None); also says how many others the file holds."""
    collector = RowCollector(path)
    left_out: set[str] = set()
    problems: list[str] = []
    lines = 1  # as an editor counts them: the header is the first
    with path.open("rb") as file, ThreadPoolExecutor(THREADS) as pool:
        _check_header(path, file.readline())
        size = path.stat().st_size
        starts = range(file.tell(), size, BLOCK_BYTES)
        pending: deque[Future[Rows]] = deque()
        for number in range(len(starts) + THREADS):
            if number < len(starts):
                pending.append(pool.submit(_parse_block, file.fileno(), starts[number], number == 0, wanted))
            if number >= THREADS and pending:  # a few blocks ahead, never all of them
                rows = pending.popleft().result()
                problems += [f"row {lines + line}{what}" for line, what in rows.problems]
                lines += rows.lines
                left_out |= rows.left_out
                if rows.image_of_row and not problems:
                    expected = math.ceil(1.02 * len(rows.vectors) * size / BLOCK_BYTES)
                    collector.add(*rows[:5], expected_rows=expected)
                progress(min(starts[number - THREADS] + BLOCK_BYTES, size), size)
    if problems:
        raise InvalidFileError(path, problems)
    return collector.encodings(), len(left_out)


def _check_header(path: Path, line: bytes) -> None:
    header = tuple(line.decode(errors="replace").rstrip("\r\n").split(";"))
    if header != COLUMNS:
        raise InvalidFileError(
            path, [f"row 1: expected the header {';'.join(COLUMNS)}, found {shown(';'.join(header))}"]
        )


def _parse_block(descriptor: int, start: int, is_first: bool, wanted: Container[str] | None) -> Rows:  # noqa: FBT001
    """Takes the lines that begin in a block: the last one may end in the next."""
    text = os.pread(descriptor, BLOCK_BYTES + LONG_LINE, start - 1)
    first = 1 if is_first else text.find(b"\n", 0, BLOCK_BYTES) + 1
    if first == 0:
        return _parse(b"", 0, 0, wanted)  # inside one long line
    while (end := text.find(b"\n", BLOCK_BYTES)) < 0 and (
        more := os.pread(descriptor, BLOCK_BYTES, start - 1 + len(text))
    ):
        text += more
        if len(text) > LONGEST_LINE:
            return _parse(b"", 0, 0, wanted)._replace(problems=[(1, f": a line of more than {LONGEST_LINE:,} bytes")])
    return _parse(text, first, len(text) if end < 0 else end + 1, wanted)


def _parse(text: bytes, start: int, stop: int, wanted: Container[str] | None) -> Rows:
    image_of: dict[bytes, int] = {}
    key_of: dict[tuple[bytes, ...], int] = {}
    image_of_row: list[int] = []
    key_of_row: list[int] = []
    spans: list[tuple[int, int]] = []  # of the numbers in the text: it is not copied, only looked at
    lines = 0
    line_of_row: list[int] = []
    left_out: set[bytes] = set()
    problems: list[tuple[int, str]] = []
    while start < stop:
        lines += 1
        newline = text.find(b"\n", start, stop)
        line_end = stop if newline < 0 else newline
        end = line_end - text.endswith(b"\r", start, line_end)
        vector = text.rfind(b";", start, end) + 1
        fields = text[start : vector - 1].split(b";", 4) if vector else []
        if len(fields) != 5 or b";" in fields[4]:
            if start < end:
                found = text.count(b";", start, end) + 1
                problems.append((lines, f": expected {len(COLUMNS)} fields separated by ';', found {found}"))
        elif end - vector < 2 or text[vector] != OPEN or text[end - 1] != CLOSE:
            problems.append((lines, ", field representations: expected a list in brackets"))
        elif fields[0] not in image_of and (image_id := _image_id(fields[0])) is None:
            problems.append((lines, ": not UTF-8 text: save the file as UTF-8"))
        elif fields[0] in image_of or wanted is None or image_id in wanted:
            image_of_row.append(image_of.setdefault(fields[0], len(image_of)))
            key_of_row.append(key_of.setdefault((fields[1], fields[2], fields[3]), len(key_of)))
            spans.append((vector + 1, end - 1))
            line_of_row.append(lines)
        else:
            left_out.add(fields[0])
        start = line_end + 1
    first, last = np.array(spans, dtype=np.intp).reshape(-1, 2).T
    vectors = np.empty((0, 1), dtype=np.float32)
    try:
        vectors = float_rows(text, first, last)
    except BadListError as error:
        problems.append((line_of_row[error.row], f", field representations: {error}"))
    image_ids = [image_id_of(name.decode()) for name in image_of]
    keys = [tuple(part.decode(errors="replace") for part in key) for key in key_of]
    names_left_out = {image_id_of(name.decode()) for name in left_out}
    return Rows(image_ids, keys, image_of_row, key_of_row, vectors, names_left_out, lines, problems)


def _image_id(img_name: bytes) -> str | None:
    try:
        return image_id_of(img_name.decode())
    except UnicodeDecodeError:
        return None

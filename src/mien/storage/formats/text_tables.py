"""Comma- and tab-separated tables, refused whole with every problem listed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from mien.core.errors import InvalidFileError, shown

BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def read_text(path: Path) -> str:
    """The file as UTF-8 text."""
    content = path.read_bytes()
    if content.startswith(BYTE_ORDER_MARKS):
        raise InvalidFileError(path, ["it begins with a byte-order mark: save it as plain UTF-8 ('UTF-8 without BOM')"])
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        raise InvalidFileError(path, [f"row {row}: not UTF-8 text: save the file as UTF-8"]) from None
    if not text.strip():
        raise InvalidFileError(path, ["the file is empty"])
    return text


def header_of(path: Path, text: str) -> tuple[list[str], str]:
    """The column names and the separator: a tab for .tsv files, else a comma."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        names = next(csv.reader(io.StringIO(text, newline=None), delimiter=separator))
    except csv.Error as error:
        raise InvalidFileError(path, [f"row 1: {error}"]) from error
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidFileError(path, [f"row 1: the column {shown(name)} is there twice: rename one" for name in twice])
    return names, separator


def require_columns(path: Path, names: Collection[str], required: Collection[str], separator: str = ",") -> None:
    """Refuses a table without its columns, and guesses at the separator."""
    missing = [name for name in required if name not in names]
    if not missing:
        return
    other = next((other for other in SEPARATORS if other != separator and any(other in name for name in names)), None)
    hint = (
        f"it looks separated by {SEPARATORS[other]}: save it with {SEPARATORS[separator]}"
        if other
        else f"the header is {shown(', '.join(names))}"
    )
    raise InvalidFileError(path, [f"row 1: the column {shown(name)} is missing; {hint}" for name in missing])


def rows(text: str, separator: str, width: int, problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Every row with the line it begins on; rows of another width are added to the problems."""
    csv.field_size_limit(1 << 30)  # an embedding is one field
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=separator, strict=True)
    next(reader)
    line = reader.line_num + 1
    try:
        for fields in reader:
            if fields and len(fields) != width:
                problems.append(f"row {line}: {len(fields)} fields, the header has {width}")
            elif fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        problems.append(f"row {line}: {error}")

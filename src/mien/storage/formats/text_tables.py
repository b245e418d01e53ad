"""Comma- and tab-separated tables, refused whole with every problem listed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mien.errors import InvalidFileError, shown
from mien.storage.formats.annotations import require_columns
from mien.storage.outputs import private_file

BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
FORMULAS = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet computes


class Table(NamedTuple):
    """A small table, its header read."""

    path: Path
    text: str
    names: list[str]
    separator: str

    def each_row(self, required: Collection[str], take: Callable[[dict[str, str]], str | None]) -> None:
        """Calls `take` with each row, by column. If it returns what is wrong with one, the table is refused."""
        require_columns(self.path, self.names, required, self.separator)
        csv.field_size_limit(1 << 30)  # an embedding is one field
        reader = csv.reader(io.StringIO(self.text, newline=None), delimiter=self.separator, strict=True)
        next(reader)
        problems: list[str] = []
        line = reader.line_num + 1  # on which a row begins
        try:
            for fields in reader:
                if fields and len(fields) != len(self.names):
                    problems.append(f"row {line}: {len(fields)} fields, the header has {len(self.names)}")
                elif fields and (wrong := take(dict(zip(self.names, fields, strict=True)))):
                    problems.append(f"row {line}: {wrong}")
                line = reader.line_num + 1
        except csv.Error as error:
            problems.append(f"row {line}: {error}")
        if problems:
            raise InvalidFileError(self.path, problems)


def read_table(path: Path) -> Table:
    """Opens a table and reads its header."""
    text = read_text(path)
    return Table(path, text, *header_of(path, text))


def write_table(path: Path, names: Sequence[str], cells: Iterable[Sequence[str]]) -> None:
    """Writes a table that reads back unchanged; refuses cells that would have to be altered."""
    problems: list[str] = []
    with private_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, delimiter=_separator(path), lineterminator="\n")
        writer.writerow(names)
        for row, fields in enumerate(cells, start=2):
            problems += [f"row {row}: {wrong}" for cell in fields if (wrong := unsafe_cell(cell))]
            writer.writerow(fields)
        text.detach()
        if problems:
            raise InvalidFileError(path.name, problems)


def unsafe_cell(text: str) -> str | None:
    """Why a text cannot stand in a table as it is, or None."""
    if text.startswith(FORMULAS):
        return f"{shown(text)} begins like a formula of a spreadsheet: rename it"
    if "\r" in text or "\n" in text:
        return f"{shown(text)} holds a line break: rename it"
    return None


def read_text(path: Path) -> str:
    """The file as UTF-8 text; one that cannot be opened, or is empty, is refused."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFileError(path, [f"{error.strerror}: check the path"]) from error
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
    separator = _separator(path)
    try:
        names = next(csv.reader(io.StringIO(text, newline=None), delimiter=separator))
    except csv.Error as error:
        raise InvalidFileError(path, [f"row 1: {error}"]) from error
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidFileError(path, [f"row 1: the column {shown(name)} is there twice: rename one" for name in twice])
    return names, separator


def _separator(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","

"""Lists of numbers in text, many at once, to float32 rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mien.core.arrays import Float32s, Ints
from mien.core.errors import shown

COMMA, SPACE = ord(","), ord(" ")
PAIR = np.int64(2**32 + 1)  # times a position: that position twice, in two halves of 32 bits


class BadListError(ValueError):
    """A list that is not one of numbers, or not as long as the first; `row` says which."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def float_rows(text: bytes, first: Ints, end: Ints) -> Float32s:
    """The lists whose contents stand at `text[first[i]:end[i]]`, inside brackets, as the rows of an array.

    >>> text = b"[1, 2.5];[-3e-1, 4]"
    >>> float_rows(text, np.array([1, 10]), np.array([7, 18])).tolist()
    [[1.0, 2.5], [-0.30000001192092896, 4.0]]
    """
    if not len(first):
        return np.empty((0, 1), dtype=np.float32)
    begin = first[0]
    part = memoryview(text)[begin : end[-1] + 1]
    first, end = first - begin, end - begin
    characters = np.frombuffer(part, dtype=np.uint8)
    commas = np.flatnonzero(characters == COMMA)
    first_comma = np.searchsorted(commas, first)
    counts = np.searchsorted(commas, end) - first_comma + 1
    count = int(counts[0])
    if (counts != count).any():
        row = int(np.flatnonzero(counts != count)[0])
        raise BadListError(row, f"{counts[row]} numbers where others have {count}")
    if len(commas) != len(first) * (count - 1):  # other fields have commas too
        commas = commas[first_comma[:, np.newaxis] + np.arange(count - 1)]
    try:
        gaps = _gaps(characters, commas.reshape(len(first), count - 1), first, end)
        return _convert(part, gaps).reshape(len(first), count)
    except pa.ArrowInvalid:  # unusual spaces, or not numbers at all
        return _convert_slowly([bytes(part[start:stop]) for start, stop in zip(first, end, strict=True)])


def _gaps(characters: npt.NDArray[np.uint8], commas: Ints, first: Ints, end: Ints) -> npt.NDArray[np.int32]:
    """Where the gap before each number starts and ends, one number after the other, and at last the text's end."""
    spaced = characters[1:].take(commas.ravel()) == SPACE
    pairs = np.zeros(commas.size + len(first) + 1, dtype="<i8")  # (start, end) of a gap in two halves of 32 bits
    gaps = pairs[:-1].reshape(len(first), -1)
    gaps[:, 0] = np.append(0, end[:-1]) + (first << 32)
    np.multiply(commas, PAIR, out=gaps[:, 1:])
    gaps[:, 1:] += 2 << 32 if spaced.all() else (1 + spaced.reshape(commas.shape).astype(np.int64)) << 32
    pairs[-1] = end[-1]
    return pairs.view("<i4")[:-1]


def _convert(text: memoryview, gaps: npt.NDArray[np.int32]) -> Float32s:
    """Converts in Arrow, on the text as it is and without Python's lock: to Arrow, gaps are nulls between numbers."""
    pieces = len(gaps) - 1
    valid = np.full(pieces // 8 + 1, 0b10101010, dtype=np.uint8)
    buffers = [pa.py_buffer(valid), pa.py_buffer(gaps), pa.py_buffer(text)]
    array = pa.Array.from_buffers(pa.string(), pieces, buffers, null_count=pieces // 2)
    values = np.frombuffer(pc.cast(array, pa.float32()).buffers()[1], dtype=np.float32, count=pieces)
    return values[1::2].copy()


def _convert_slowly(lists: Sequence[bytes]) -> Float32s:
    rows = []
    for row, content in enumerate(lists):
        try:
            rows.append([float(number.replace(b"_", b"?")) for number in content.split(b",")])
        except ValueError:
            beginning = shown(content[:40].decode(errors="replace"))
            raise BadListError(row, f"expected numbers separated by commas, found {beginning}") from None
    return np.array(rows, dtype=np.float32)

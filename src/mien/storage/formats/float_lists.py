"""JSON lists of numbers in text, many at once, to float32 rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mien.core.arrays import Float32s
from mien.core.errors import shown


class BadListError(ValueError):
    """A list that is not one of numbers, or not as long as the first; `row` says which."""

    def __init__(self, row: int, what: str) -> None:
        self.row = row
        self.what = what
        super().__init__(what)


def float_rows(lists: Sequence[bytes]) -> Float32s:
    """Parses lists of equal length; Arrow splits and converts without holding Python's lock.

    >>> float_rows([b"[1, 2.5]", b"[-3e-1,4]"]).tolist()
    [[1.0, 2.5], [-0.30000001192092896, 4.0]]
    """
    for row, text in enumerate(lists):
        if not (text.startswith(b"[") and text.endswith(b"]")):
            raise BadListError(row, f"expected a list of numbers in brackets, found {shown(text[:40].decode(errors='replace'))}")
    try:
        numbers = _split([text[1:-1] for text in lists], ", ")
        values = pc.cast(numbers.flatten(), pa.float32())
    except pa.ArrowInvalid:  # written with other spaces, or not numbers at all
        numbers = _split([text[1:-1].translate(None, b" \t") for text in lists], ",")
        values = _cast(numbers)
    counts = numbers.value_lengths().to_numpy()
    if len(counts) and (counts != counts[0]).any():
        row = int(np.flatnonzero(counts != counts[0])[0])
        raise BadListError(row, f"{counts[row]} numbers where the first list has {counts[0]}")
    rows: Float32s = values.to_numpy().reshape(len(lists), -1)
    return rows


def _split(texts: list[bytes], separator: str) -> pa.Array:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    return pc.split_pattern(pa.Array.from_buffers(pa.string(), len(texts), buffers), separator)


def _cast(numbers: pa.Array) -> pa.Array:
    try:
        return pc.cast(numbers.flatten(), pa.float32())
    except pa.ArrowInvalid:
        for row, of_row in enumerate(numbers):
            for text in of_row.values.to_numpy(zero_copy_only=False):
                try:
                    float(text)
                except ValueError:
                    raise BadListError(row, f"{shown(text)} is not a number") from None
        raise

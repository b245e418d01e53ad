"""Encodings as public scripts exchange them: a pickled dict of images and their vectors, from its inert records.

While the dict is open, Python's lists take 240 kB for an image of GM-Arc; arrays take a fifth of it.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from mien.core.arrays import Float32s
from mien.errors import InvalidFileError, shown
from mien.storage.formats.annotations import CohortCollector, EncodingsFile
from mien.storage.formats.gm_arc import image_id_of
from mien.storage.formats.inert_pickle import Inert, as_array, reason

FIX = "give the image's id and lists of equally many numbers, or take it out"
NUMBERS = (int, float, np.number)
MALFORMED = (ValueError, TypeError, AttributeError, IndexError, OverflowError)


def read_pickled_dict(path: Path, content: dict[Any, Any], wanted: Container[str] | None) -> EncodingsFile:
    """Takes the wanted images (all, if None) out of the dict."""
    problems = []
    collector = CohortCollector(path, wanted, labelled=False)
    room = path.stat().st_size  # no number takes less than a byte; lists that are shared could ask for any memory
    for row, key in enumerate(list(content), start=1):
        value, where = content.pop(key), f"row {row}"  # popped: what is converted is let go
        try:
            image_id = _image_id(key)
            where += f", image {shown(image_id)}"
            if wanted is not None and image_id not in wanted:
                collector.left_out.add(image_id)
                continue
            embedding = _embedding(value, room)
        except MALFORMED as error:
            problems.append(f"{where}: {reason(error)}: {FIX}")
            continue
        room -= embedding.size
        if wrong := collector.add(embedding, image_id):
            problems.append(f"row {row}: {wrong}")
    if problems:
        raise InvalidFileError(path, problems)
    return collector.result()


def _image_id(key: Any) -> str:
    """The id in a key: an image's number, or the name of its file."""
    plain = as_array(key).item() if isinstance(key, Inert) else key
    if not isinstance(plain, int | str):
        raise TypeError(f"the key is of type {type(plain).__name__}")
    return image_id_of(str(plain))


def _embedding(value: Any, room: int) -> Float32s:
    """Vectors as lists or arrays, each perhaps with an axis of length one; or one vector."""
    parts = _sequence(value)
    vectors = [parts] if isinstance(parts[0], NUMBERS) else [_sequence(part) for part in parts]
    alone = [len(vector) == 1 and not isinstance(vector[0], NUMBERS) for vector in vectors]
    vectors = [_sequence(vector[0]) if inner else vector for vector, inner in zip(vectors, alone, strict=True)]
    if sum(map(len, vectors)) > room:
        raise ValueError("more numbers than the file has room for")
    with np.errstate(over="ignore"):  # an infinite value is refused by name
        return np.stack([np.fromiter(vector, np.float32, len(vector)) for vector in vectors])


def _sequence(value: Any) -> Any:
    """A list that is not empty, or an array."""
    found = as_array(value) if isinstance(value, Inert) else value
    if not isinstance(found, list | tuple | np.ndarray) or len(found) == 0:
        raise TypeError(f"no list of numbers, but of type {type(found).__name__}, or empty")
    return found

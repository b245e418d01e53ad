"""GM-Arc encodings as a pickled pandas DataFrame or dict, read without pandas and without running anything in it.

Python floats cost about 32 bytes each while a pickle is open: prefer the CSV for large files.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mien.errors import InvalidFileError, shown
from mien.storage.formats.annotations import EncodingsFile
from mien.storage.formats.gm_arc import COLUMNS, RowCollector, image_id_of
from mien.storage.formats.inert_pickle import NUMPY_NAMES, Inert, as_array, load_inert
from mien.storage.formats.pickled_dict import read_pickled_dict

FRAME_NAMES = NUMPY_NAMES | {
    "builtins.bytearray",
    "builtins.slice",
    "pandas.DataFrame",
    "pandas.Index",
    "pandas.RangeIndex",
    "pandas.StringDtype",
    "pandas.arrays.ArrowStringArray",
    "pandas.arrays.StringArray",
    "pandas._libs.internals._unpickle_block",
    "pandas.core.arrays.string_.StringArray",
    "pandas.core.arrays.string_.StringDtype",
    "pandas.core.arrays.string_arrow.ArrowStringArray",
    "pandas.core.frame.DataFrame",
    "pandas.core.indexes.base.Index",
    "pandas.core.indexes.base._new_Index",
    "pandas.core.indexes.numeric.Int64Index",
    "pandas.core.indexes.range.RangeIndex",
    "pandas.core.internals.managers.BlockManager",
    "pyarrow.lib._restore_array",
    "pyarrow.lib.py_buffer",
    "pyarrow.lib.type_for_alias",
}


def read_gm_arc_pickle(path: Path, wanted: Container[str] | None) -> EncodingsFile:
    """Reads the wanted images (all, if None)."""
    frame = load_inert(path, FRAME_NAMES)
    if isinstance(frame, dict):
        return read_pickled_dict(path, frame, wanted)
    try:
        columns = _columns(frame)
        names, models, flips, grays, vectors = (columns[name] for name in COLUMNS if name != "class_conf")
    except KeyError as error:
        raise InvalidFileError(path, [f"the table has no column {error}: expected {', '.join(COLUMNS)}"]) from error
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise InvalidFileError(
            path, [f"not a DataFrame as the official scripts pickle it ({error}): save it as CSV"]
        ) from error
    image_ids = [image_id_of(str(name)) for name in names]
    rows = [row for row, image_id in enumerate(image_ids) if wanted is None or image_id in wanted]
    collector = RowCollector(path, expected_rows=len(rows))
    for row in rows:
        try:
            with np.errstate(over="ignore"):  # an infinite value is refused by name
                vector = np.array(_numbers(vectors[row]), dtype=np.float32, ndmin=1)
            key = (str(models[row]).encode(), b"%d" % int(flips[row]), b"%d" % int(grays[row]))
            collector.add(image_ids[row], key, vector)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise InvalidFileError(path, [f"row {row + 1}, image {shown(image_ids[row])}: {error}"]) from error
    kept = {image_ids[row] for row in rows}
    return EncodingsFile(collector.encodings(), len(set(image_ids) - kept))


def _columns(frame: Any) -> dict[str, Any]:
    """The columns of a DataFrame's inert record, by name."""
    if not (isinstance(frame, Inert) and frame.name.endswith(".DataFrame")):
        raise TypeError(f"it holds a {type(frame).__name__}")
    blocks, axes = frame.state["_mgr"].args
    names = [str(name) for name in _values(axes[0])]
    columns: dict[str, Any] = {}
    for block in blocks:
        values, placement, _ = block.args
        places = (
            range(len(names))[slice(*placement.args)]
            if isinstance(placement, Inert) and placement.name == ("builtins.slice")
            else as_array(placement).tolist()
        )
        of_block = _values(values)
        rows = of_block if isinstance(of_block, np.ndarray) and of_block.ndim == 2 else [of_block]
        columns |= {names[place]: row for place, row in zip(places, rows, strict=True)}
    return columns


def _values(value: Any) -> Any:
    """An index's or a block's values: a list of texts, or an array."""
    if isinstance(value, Inert) and value.name.endswith("._new_Index"):
        return _values(value.args[1]["data"])
    if isinstance(value, Inert) and isinstance(value.state, dict) and "_pa_array" in value.state:
        return _texts(value.state["_pa_array"].args[0])
    if isinstance(value, Inert) and value.name.endswith(".StringArray"):
        held = value.state[1] if isinstance(value.state, tuple) else value.state["_ndarray"]
        return as_array(held)
    return as_array(value)


def _numbers(value: Any) -> Any:
    """A list, or the array that an inert record stands for."""
    return as_array(value) if isinstance(value, Inert) else value


def _bytes(value: Any) -> bytes:
    """Bytes as they are, or as pickles before protocol 5 wrap them."""
    content: bytes = value.args[0] if isinstance(value, Inert) else value
    return content


def _texts(arrow: tuple[Any, ...]) -> list[str]:
    """The texts of an Arrow array, from the parts it was pickled as: offsets are followed only inside the buffers."""
    alias, length, null_count, offset, (_, offsets, characters) = arrow[:5]
    if null_count or length < 0 or offset < 0:
        raise ValueError("a column of texts has gaps")
    kind = {"string": "<i4", "large_string": "<i8"}[alias.args[0]]
    bounds = np.frombuffer(_bytes(offsets.args[0]), dtype=kind)[offset : offset + length + 1].tolist()
    content = _bytes(characters.args[0])
    if len(bounds) != length + 1 or bounds[0] < 0 or bounds[-1] > len(content) or bounds != sorted(bounds):
        raise ValueError("a column of texts points outside itself")
    return [bytes(content[start:end]).decode() for start, end in pairwise(bounds)]

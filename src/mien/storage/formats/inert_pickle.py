"""Pickles read as data. Names of classes and functions in a pickle become inert records: nothing foreign ever runs."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mien.core.errors import InvalidFileError, shown

NUMBER = re.compile(r"[<>|=]?[iufb][1248]")

# looking through a pickle before it is opened takes up to a second for this many bytes: larger ones, GM-Arc's gigabytes
# of floats, are opened without
SCANNED_BYTES = 64 * 2**20


class Inert:
    """Stands for an object of a pickle: what it was called with, the state it was given, the items that were set."""

    name = ""

    args: tuple[Any, ...]
    state: Any
    items: dict[Any, Any]

    def __new__(cls, *args: Any) -> Inert:
        """Records the arguments; also what `NEWOBJ` calls."""
        self = super().__new__(cls)
        self.args, self.state, self.items = args, None, {}
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value


class _InertUnpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BufferedIOBase, path: Path, known: Container[str], outside: Callable[[Any], Any] | None
    ) -> None:
        super().__init__(file)
        self.path = path
        self.known = known
        self.outside = outside
        self.classes: dict[str, type[Inert]] = {}

    def find_class(self, module: str, name: str) -> type[Inert]:
        # pickles up to protocol 2 call it by its name in Python 2
        full_name = f"{'builtins' if module == '__builtin__' else module}.{name}"
        if full_name not in self.known:
            raise InvalidFileError(
                self.path, [f"the pickle refers to {shown(full_name)}, which mien does not read: nothing of it was run"]
            )
        if full_name not in self.classes:
            self.classes[full_name] = type("Inert", (Inert,), {"name": full_name})
        return self.classes[full_name]

    def persistent_load(self, pid: Any) -> Any:
        if self.outside is None:
            # nested tuples that share parts can be exponentially longer as text than in the pickle
            what = shown(pid) if isinstance(pid, str) else f"of type {type(pid).__name__}"
            raise InvalidFileError(self.path, [f"the pickle refers to an outside object {what}"])
        return self.outside(pid)


def load_inert(path: Path, known: Container[str]) -> Any:
    """The pickle's content, with an `Inert` wherever it names one of the known classes or functions."""
    with _broken_pickles_refused(path), path.open("rb") as file:
        if path.stat().st_size > SCANNED_BYTES:
            return _InertUnpickler(file, path, known, None).load()
        return next_inert(file.read(), path, known)[0]


def next_inert(
    content: bytes,
    path: Path,
    known: Container[str],
    *,
    start: int = 0,
    longest: int | None = None,
    outside: Callable[[Any], Any] | None = None,
) -> tuple[Any, int]:
    """The pickle that starts there, as in `load_inert`, and where it ends; `outside` answers its persistent ids."""
    window = content[start : None if longest is None else start + longest]
    with _broken_pickles_refused(path):
        end = pickle_end(window)
        return _InertUnpickler(io.BytesIO(window[:end]), path, known, outside).load(), start + end


@contextmanager
def _broken_pickles_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except InvalidFileError:
        raise
    except Exception as error:  # a broken pickle can fail in any way
        problem = f"not a readable pickle ({type(error).__name__}: {reason(error)})"
        raise InvalidFileError(path, [problem]) from error


def reason(error: Exception) -> str:
    """An error's text, fit to be shown: it may quote the file."""
    text = str(error)
    return text if text.isprintable() and len(text) <= 200 else shown(text)


# bytes of an opcode's argument; below zero, the argument says how long it is or how much memory it wants
_ARGUMENT_BYTES: Final = {ord(code.code): code.arg.n if code.arg else 0 for code in pickletools.opcodes}
_STOP, _FRAME, _PUT, _LONG_BINPUT = -10, -11, -12, -13
_ARGUMENT_BYTES.update({ord("."): _STOP, 0x95: _FRAME, ord("p"): _PUT, ord("r"): _LONG_BINPUT})
_LENGTH_BYTES: Final = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
_TWO_LINES: Final = frozenset(b"ci")


def pickle_end(content: bytes) -> int:
    """Where the pickle at the start of these bytes ends, found without opening it.

    Python allocates whatever length or memo index a pickle names: a dozen bytes can ask for gigabytes. A pickle that
    names a length beyond its end, or a memo index far beyond those before, is refused with a `ValueError`.
    """
    sizes, position, indexes = _ARGUMENT_BYTES, 0, 0
    try:
        while True:
            code = content[position]
            size = sizes[code]
            position += 1
            if size >= 0:
                position += size
            elif size == _STOP:
                return position
            elif size in {_PUT, _LONG_BINPUT}:
                index, position = _memo_index(content, position, size)
                if not 0 <= index <= 256 + indexes:  # picklers count up, and write the first 256 in another way
                    raise ValueError(f"a memo index at byte {position} is out of order")
                indexes += 1
            elif size == pickletools.UP_TO_NEWLINE:
                for _ in range(2 if code in _TWO_LINES else 1):
                    position = content.index(b"\n", position) + 1
            elif size == _FRAME:
                position += 8
                _reaches(content, position, int.from_bytes(content[position - 8 : position], "little"))
            else:
                data = position + _LENGTH_BYTES[size]
                position = _reaches(content, data, int.from_bytes(content[position:data], "little"))
    except (IndexError, KeyError) as error:
        raise ValueError("it breaks off, is too long, or is none") from error


def _memo_index(content: bytes, position: int, size: int) -> tuple[int, int]:
    if size == _LONG_BINPUT:
        return int.from_bytes(content[position : position + 4], "little"), position + 4
    end = content.index(b"\n", position, position + 20)
    return int(content[position:end]), end + 1


def _reaches(content: bytes, position: int, length: int) -> int:
    if position + length > len(content):
        raise ValueError(f"a length at byte {position} reaches beyond its end")
    return position + length


NUMPY_NAMES = frozenset(
    f"{module}.{name}"
    for module in (
        "numpy",
        "numpy.core.multiarray",
        "numpy._core.multiarray",
        "numpy.core.numeric",
        "numpy._core.numeric",
    )
    for name in ("ndarray", "dtype", "_reconstruct", "_frombuffer", "scalar")
)


def as_array(value: Any) -> npt.NDArray[Any]:
    """A numpy array or number from its inert record; only plain numbers and lists of objects."""
    if isinstance(value, Inert) and value.name.endswith("._reconstruct") and isinstance(value.state, tuple):
        _version, shape, dtype, fortran, content = value.state
        order = "F" if fortran else "C"
    elif isinstance(value, Inert) and value.name.endswith("._frombuffer"):
        content, dtype, shape, order = value.args
    elif isinstance(value, Inert) and value.name.endswith(".scalar"):
        dtype, content = value.args
        shape, order = (), "C"
    else:
        raise ValueError(f"expected an array, found {type(value).__name__}")
    code = dtype.args[0] if isinstance(dtype, Inert) and dtype.name == "numpy.dtype" else None
    if isinstance(code, str) and code.startswith("O") and isinstance(content, list):
        array = np.empty(len(content), dtype=object)
        array[:] = content
    elif isinstance(code, str) and NUMBER.fullmatch(code):
        if not isinstance(dtype.state, tuple | None):
            raise ValueError(f"the byte order of {code!r} is a {type(dtype.state).__name__}")
        big_endian = dtype.state is not None and dtype.state[1] == ">"
        array = np.frombuffer(content, dtype=np.dtype(code).newbyteorder(">" if big_endian else "<"))
    else:
        raise ValueError(f"expected an array of numbers or objects, found type {code!r}")
    return np.reshape(array, shape, order="F" if order == "F" else "C")

"""Pickles read as data. Names of classes and functions in a pickle become inert records: nothing foreign ever runs."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.errors import InvalidFileError, shown

NUMBER = re.compile(r"[<>|=]?[iufb][1248]")

# looking through a pickle before it is opened takes two seconds for this many bytes of floats: larger ones, GM-Arc's
# gigabytes, are opened without
SCANNED_BYTES = 64 * 2**20
FRAME_HEADER = 9  # bytes of the opcode and its length


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


def pickle_end(content: bytes) -> int:
    """Where the pickle at the start of these bytes ends, found without opening it.

    Python allocates whatever length or memo index a pickle names: a dozen bytes can ask for gigabytes. A pickle that
    names a length beyond its end, or a memo index far beyond those before, is refused with a `ValueError`.
    """
    position = indexes = 0
    for code, argument, position in _instructions(content):
        if code.name in {"PUT", "LONG_BINPUT"}:
            if not 0 <= argument <= 256 + indexes:  # picklers count up, and write the first 256 in another way
                raise ValueError(f"a memo index at byte {position} is out of order")
            indexes += 1
        elif code.name == "FRAME" and position + FRAME_HEADER + argument > len(content):
            raise ValueError(f"a frame at byte {position} reaches beyond its end")
    return position + 1


def _instructions(content: bytes) -> Iterator[Any]:
    """Opcode, argument and place of each instruction; `pickletools` checks the lengths of all but frames."""
    try:
        yield from pickletools.genops(content)
    except ValueError as error:
        raise ValueError(f"it breaks off, is too long, or is none ({error})") from error


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

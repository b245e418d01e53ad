"""Pickles read as data. Names of classes and functions in a pickle become inert records: nothing foreign ever runs."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.core.errors import InvalidFileError, shown

NUMBER = re.compile(r"[<>|=]?[iufb][1248]")


class Inert:
    """Stands for an object of a pickle: what it was called with, and the state it was given."""

    name = ""

    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> Inert:
        """Records the arguments; also what `NEWOBJ` calls."""
        self = super().__new__(cls)
        self.args, self.state = args, None
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _InertUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BufferedIOBase, path: Path, known: Collection[str]) -> None:
        super().__init__(file)
        self.path = path
        self.known = known
        self.classes: dict[str, type[Inert]] = {}

    def find_class(self, module: str, name: str) -> type[Inert]:
        full_name = f"{module}.{name}"
        if full_name not in self.known:
            raise InvalidFileError(
                self.path, [f"the pickle refers to {shown(full_name)}, which mien does not read: nothing of it was run"]
            )
        return self.classes.setdefault(full_name, type("Inert", (Inert,), {"name": full_name}))

    def persistent_load(self, pid: Any) -> Any:
        raise InvalidFileError(self.path, [f"the pickle refers to an outside object {shown(str(pid))}"])


def load_inert(path: Path, known: Collection[str]) -> Any:
    """The pickle's content, with an `Inert` wherever it names one of the known classes or functions."""
    try:
        with path.open("rb") as file:
            return _InertUnpickler(file, path, known).load()
    except InvalidFileError:
        raise
    except Exception as error:  # a broken pickle can fail in any way
        raise InvalidFileError(path, [f"not a readable pickle ({type(error).__name__}: {error})"]) from error


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
    """A numpy array from its inert record; only plain numbers and lists of objects."""
    if isinstance(value, Inert) and value.name.endswith("._reconstruct") and isinstance(value.state, tuple):
        _version, shape, dtype, fortran, content = value.state
        order = "F" if fortran else "C"
    elif isinstance(value, Inert) and value.name.endswith("._frombuffer"):
        content, dtype, shape, order = value.args
    else:
        raise ValueError(f"expected an array, found {type(value).__name__}")
    code = dtype.args[0] if isinstance(dtype, Inert) and dtype.name == "numpy.dtype" else None
    if isinstance(code, str) and code.startswith("O") and isinstance(content, list):
        array = np.empty(len(content), dtype=object)
        array[:] = content
    elif isinstance(code, str) and NUMBER.fullmatch(code):
        big_endian = dtype.state is not None and dtype.state[1] == ">"
        array = np.frombuffer(content, dtype=np.dtype(code).newbyteorder(">" if big_endian else "<"))
    else:
        raise ValueError(f"expected an array of numbers or objects, found type {code!r}")
    shaped: npt.NDArray[Any] = np.reshape(array, shape, order="F" if order == "F" else "C")
    return shaped

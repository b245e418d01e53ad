"""Names of array types."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int8s = npt.NDArray[np.int8]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


class Rows(Protocol):
    """Rows of a matrix: an array, or a file from which they are read when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice | Ints, /) -> Any: ...

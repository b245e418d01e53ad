"""Names of array types, and runs in sorted arrays."""

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


def run_starts(values: Ints, first_of_group: Ints | None = None) -> Bools:
    """Where a run of equal values begins; runs end where a group does.

    >>> run_starts(np.array([7, 7, 8, 8, 8]), np.array([0, 4])).tolist()
    [True, False, True, False, True]
    """
    starts = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    if first_of_group is not None:
        starts[first_of_group] = True
    return starts


def places_in_runs(values: Ints) -> Ints:
    """Where each value stands in its run of equal values, which are sorted.

    >>> places_in_runs(np.array([7, 7, 8, 8, 8])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(len(values)) - np.searchsorted(values, values)


def smallest_of_runs(values: Float32s, first_of_run: Ints, wanted: Ints) -> Float32s:
    """The smallest so many rows of each run of rows, column by column, in their order.

    >>> smallest_of_runs(np.array([[3.0], [1.0], [2.0], [5.0]]), np.array([0, 3]), np.array([2, 1])).T.tolist()
    [[1.0, 2.0, 5.0]]
    """
    if (wanted == 1).all():
        flat = values[:, 0] if values.shape[1] == 1 else values  # several times faster
        smallest: Float32s = np.minimum.reduceat(flat, first_of_run, axis=0).reshape(len(first_of_run), -1)
        return smallest
    ends = np.append(first_of_run[1:], len(values))
    runs = zip(first_of_run.tolist(), ends.tolist(), wanted.tolist(), strict=True)
    return np.concatenate([np.sort(values[start:end], axis=0)[:count] for start, end, count in runs])

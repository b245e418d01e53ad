"""How a time is taken, and what the machine can do at best."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Floats


class Line(NamedTuple):
    """One measurement and what it is compared with."""

    what: str
    seconds: float
    compared_with: str
    reference_seconds: float
    wanted: str  # the target, in words

    @property
    def ratio(self) -> float:
        """Our time over the other: below one is faster."""
        return self.seconds / self.reference_seconds


def best_of(runs: int, action: Callable[[], object]) -> float:
    """Seconds of the fastest run: on a shared machine the others measure the neighbours."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def seconds_to_read(runs: int, *matrices: Floats) -> float:
    """The time that all cores need to read some matrices once from memory."""
    with ThreadPoolExecutor() as pool:
        threads = pool._max_workers  # noqa: SLF001
        parts = [part for matrix in matrices for part in np.array_split(matrix, threads)]
        return best_of(runs, lambda: list(pool.map(np.max, parts)))

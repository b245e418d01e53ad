"""How a time is taken, and what the machine can do at best."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s, Floats
from mien.core.index import GalleryIndex


class Line(NamedTuple):
    """One measurement and what it is compared with."""

    what: str
    amount: float
    compared_with: str
    reference: float
    wanted: str  # the target, in words
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """Ours over the other: below one is faster, or less."""
        return self.amount / self.reference


def best_of(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Seconds of the fastest run of each action, taken in turns: on a shared machine the others measure neighbours."""
    fastest = [float("inf")] * len(actions)
    for _ in range(runs):
        for place, action in enumerate(actions):
            start = time.perf_counter()
            action()
            fastest[place] = min(fastest[place], time.perf_counter() - start)
    return fastest


def float32_index(index: GalleryIndex) -> tuple[Float32s, Float32s]:
    """What a ranking by exact rows alone would read: images and patient-weighted centroids."""
    return index.images.exact[:], index.centroids("patient").exact[:]


def reader(*matrices: Floats) -> Callable[[], object]:
    """An action that reads some matrices once from memory with all cores."""
    threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    parts = [part for matrix in matrices for part in np.array_split(matrix, threads) if len(part)]
    return lambda: list(pool.map(np.max, parts))


def megabytes(field: str, process: int | str = "self") -> float:
    """Memory of a process: VmRSS, VmHWM (at most) or RssAnon (not mapped); zero where the system does not say."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    return int(found[1]) * 1024 / 1e6 if found else 0

"""Products of bytes on all cores: by NumKong, which picks the processor's instructions, or else by numpy."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from mien.core.arrays import Float64s, Floats, Int8s

EXACT_WIDTH = 1 << 10  # sums of so many products of two bytes are whole numbers in float32


def byte_products(probes: Int8s) -> Callable[[Int8s], Floats]:
    """Multiplies blocks of bytes (rows, width) with probes: whole numbers (rows, probes)."""
    kong = _numkong()
    if kong is None:
        return lambda block: plain_byte_products(block, probes)
    if len(probes) == 1:
        return lambda block: np.asarray(kong.cdist(block, probes, metric="dot"))  # quicker for one
    packed = kong.dots_pack(probes)
    return lambda block: np.asarray(kong.dots_packed(block, packed))


def plain_byte_products(block: Int8s, probes: Int8s) -> Float64s:
    """The same by numpy alone."""
    found = np.zeros((len(block), len(probes)))
    for start in range(0, block.shape[1], EXACT_WIDTH):
        some = slice(start, start + EXACT_WIDTH)
        found += block[:, some].astype(np.float32) @ probes[:, some].astype(np.float32).T
    return found


@cache
def _numkong() -> Any:
    try:
        import numkong  # noqa: PLC0415 not on every platform
    except ImportError:
        return None
    return numkong


def on_all_cores(work: Callable[..., None], tasks: Sequence[tuple[Any, ...]]) -> None:
    """Does tasks in this thread and others; products of bytes let them run at the same time."""
    left = deque(tasks)

    def take() -> None:
        while True:
            try:
                task = left.popleft()
            except IndexError:
                return
            work(*task)

    threads = _threads(os.getpid())
    others = [threads.submit(take) for _ in range(min(_cores(), len(tasks)) - 1)]
    take()
    for other in others:
        if not other.cancel():  # it is at its last task
            other.result()


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """One for each core but that of the thread that asks; a forked process has none of its parent's."""
    return ThreadPoolExecutor(max(1, _cores() - 1))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

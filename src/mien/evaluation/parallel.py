"""Parallel work on all cores of this machine, in threads: numpy releases Python's lock while it computes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The result for each item, in order; each core works on an item of its own.

    Results take memory, so at most one waits beside those that are worked on.

    >>> list(in_parallel(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    cores = os.cpu_count() or 1
    waiting = iter(items)
    if len(first := list(islice(waiting, 2))) < 2:  # one item needs no threads
        yield from map(work, first)
        return
    waiting = chain(first, waiting)
    with _blas_on_one_core(), ThreadPoolExecutor(cores) as pool:
        begun: deque[Future[Result]] = deque(pool.submit(work, item) for item in islice(waiting, cores + 1))
        while begun:
            yield begun.popleft().result()
            begun.extend(pool.submit(work, item) for item in islice(waiting, 1))


def as_finished(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, whichever is finished first.

    >>> sorted(as_finished(abs, [-1, 2, -3]))
    [(-3, 3), (-1, 1), (2, 2)]
    """
    with _blas_on_one_core(), ThreadPoolExecutor(os.cpu_count()) as pool:
        item_of = {pool.submit(work, item): item for item in items}
        for future in as_completed(item_of):
            yield item_of[future], future.result()


def _blas_on_one_core() -> AbstractContextManager[Any]:
    """Keeps each matrix product on one core: two products on all cores would wait for each other."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 an extra, and the command line loads this module

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits

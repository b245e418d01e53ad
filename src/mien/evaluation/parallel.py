"""Parallel work on all cores of this machine, in threads: numpy releases Python's lock while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
    """Each item with its result, whichever is finished first; each core works on an item of its own.

    >>> sorted(in_parallel(abs, [-1, 2, -3]))
    [(-3, 3), (-1, 1), (2, 2)]
    """
    if len(items) < 2:  # one item needs no threads
        yield from ((item, work(item)) for item in items)
        return
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 an extra, and the command line loads this module

    # each matrix product on one core: two products on all cores would wait for each other
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        item_of = {pool.submit(work, item): item for item in items}
        try:
            for future in as_completed(item_of):
                yield item_of[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, what has not begun is not waited for

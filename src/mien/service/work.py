"""Decoding, networks and ranking, away from the event loop, in a queue that ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from mien.service.problems import Problem, busy

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")


class Work:
    """A thread for each request under way, and no more of them than there are places."""

    def __init__(self, *, most_waiting: int, seconds: float) -> None:
        self.most_waiting = most_waiting
        self.seconds = seconds
        self.places_taken = 0
        cores = os.cpu_count() or 1
        self.jobs = ThreadPoolExecutor(max(1, most_waiting), "job")  # mostly waiting for photos, or for their turn
        self.photos = ThreadPoolExecutor(cores, "photo")
        self.looks = ThreadPoolExecutor(cores, "look")  # apart: whoever only looks does not wait for jobs

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue; it is taken before a request's body is read, because bodies are large."""
        if self.places_taken >= self.most_waiting:
            raise busy("as many requests as there are places for are under way: try again")
        self.places_taken += 1
        try:
            yield
        finally:
            self.places_taken -= 1

    async def received(self, body: Awaitable[Result]) -> Result:
        """A request's body, unless it takes too long to arrive."""
        try:
            async with asyncio.timeout(self.seconds):
                return await body
        except TimeoutError as error:
            raise Problem(408, "too-slow", f"the request did not arrive within {self.seconds:.0f} seconds") from error

    async def run(
        self, job: Callable[Arguments, Result], *arguments: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        """Runs a job on a thread; one that takes too long goes on there, and keeps its place, but nobody waits."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self.jobs, lambda: job(*arguments, **more))
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.seconds)
        except TimeoutError as error:
            self.places_taken += 1
            future.add_done_callback(self._leave)
            raise busy(f"it took more than {self.seconds:.0f} seconds: try again with fewer photos") from error

    async def look(self, job: Callable[[], Result]) -> Result:
        """Runs something short on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.looks, job)

    def spread(self, job: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Runs a job for each item, spread over the cores; called by jobs."""
        return list(self.photos.map(job, items))

    def close(self) -> None:
        """Ends the threads; what has not begun is dropped."""
        for pool in (self.jobs, self.photos, self.looks):
            pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, future: asyncio.Future[Result]) -> None:
        self.places_taken -= 1
        if not future.cancelled():
            future.exception()  # nobody waits for it any more

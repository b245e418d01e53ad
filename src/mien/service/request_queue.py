"""A queue of limited length for requests, and the threads that answer them beside the event loop."""

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


class RequestQueue:
    """Runs each request on a thread of its own, at most `most_waiting` at a time."""

    def __init__(self, *, most_waiting: int, seconds: float) -> None:
        self.most_waiting = most_waiting
        self.seconds = seconds
        self.places_taken = 0
        cores = os.cpu_count() or 1
        self.jobs = ThreadPoolExecutor(max(1, most_waiting), "job")  # they mostly wait for photos, or for rankings
        self.photos = ThreadPoolExecutor(cores, "photo")
        self.short_jobs = ThreadPoolExecutor(cores, "short job")  # apart, so that they do not wait for long ones

    @contextmanager
    def place(self) -> Iterator[None]:
        """Takes a place in the queue. Do it before the body is read, because bodies are large."""
        if self.places_taken >= self.most_waiting:
            raise busy("as many requests as there are places for are under way: try again")
        self.places_taken += 1
        try:
            yield
        finally:
            self.places_taken -= 1

    async def receive(self, body: Awaitable[Result]) -> Result:
        """Waits for a request's body; one that takes too long is refused."""
        try:
            async with asyncio.timeout(self.seconds):
                return await body
        except TimeoutError as error:
            raise Problem(408, "too-slow", f"the request did not arrive within {self.seconds:.0f} seconds") from error

    async def run(
        self, job: Callable[Arguments, Result], *arguments: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        """Runs a job on a thread. After `seconds` the caller gets a problem; the job goes on and keeps its place."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self.jobs, lambda: job(*arguments, **more))
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.seconds)
        except TimeoutError as error:
            self.places_taken += 1
            future.add_done_callback(self._free_place)
            raise busy(f"it took more than {self.seconds:.0f} seconds: try again with fewer photos") from error

    async def run_short(self, job: Callable[[], Result]) -> Result:
        """Runs a short job on a thread; it takes no place in the queue."""
        return await asyncio.get_running_loop().run_in_executor(self.short_jobs, job)

    def run_on_cores(self, job: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Runs a job for each item, spread over the cores. Only code that runs on a job's thread calls this."""
        return list(self.photos.map(job, items))

    def close(self) -> None:
        """Ends the threads; jobs that have not begun are dropped."""
        for pool in (self.jobs, self.photos, self.short_jobs):
            pool.shutdown(wait=False, cancel_futures=True)

    def _free_place(self, future: asyncio.Future[Result]) -> None:
        self.places_taken -= 1
        if not future.cancelled():
            future.exception()  # nobody waits for it any more

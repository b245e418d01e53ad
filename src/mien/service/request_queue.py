"""A queue of limited length for requests, and the threads that answer them beside the event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from starlette.requests import Request

from mien.service.problems import Problem, busy

Result = TypeVar("Result")
Item = TypeVar("Item")

SECONDS_TO_BEGIN = 1.0  # before that, no body is called slow


class ArrivingBody(NamedTuple):
    """A body that is being received."""

    request: Request
    started: float
    limit: asyncio.Timeout

    @property
    def bytes_per_second(self) -> float:
        received: int = self.request.scope.get("received_bytes", 0)
        return received / (time.monotonic() - self.started)


class RequestQueue:
    """Runs each request on a thread of its own, at most `most_waiting` at a time."""

    def __init__(self, *, most_waiting: int, seconds: float) -> None:
        self.most_waiting = most_waiting
        self.seconds = seconds
        self.places_taken = 0
        self.arriving: list[ArrivingBody] = []
        cores = os.cpu_count() or 1
        self.jobs = ThreadPoolExecutor(max(1, most_waiting), "job")  # they mostly wait for photos, or for rankings
        self.photos = ThreadPoolExecutor(cores, "photo")
        self.short_jobs = ThreadPoolExecutor(cores, "short job")  # apart, so that they do not wait for long ones

    @contextmanager
    def place(self) -> Iterator[None]:
        """Takes a place in the queue. Call it before the body is read, because bodies are large.

        If all places are taken, the request whose body arrives slowest is ended.
        """
        if self.places_taken >= self.most_waiting and not self._end_slowest():
            raise busy("as many requests as there are places for are under way: try again")
        self.places_taken += 1
        try:
            yield
        finally:
            self.places_taken -= 1

    def _end_slowest(self) -> bool:
        begun = time.monotonic() - SECONDS_TO_BEGIN
        slow = [body for body in self.arriving if body.started < begun]
        if not slow:
            return False
        slowest = min(slow, key=lambda body: body.bytes_per_second)
        self.arriving.remove(slowest)
        slowest.limit.reschedule(0)  # it is over
        return True

    async def receive(self, request: Request, read: Callable[[Request], Awaitable[Result]]) -> Result:
        """Waits for a request's body; one that takes too long is refused."""
        try:
            async with asyncio.timeout(self.seconds) as limit:
                body = ArrivingBody(request, time.monotonic(), limit)
                self.arriving.append(body)
                try:
                    return await read(request)
                finally:
                    if body in self.arriving:
                        self.arriving.remove(body)
        except TimeoutError as error:
            detail = f"a request arrives within {self.seconds:.0f} seconds, and faster where others wait"
            raise Problem(408, "too-slow", detail) from error

    async def run(self, job: Callable[[], Result]) -> Result:
        """Runs a job on a thread. After `seconds` the caller gets a problem; the job goes on and keeps its place."""
        future = asyncio.get_running_loop().run_in_executor(self.jobs, job)
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

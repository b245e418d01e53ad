"""Runs tasks on the workers of a cluster, and keeps parts of a gallery there. Other workers replace a lost one."""

from __future__ import annotations

import platform
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from mien.core.gallery_parts import Parts
from mien.errors import ClusterError, MienError
from mien.version import __version__

Part = TypeVar("Part")
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")

SECONDS_WITHOUT_WORKERS = 60
SECONDS_BETWEEN_CHECKS = 2.0  # of which workers are still there
SECONDS_TO_FETCH = 10.0
TASKS_PER_THREAD = 3  # one runs, the others wait on the worker


class PartOnWorker(Generic[Part]):
    """A part on the worker that loaded it. Where Dask moves it to another worker, it arrives empty."""

    def __init__(self, load: Callable[[], Part] | None = None) -> None:
        self.part = None if load is None else load()

    def __reduce__(self) -> tuple[Any, ...]:
        return PartOnWorker, ()


def ask_part(held: PartOnWorker[Part], ask: Callable[[Part], Answer]) -> Answer:
    """A part's answer. Runs on the worker that holds the part."""
    if held.part is None:
        raise ClusterError("a part was lost with its worker: ask again")
    return ask(held.part)


def version_here() -> str:
    """The version of mien on a worker: the function travels as a name."""
    return __version__


@contextmanager
def naming_the_worker() -> Iterator[None]:
    """Adds the worker's name to errors that are raised on it."""
    try:
        yield
    except MienError as error:
        error.args = (f"on worker {platform.node()}: {error}",)
        raise


class Cluster:
    """A connection to the scheduler of a cluster."""

    def __init__(self, client: Any, say: Callable[[str], None]) -> None:
        self.client = client
        self.say = say

    @property
    def threads(self) -> int:
        """How many tasks can run at once."""
        found: int = sum(self.client.nthreads().values())
        return max(1, found)

    @property
    def workers(self) -> list[str]:
        """The addresses of the running workers; those that are about to stop are left out."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return sorted(address for address, worker in workers.items() if worker.get("status", "running") == "running")

    def load_parts(self, loads: Sequence[Callable[[], Part]]) -> Parts[Part]:
        """Loads each part once, spread over the workers. Parts stay there as long as the result is in use."""
        parts = PartsOnWorkers(self, loads)
        parts.ask(type)  # waits until all are loaded; an error of one is raised here
        return parts

    def run_in_order(
        self, run: Callable[..., Answer], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[Answer | Exception]:
        """Runs tasks on whichever worker is free, a few at a time. A task that fails gives its error as the answer."""
        under_way: deque[Any] = deque()
        most = TASKS_PER_THREAD * self.threads
        for task in tasks:
            under_way.append(self.client.submit(run, *task, pure=False))
            if len(under_way) >= most:
                yield self._outcome(under_way.popleft())
        while under_way:
            yield self._outcome(under_way.popleft())

    def _outcome(self, future: Any) -> Any:
        with translating_dask_errors():
            while not self.wait_for([future]):
                pass
            error = future.exception()
            return future.result() if error is None else error

    def wait_for(self, futures: list[Any]) -> bool:
        """Waits two seconds for results; returns whether all are there. Raises ClusterError if no worker is left."""
        from distributed import wait  # noqa: PLC0415 heavy

        try:
            wait(futures, timeout=SECONDS_BETWEEN_CHECKS)
        except TimeoutError:
            self.require_workers()
            return False
        return True

    def require_workers(self) -> None:
        """Waits until there is a worker; raises ClusterError after a minute."""
        if self.workers:
            return
        self.say("the cluster has no workers, waiting for some")
        try:
            self.client.wait_for_workers(1, timeout=SECONDS_WITHOUT_WORKERS)
        except TimeoutError as error:
            raise ClusterError("the cluster has no workers: start some (dask worker ADDRESS)") from error


class PartsOnWorkers(Parts[Part]):
    """Parts, each on one worker. Where a worker is lost, the others load its parts and answer for it."""

    def __init__(self, cluster: Cluster, loads: Sequence[Callable[[], Part]]) -> None:
        self.cluster = cluster
        self.loads = loads
        self.worker_of: dict[int, str] = {}
        self.held: dict[int, Any] = {}
        with translating_dask_errors():
            self._place(range(len(loads)))

    def __len__(self) -> int:
        return len(self.loads)

    def ask_each(self, questions: Sequence[Callable[[Part], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""
        return self._results(range(len(self)), lambda part: self._asked(part, questions[part]))

    def combined(
        self, asks: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """Combines all parts' answers to each question, on a worker; as many questions at a time as workers."""

        def submit_combined(number: int) -> Any:
            answers = [self._asked(part, asks[number]) for part in range(len(self.loads))]
            return self.cluster.client.submit(combine, answers, pure=False)

        step = len(set(self.worker_of.values()))
        waves = [range(start, min(start + step, len(asks))) for start in range(0, len(asks), step)]
        return [whole for wave in waves for whole in self._results(wave, submit_combined)]

    def _results(self, tasks: Sequence[int], submit: Callable[[int], Any]) -> list[Any]:
        """Submits tasks that ask parts, and collects the results. If a worker is lost, asks for missing ones again."""
        results: dict[int, Any] = {}
        with translating_dask_errors():
            futures = {task: submit(task) for task in tasks}
            while futures:
                if self.cluster.wait_for(list(futures.values())):
                    self._fetch(futures, results)
                if futures and (lost := self._lost()):
                    self._place(lost)
                    futures = {task: submit(task) for task in futures}
        return [results[task] for task in tasks]

    @staticmethod
    def _fetch(futures: dict[int, Any], results: dict[int, Any]) -> None:
        """Moves finished results from `futures` to `results`; stops at the first that does not arrive in time."""
        for task in list(futures):
            try:
                results[task] = futures[task].result(timeout=SECONDS_TO_FETCH)
            except TimeoutError:
                return
            del futures[task]

    def _asked(self, part: int, ask: Callable[[Part], Answer]) -> Any:
        return self.cluster.client.submit(ask_part, self.held[part], ask, pure=False, workers=[self.worker_of[part]])

    def _lost(self) -> list[int]:
        there = self.cluster.workers
        return [part for part, worker in self.worker_of.items() if worker not in there]

    def _place(self, parts: Iterable[int]) -> None:
        """Loads each part on the worker that has the fewest."""
        self.cluster.require_workers()
        there = self.cluster.workers
        for part in parts:
            taken = Counter(worker for other, worker in self.worker_of.items() if other != part)
            self.worker_of[part] = min(there, key=lambda worker: taken[worker])
            self.held[part] = self.cluster.client.submit(
                PartOnWorker, self.loads[part], pure=False, workers=[self.worker_of[part]]
            )


@contextmanager
def translating_dask_errors() -> Iterator[None]:
    """Translates errors of Dask into ClusterError, with advice."""
    from distributed import KilledWorker  # noqa: PLC0415 heavy
    from distributed.comm import CommClosedError  # noqa: PLC0415

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(f"{killed_workers_message(error)}: have they memory enough?") from error
    except (CancelledError, CommClosedError, OSError) as error:
        raise ClusterError(f"the scheduler is gone ({type(error).__name__}): start the cluster again") from error


def killed_workers_message(error: Exception) -> str | None:
    """The message for a task that killed its workers; None for any other error."""
    from distributed import KilledWorker  # noqa: PLC0415 heavy

    if not isinstance(error, KilledWorker):
        return None
    attempts = getattr(error, "allowed_failures", 0) + 1
    return f"{attempts} workers died, one after the other, at the same work"

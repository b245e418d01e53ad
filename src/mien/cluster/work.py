"""Questions to the workers of a cluster. A worker that is lost takes nothing with it: its work is done by another."""

from __future__ import annotations

import platform
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from mien.core.errors import ClusterError, MienError
from mien.core.gallery_parts import Parts

Part = TypeVar("Part")
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")

SECONDS_WITHOUT_WORKERS = 60
SECONDS_BETWEEN_LOOKS = 2.0  # at who is still there
SECONDS_TO_FETCH = 10.0
UNDER_WAY = 3  # tasks per worker's thread: one at work, the next ones there already


class Held(Generic[Part]):
    """A part on the worker that loaded it. It does not travel: what Dask moves off a worker that leaves is empty."""

    def __init__(self, load: Callable[[], Part] | None = None) -> None:
        self.part = None if load is None else load()

    def __reduce__(self) -> tuple[Any, ...]:
        return Held, ()


def asked(held: Held[Part], ask: Callable[[Part], Answer]) -> Answer:
    """A part's answer, given where the part is."""
    if held.part is None:
        raise ClusterError("a part was lost with its worker: ask again")
    return ask(held.part)


def version_here() -> str:
    """The version of mien on a worker."""
    from mien.version import __version__  # noqa: PLC0415 that of the worker

    return __version__


@contextmanager
def on_worker() -> Iterator[None]:
    """What is refused here, on a worker, is told with the worker's name."""
    try:
        yield
    except MienError as error:
        error.args = (f"on worker {platform.node()}: {error}",)
        raise


class Cluster:
    """A client of a scheduler."""

    def __init__(self, client: Any, say: Callable[[str], None]) -> None:
        self.client = client
        self.say = say

    def versions(self) -> dict[str, str | None]:
        """The version of mien of each worker; None where there is none."""
        self.require_workers()
        answers = self.client.run(version_here, on_error="return")
        told = {address: answer for address, answer in answers.items() if not isinstance(answer, OSError)}  # lost now
        return {address: answer if isinstance(answer, str) else None for address, answer in told.items()}

    @property
    def threads(self) -> int:
        """How many tasks can be at work at once."""
        found: int = sum(self.client.nthreads().values())
        return max(1, found)

    @property
    def workers(self) -> list[str]:
        """The addresses of those that are at work now; who is about to leave is not."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return sorted(address for address, worker in workers.items() if worker.get("status", "running") == "running")

    def load_parts(self, loads: Sequence[Callable[[], Part]]) -> Parts[Part]:
        """Loads parts, spread over the workers, once; they stay as long as somebody can ask them."""
        parts = PartsOnWorkers(self, loads)
        parts.ask(type)  # all of them are loaded, or somebody says why not
        return parts

    def in_order(self, work: Callable[..., Answer], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Answer | Exception]:
        """Does tasks on whichever worker is free, a few at a time; an answer that is an exception is handed out."""
        under_way: deque[Any] = deque()
        most = UNDER_WAY * self.threads
        for task in tasks:
            under_way.append(self.client.submit(work, *task, pure=False))
            if len(under_way) >= most:
                yield self._outcome(under_way.popleft())
        while under_way:
            yield self._outcome(under_way.popleft())

    def _outcome(self, future: Any) -> Any:
        with explained():
            while not self.waited([future]):
                pass
            error = future.exception()
            return future.result() if error is None else error

    def waited(self, futures: list[Any]) -> bool:
        """Waits a while for answers, and says whether they are there; a cluster without workers is given up."""
        from distributed import wait  # noqa: PLC0415 heavy

        try:
            wait(futures, timeout=SECONDS_BETWEEN_LOOKS)
        except TimeoutError:
            self.require_workers()
            return False
        return True

    def require_workers(self) -> None:
        """Waits until there is a worker, but not for ever."""
        if self.workers:
            return
        self.say("the cluster has no workers, waiting for some")
        try:
            self.client.wait_for_workers(1, timeout=SECONDS_WITHOUT_WORKERS)
        except TimeoutError as error:
            raise ClusterError("the cluster has no workers: start some (dask worker ADDRESS)") from error


class PartsOnWorkers(Parts[Part]):
    """Parts, each on one worker. Those of a worker that is lost are loaded by the others, and asked again."""

    def __init__(self, cluster: Cluster, loads: Sequence[Callable[[], Part]]) -> None:
        self.cluster = cluster
        self.loads = loads
        self.worker_of: dict[int, str] = {}
        self.held: dict[int, Any] = {}
        with explained():
            self._place(range(len(loads)))

    def __len__(self) -> int:
        return len(self.loads)

    def ask_each(self, questions: Sequence[Callable[[Part], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""
        return self._results(range(len(self)), lambda part: self._asked(part, questions[part]))

    def combined(
        self, asks: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together on some worker; as many at a time as there are workers."""

        def put_together(number: int) -> Any:
            answers = [self._asked(part, asks[number]) for part in range(len(self.loads))]
            return self.cluster.client.submit(combine, answers, pure=False)

        step = len(set(self.worker_of.values()))
        waves = [range(start, min(start + step, len(asks))) for start in range(0, len(asks), step)]
        return [whole for wave in waves for whole in self._results(wave, put_together)]

    def _results(self, tasks: Sequence[int], submit: Callable[[int], Any]) -> list[Any]:
        """The results of tasks that ask parts. Where a worker is lost, what is not here yet is asked for again."""
        results: dict[int, Any] = {}
        with explained():
            futures = {task: submit(task) for task in tasks}
            while futures:
                if self.cluster.waited(list(futures.values())):
                    self._fetch(futures, results)
                if futures and (lost := self._lost()):
                    self._place(lost)
                    futures = {task: submit(task) for task in futures}
        return [results[task] for task in tasks]

    @staticmethod
    def _fetch(futures: dict[int, Any], results: dict[int, Any]) -> None:
        """Takes over results, as long as those who have them are there."""
        for task in list(futures):
            try:
                results[task] = futures[task].result(timeout=SECONDS_TO_FETCH)
            except TimeoutError:
                return
            del futures[task]

    def _asked(self, part: int, ask: Callable[[Part], Answer]) -> Any:
        return self.cluster.client.submit(asked, self.held[part], ask, pure=False, workers=[self.worker_of[part]])

    def _lost(self) -> list[int]:
        there = self.cluster.workers
        return [part for part, worker in self.worker_of.items() if worker not in there]

    def _place(self, parts: Iterable[int]) -> None:
        """Loads parts where there are fewest."""
        self.cluster.require_workers()
        there = self.cluster.workers
        for part in parts:
            taken = Counter(worker for other, worker in self.worker_of.items() if other != part)
            self.worker_of[part] = min(there, key=lambda worker: taken[worker])
            self.held[part] = self.cluster.client.submit(
                Held, self.loads[part], pure=False, workers=[self.worker_of[part]]
            )


@contextmanager
def explained() -> Iterator[None]:
    """What Dask reports of itself, in words that help."""
    from distributed import KilledWorker  # noqa: PLC0415 heavy
    from distributed.comm import CommClosedError  # noqa: PLC0415

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(f"{killed(error)}: have they memory enough?") from error
    except (CancelledError, CommClosedError, OSError) as error:
        raise ClusterError(f"the scheduler is gone ({type(error).__name__}): start the cluster again") from error


def killed(error: Exception) -> str:
    """What is said of work that its workers did not survive."""
    attempts = getattr(error, "allowed_failures", 0) + 1
    return f"{attempts} workers died, one after the other, at the same work"

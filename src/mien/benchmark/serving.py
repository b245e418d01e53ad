"""The service under load: clients that ask as fast as they are answered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from mien.benchmark.measure import Line, best_of
from mien.core.cohort import Query
from mien.core.embeddings import unit_rows
from mien.core.errors import MienError
from mien.core.fusion import fuse_embeddings
from mien.storage.gallery import Gallery

CLIENTS = 8
SECONDS = 60.0
WARM_UP = 2.0  # seconds, not counted
DIFFERENT_BODIES = 32
LINES = 4


def serving_benchmarks(gallery: Gallery, queries: Sequence[Query], size: float) -> Iterator[Line]:
    """Ranking from embeddings over HTTP, for a share of 60 seconds."""
    bodies = [_body(query) for query in queries[:DIFFERENT_BODIES]]
    index, row = gallery.index, unit_rows(fuse_embeddings(queries[0].encodings.embeddings)[np.newaxis])
    probe = row.astype(np.float32)
    [product] = best_of(
        20, lambda: [probe @ matrix.T for matrix in (index.images.exact, index.patient_centroids.exact)]
    )
    duration = max(1.0, SECONDS * size)
    with served(gallery.directory) as (port, memory):
        seconds, before, after = load(port, bodies, duration, memory)
    each = duration / len(seconds)
    yield Line(
        f"{CLIENTS} clients, {1 / each:,.0f} answers a second: each", each, "its bare matrix product", product, "≤ 1.43"
    )
    turns = f"{CLIENTS} bare matrix products"
    yield Line("  half are answered within", float(np.percentile(seconds, 50)), turns, CLIENTS * product, "")
    yield Line("  99 of 100 are answered within", float(np.percentile(seconds, 99)), turns, CLIENTS * product, "")
    if before:
        yield Line("  memory at the end of it", after, "at its beginning", before, "1: flat", unit="MB")


@contextmanager
def served(directory: Path) -> Iterator[tuple[int, Callable[[], float]]]:
    """The port of a service in a process of its own, whose map is drawn, and how to ask for its memory."""
    command = [sys.executable, "-m", "mien", "serve", "--gallery", str(directory), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 our own program
        try:
            assert process.stdout is not None
            said = re.search(r":(\d+)/", process.stdout.readline())
            if said is None:
                raise MienError("the service did not start")
            port = int(said[1])
            with closing(HTTPConnection("127.0.0.1", port)) as connection:
                while not json.loads(_asked(connection, "GET", "/v1/health"))["map_drawn"]:
                    time.sleep(0.2)
            yield port, lambda: memory_of(process.pid)
        finally:
            process.terminate()


def load(
    port: int, bodies: Sequence[bytes], duration: float, memory: Callable[[], float]
) -> tuple[list[float], float, float]:
    """The seconds of each answer that was asked for within the duration, and memory before and after."""
    begin = time.perf_counter() + WARM_UP
    end = begin + duration

    def client(number: int) -> list[float]:
        seconds = []
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            while (asked := time.perf_counter()) < end:
                _asked(connection, "POST", "/v1/rank/embeddings", bodies[number % len(bodies)])
                seconds += [time.perf_counter() - asked] if asked >= begin else []
                number += 1
        return seconds

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        time.sleep(WARM_UP)
        before = memory()
        seconds = [took for of_client in clients for took in of_client.result()]
    return seconds, before, memory()


def _asked(connection: HTTPConnection, method: str, path: str, body: bytes | None = None) -> bytes:
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise MienError(f"{path} was answered with {response.status}: {content.decode()}")
    return content


def _body(query: Query) -> bytes:
    encodings = query.encodings
    numbers = [[[float(f"{value:.7g}") for value in vector] for vector in image] for image in encodings.embeddings]
    return json.dumps({"embeddings": numbers, "image_ids": encodings.image_ids}).encode()


def memory_of(process: int) -> float:
    """Megabytes that are a process's own, the mapped gallery not counted; zero where the system does not say."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0

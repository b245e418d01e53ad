"""The service under load: clients that ask as fast as they are answered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from mien.benchmark.measure import Line, best_of, float32_index, megabytes, reader
from mien.core.cohort import Query
from mien.errors import MienError
from mien.storage.gallery import Gallery

CLIENTS = 8
SECONDS = 60.0
WARM_UP = 2.0  # seconds, not counted
DIFFERENT_BODIES = 32
LINES = 5


def serving_benchmarks(gallery: Gallery, queries: Sequence[Query], size: float) -> Iterator[Line]:
    """Ranking from embeddings over HTTP, for a share of 60 seconds."""
    bodies = [_body(query) for query in queries[:DIFFERENT_BODIES]]
    [reading] = best_of(20, reader(*float32_index(gallery.index)))
    duration = max(1.0, SECONDS * size)
    with served(gallery.directory) as (port, process):
        seconds, before = load(port, bodies, duration, process)
        after, resident = megabytes("RssAnon", process), megabytes("VmRSS", process)
    each, once = duration / len(seconds), "reading the float32 index once from memory"
    yield Line(f"{CLIENTS} clients, {1 / each:,.0f} answers a second: each", each, once, reading, "")
    for percent, what in ((50, "half"), (99, "99 of 100")):
        took = float(np.percentile(seconds, percent))
        yield Line(f"  {what} are answered within", took, f"reading it {CLIENTS} times", CLIENTS * reading, "")
    if before:
        yield Line("  its own memory at the end", after, "at the beginning", before, "1: flat", "MB")
        yield Line("  all its memory at the end", resident, "250 MB", 250, "≤ 1", "MB")


@contextmanager
def served(directory: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of a service of its own."""
    unlimited = ("--requests-per-hour", "1000000000", "--embeddings-per-hour", "1000000000")
    command = [sys.executable, "-m", "mien", "serve", "--gallery", str(directory), "--port", "0", *unlimited]
    nowhere = subprocess.DEVNULL  # where its log goes
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=nowhere, text=True) as process:  # noqa: S603 our own
        try:
            assert process.stdout is not None
            said = re.search(r":(\d+)/", process.stdout.readline())
            if said is None:
                raise MienError("the service did not start")
            yield int(said[1]), process.pid
        finally:
            process.terminate()


def load(port: int, bodies: Sequence[bytes], duration: float, process: int) -> tuple[list[float], float]:
    """The seconds of each answer that was asked for within the duration, and the process's own memory before."""
    begin = time.perf_counter() + WARM_UP
    end = begin + duration

    def client(number: int) -> list[float]:
        seconds = []
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            while (asked := time.perf_counter()) < end:
                body = bodies[number % len(bodies)]
                connection.request("POST", "/v1/rank/embeddings", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content = response.read()
                if response.status != 200:
                    raise MienError(f"a ranking was answered with {response.status}: {content.decode()}")
                seconds += [time.perf_counter() - asked] if asked >= begin else []
                number += 1
        return seconds

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        time.sleep(WARM_UP)
        before = megabytes("RssAnon", process)
        return [took for of_client in clients for took in of_client.result()], before


def _body(query: Query) -> bytes:
    encodings = query.encodings
    numbers = [[[float(f"{value:.7g}") for value in vector] for vector in image] for image in encodings.embeddings]
    return json.dumps({"embeddings": numbers, "image_ids": encodings.image_ids}).encode()

"""A service under load and attack: eight clients, idle connections, headers without end; its memory, and who waits."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from mien import Cohort, Gallery
from mien.benchmark.measure import megabytes
from mien.service.tokens import add_people
from mien.simulation.study import simulated_gmdb

CLIENTS, BODIES = 8, 64
IDLE, IDLE_OF_AN_ADDRESS = 540, 60
PAUSE = 1.0  # seconds between the questions of the person whose time counts
MOST_MEGABYTES, MOST_SECONDS = 400, 1.0


def soak(minutes):
    """Prints a line for each minute; returns figures."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with tempfile.TemporaryDirectory() as folder:
        bodies, tokens = _prepared(Path(folder))
        with _served(Path(folder)) as (port, service), _attacked(port):
            return _loaded(port, service, bodies, tokens, minutes)


def _prepared(folder):
    """A gallery of GMDB's size, its test patients as requests, and the tokens of a person and of the clients."""
    sys.stderr.write("building a simulated gallery of GMDB's size\n")
    study = simulated_gmdb(1)
    fold = study.folds[0]
    Gallery.build(folder / "gallery", Cohort.join(study.encodings, [*fold.frequent.gallery, *fold.rare.gallery]))
    rows = [study.row_of_image[label.image_id] for label in fold.frequent.test[:BODIES]]
    bodies = [json.dumps({"embeddings": [study.encodings.embeddings[row].round(5).tolist()]}).encode() for row in rows]
    return bodies, add_people(folder / "tokens", ["person", "clients"], ["rank", "gallery"])


@contextmanager
def _served(folder):
    """`mien serve` as people start it: the port and the process."""
    command = [sys.executable, "-m", "mien", "serve", "--gallery", folder / "gallery", "--port", "0"]
    command += ["--tokens", folder / "tokens", "--audit", folder / "audit.jsonl"]
    command += ["--requests-per-hour", "1000000000", "--embeddings-per-hour", "1000000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        try:
            yield int(re.search(r":(\d+)/", service.stdout.readline())[1]), service
        finally:
            service.terminate()


@contextmanager
def _attacked(port):
    """Another process holds idle connections from nine addresses, and sends headers without end from a tenth."""
    attacker = os.fork()
    if not attacker:
        try:
            _attack(port)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)


def _attack(port):
    threading.Thread(target=_flood, args=[port], daemon=True).start()
    idle = {}
    while True:
        for number in range(IDLE):
            if number in idle and not _is_closed(idle[number]):
                continue
            with suppress(OSError):
                address = f"127.0.0.{2 + number // IDLE_OF_AN_ADDRESS}"
                idle[number] = socket.create_connection(("127.0.0.1", port), source_address=(address, 0), timeout=5)
                idle[number].settimeout(0)
        time.sleep(0.5)


def _is_closed(connection):
    try:
        if connection.recv(1):
            return False
    except BlockingIOError:
        return False
    except OSError:
        pass
    connection.close()
    return True


def _flood(port):
    block = b"X: y\r\n" * 10_000
    while True:
        with suppress(OSError):
            attack = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.20", 0), timeout=5)
            with attack:
                attack.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
                while True:
                    attack.sendall(block)
        time.sleep(0.05)


def _loaded(port, service, bodies, tokens, minutes):
    """The clients ask as fast as they are answered; the person asks every second, each time on a new connection."""
    ended, statuses, waited, resident = threading.Event(), Counter(), [], []

    def client(number):
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while not ended.is_set():
            try:
                statuses[_asked(connection, bodies[number % len(bodies)], tokens["clients"])] += 1
            except (OSError, HTTPException):  # it was idle, and closed for somebody else
                statuses["connection closed"] += 1
                connection.close()
            number += 1

    def person():
        while not ended.wait(PAUSE):
            started = time.monotonic()
            with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                status = _asked(connection, bodies[0], tokens["person"])
            waited.append(time.monotonic() - started)
            statuses["person", status] += 1

    workers = [threading.Thread(target=client, args=[number]) for number in range(CLIENTS)]
    workers.append(threading.Thread(target=person))
    for worker in workers:
        worker.start()
    for minute in range(1, minutes + 1):
        time.sleep(60)
        resident.append(megabytes("VmRSS", service.pid))
        own = megabytes("RssAnon", service.pid)
        said = f"{statuses[200]:,} answers; the person waited {max(waited):.2f} s at most"
        print(f"minute {minute}: {resident[-1]:.0f} MB, {own:.0f} of them its own; {said}", flush=True)
    ended.set()
    for worker in workers:
        worker.join()
    return {
        "minutes": minutes,
        "answers": statuses[200],
        "statuses": {str(status): count for status, count in statuses.items()},
        "megabytes": [round(each) for each in resident],
        "peak_megabytes": round(megabytes("VmHWM", service.pid)),
        "person_answers": len(waited),
        "person_median_seconds": round(sorted(waited)[len(waited) // 2], 3),
        "person_above_a_second": sum(each > MOST_SECONDS for each in waited),
        "person_worst_seconds": round(max(waited), 3),
        "sound": max(resident) < MOST_MEGABYTES and max(waited) < MOST_SECONDS,
    }


def _asked(connection, body, token):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection.request("POST", "/v1/rank/embeddings", body, headers)
    response = connection.getresponse()
    response.read()
    return response.status

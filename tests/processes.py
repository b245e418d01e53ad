"""Commands in processes of their own, to be killed: forked from one that has imported mien, so that they start at once.

A killer who waits for Python to start kills imports most of the time, and never the work.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import sys
import time
from typing import NamedTuple

from mien.cli.main import main

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["mien.cli.main", "mien.storage.gallery", "pyarrow.parquet"])


class Ended(NamedTuple):
    """How a command ended, and what it complained about."""

    code: int  # below zero: the signal that killed it
    stderr: str
    seconds: float


def run(complaints, *arguments, kill_after=None, most_bytes_per_file=None):
    """Runs a command, or kills it after so many seconds; `complaints` is where its stderr goes."""
    process = CONTEXT.Process(target=_command, args=(complaints, list(map(str, arguments)), most_bytes_per_file))
    started = time.monotonic()
    process.start()
    process.join(kill_after)
    process.kill()
    process.join()
    seconds = time.monotonic() - started
    return Ended(process.exitcode, complaints.read_text() if complaints.exists() else "", seconds)


class Killer:
    """Kills commands at random moments of the time that they take, which a busy machine changes all the time."""

    def __init__(self, run, seconds, *, seed):
        self.run, self.seconds, self.killed = run, seconds, 0
        self._moments = random.Random(seed)

    def __call__(self, *arguments):
        ended = self.run(*arguments, kill_after=self._moments.uniform(0, 1) * self.seconds)
        if ended.code == -signal.SIGKILL:
            self.killed += 1
        else:
            self.seconds = ended.seconds

    def numbers(self, count, *, at_least):
        """0, 1, 2, ...: `count` of them, and more (ten times, at most) until `at_least` commands were killed."""
        for number in range(10 * count):
            if number >= count and self.killed >= at_least:
                return
            yield number
        assert self.killed >= at_least


def _command(complaints, arguments, most_bytes_per_file):
    sys.argv = ["mien", *arguments]
    with complaints.open("w") as sys.stderr, (complaints.parent / "stdout").open("w") as sys.stdout:
        if most_bytes_per_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes_per_file, most_bytes_per_file))
        main()

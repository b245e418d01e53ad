"""Commands in processes of their own, to be killed: forked from one that has imported mien, so that they start at once.

A killer who waits for Python to start kills imports most of the time, and never the work.
"""

from __future__ import annotations

import multiprocessing
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


def run(complaints, *arguments, kill_after=None, most_bytes_per_file=None):
    """Runs a command, or kills it after so many seconds; `complaints` is where its stderr goes."""
    process = CONTEXT.Process(target=_command, args=(complaints, list(map(str, arguments)), most_bytes_per_file))
    process.start()
    if kill_after is not None:
        time.sleep(kill_after)
        process.kill()
    process.join()
    return Ended(process.exitcode, complaints.read_text() if complaints.exists() else "")


def was_killed(ended):
    """Whether a command was still running when it was killed."""
    return ended.code == -signal.SIGKILL


def _command(complaints, arguments, most_bytes_per_file):
    sys.argv = ["mien", *arguments]
    with complaints.open("w") as sys.stderr, (complaints.parent / "stdout").open("w") as sys.stdout:
        if most_bytes_per_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes_per_file, most_bytes_per_file))
        main()

"""Work in forked children, which start at once: they can be killed, and may die without taking this process along."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from mien.cli.main import main

TRACEBACK = 70  # exit code of a command that raised what nobody caught
MOST_SECONDS = 120  # of one case


class Ended(NamedTuple):
    """How a command ended, and what it wrote to stderr."""

    code: int  # below zero: the signal that killed it
    said: str


def command(*arguments, kill_after=None, most_bytes_per_file=None):
    """Runs `mien` with these arguments in a child; after so many seconds, it is killed."""
    with tempfile.TemporaryFile("w+") as complaints, Path(os.devnull).open("w") as nowhere:
        child = os.fork()
        if not child:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(complaints.fileno(), 2)
            if most_bytes_per_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes_per_file, most_bytes_per_file))
            os._exit(code_of(arguments))
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        complaints.seek(0)
        return Ended(code, complaints.read())


def code_of(arguments):
    """Runs `mien` in this process; its exit code."""
    sys.argv = ["mien", *map(str, arguments)]
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = TRACEBACK
    sys.stderr.flush()
    return code


def results(examine, cases):
    """What `examine` returns for each case, in order, as JSON keeps it. A child that dies or hangs is a result too."""
    done = 0
    while done < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _examine(examine, cases[done:], write)
        os.close(write)
        with os.fdopen(read) as lines:
            for line in lines:
                done += 1
                yield json.loads(line)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if done < len(cases):
            done += 1
            yield f"crash: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"


def result(examine, *arguments):
    """The same of one case."""
    return next(results(lambda case: examine(*case), [arguments]))


def _examine(examine, cases, write):
    code = TRACEBACK
    try:
        with os.fdopen(write, "w") as lines:
            for case in cases:
                signal.alarm(MOST_SECONDS)  # it kills a child that hangs
                lines.write(json.dumps(examine(case)) + "\n")
                lines.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

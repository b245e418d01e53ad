"""Commands that are killed, or run into a full disk: whole patients only, and the same command finishes the job."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import statistics
import sys
import time
from collections import defaultdict
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from mien.errors import MienError
from mien.storage.verification import problems

from faults.children import TRACEBACK, code_of, command, result
from faults.operations import OPERATIONS, answer, bytes_of_removed, two_people
from faults.tally import Tally

REPEATED = 0.3  # share of interrupted commands that are interrupted again before they are finished
UNFINISHED = "a removal is not finished"
DISK = 1 << 25
STEP = 1 << 16


class Interrupted:
    """An operation in a folder of its own, with what is seen before and after it."""

    def __init__(self, operation, folder):
        self.operation = operation
        self.start, self.work = folder / f"start-{len(list(folder.iterdir()))}", folder / "work"
        self.start.mkdir()
        _of_child(operation.begin, self.start)
        self.renew()
        self.before = _of_child(operation.seen, self.work)
        self.renew()
        ended = self.run()
        assert ended.code == 0, ended.said
        self.after = _of_child(operation.seen, self.work)
        self.names_after = self.names()
        self.renew()
        assert not operation.erases or bytes_of_removed(self.work / "gallery")  # else none left proves nothing

    def renew(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.start, self.work)

    def run(self, **limits):
        return command(*self.operation.arguments(self.work), **limits)

    def has_written(self):
        """Whether anything in the folder is not as it was at the beginning."""
        return any(_files(self.start)[name] != now for name, now in _files(self.work).items())

    def names(self):
        paths = [path for path in self.work.rglob("*") if not path.name.endswith(("-wal", "-shm"))]
        return sorted(path.relative_to(self.work).as_posix() for path in paths)

    def outcome(self):
        """What an interrupted command left behind: before it or after it, and nothing else."""
        written = self.has_written()
        outcome, detail = result(self._outcome)
        return ("before it wrote" if outcome == "undone" and not written else outcome), detail

    def _outcome(self):
        try:
            found = [line for line in self._problems() if not (self.operation.erases and UNFINISHED in line)]
            if found:
                return "fault: verify finds damage", found[0]
            now = self.operation.seen(self.work)
        except MienError as error:
            return "fault: it does not open", str(error)
        if now == self.before:
            return "undone", ""
        if now == self.after:
            return "done", ""
        who = [each["patients"] if each and "patients" in each else {} for each in (now, self.before, self.after)]
        if any(who[0].get(patient) not in (who[1].get(patient), who[2].get(patient)) for patient in who[0]):
            return "fault: parts of patients", str(now)
        return "fault: other patients or answers than before or after", str(now)

    def _problems(self):
        if not (self.work / "gallery").exists() or answer(self.work / "gallery") is None:
            return []
        return list(problems(self.work / "gallery"))

    def finished(self):
        """Repeats the command; None, or what is wrong then."""
        ended = self.run()
        done = self.operation.done is not None and self.operation.done in ended.said
        if ended.code and not done:
            return "fault: it cannot be finished", ended.said
        outcome, detail = self.outcome()
        if outcome != "done" and self.before != self.after:
            return "fault: repeating did not finish it", f"{outcome}: {detail}"
        if self.names() != self.names_after:
            return "fault: files are left over", str(set(self.names()) ^ set(self.names_after))
        if self.operation.erases and (left := bytes_of_removed(self.work / "gallery")):
            return "fault: bytes of a removed patient are left", ", ".join(left)
        return None


def _files(folder):
    """Size and time of each file, by name."""
    status = {path.relative_to(folder): path.lstat() for path in folder.rglob("*") if path.is_file()}
    return defaultdict(tuple, {name: (each.st_size, each.st_mtime_ns) for name, each in status.items()})


def _of_child(function, folder):
    found = result(function, folder)
    assert not isinstance(found, str), found
    return found


def _drawn(rng, operations):
    """The number of an operation, by their shares."""
    shares = np.array([each.operation.share for each in operations])
    return int(rng.choice(len(operations), p=shares / shares.sum()))


def kills(count, seed, folder, operations=OPERATIONS):
    """Commands killed at random moments of the time that they take."""
    tally = Tally("kill", count)
    _warm_up(folder)
    ready = [Interrupted(operation, _made(folder / str(number))) for number, operation in enumerate(operations)]
    seconds = [_seconds(each) for each in ready]
    number = 0
    while tally.tries < count:
        number += 1
        rng = np.random.default_rng([seed, number])
        chosen = _drawn(rng, ready)
        each = ready[chosen]
        ended = each.run(kill_after=rng.uniform(0, 1.2 * seconds[chosen]))
        if ended.code != -signal.SIGKILL:  # it was faster
            each.renew()
            continue
        tally.count(each.operation.name, *_judged(each, rng, number))
    return tally


def _judged(each, rng, number):
    """The outcome of an interrupted command, which is then finished, or left for the next interruption."""
    outcome, detail = each.outcome()
    if not outcome.startswith("fault") and rng.random() < REPEATED:
        return outcome, number, detail
    if not outcome.startswith("fault") and (wrong := each.finished()):
        outcome, detail = wrong
    each.renew()
    return outcome, number, detail


def _seconds(each):
    """How long a command takes when nobody disturbs it; the folder is as before afterwards."""
    taken = []
    for _ in range(3):
        each.renew()
        started = time.monotonic()
        each.run()
        taken.append(time.monotonic() - started)
    each.renew()
    return statistics.median(taken)


def full_disks(count, seed, folder, operations=OPERATIONS):
    """Commands on a disk that has less free space than they need, a random part of it."""
    tally = Tally("full disk", count)
    _warm_up(folder)
    with small_disk(folder) as limited:
        ready = [Interrupted(operation, _made(folder / str(number))) for number, operation in enumerate(operations)]
        needs = [_need(each, limited) for each in ready]
        ready, needs = zip(*[(each, need) for each, need in zip(ready, needs, strict=True) if need], strict=True)
        number = 0
        while tally.tries < count:
            number += 1
            rng = np.random.default_rng([seed, number])
            chosen = _drawn(rng, ready)
            each = ready[chosen]
            ended = limited(each, int(rng.integers(needs[chosen])))
            if ended.code == 0:  # there was room
                each.renew()
                continue
            if wrong := _badly_said(ended):
                each.renew()
                tally.count(each.operation.name, wrong, number, ended.said)
            else:
                tally.count(each.operation.name, *_judged(each, rng, number))
    return tally


def _badly_said(ended):
    if ended.code < 0:
        return f"fault: crash ({signal.Signals(-ended.code).name})"
    if ended.code == TRACEBACK or "Traceback" in ended.said:
        return "fault: traceback"
    return None if "mien: " in ended.said else "fault: no message"


def _need(each, limited):
    """The free bytes with which a command succeeds."""
    for bytes_free in range(0, DISK, STEP):
        each.renew()
        if limited(each, bytes_free).code == 0:
            each.renew()
            return bytes_free
    raise AssertionError(f"{each.operation.name} needs more than the whole disk")


@contextmanager
def small_disk(folder):
    """A function that runs a command with so many free bytes: on a disk of its own in memory where that is allowed.

    Elsewhere no file may become longer than that.
    """
    c = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_users, private = 0x20000, 0x10000000, 1 << 18 | 1 << 14
    allowed = sys.platform == "linux" and c.unshare(new_mounts if os.geteuid() == 0 else new_mounts | new_users) == 0
    if allowed:
        c.mount(None, b"/", None, private, None)
        allowed = c.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, b"size=%d" % DISK) == 0
    if not allowed:
        yield lambda each, most: each.run(most_bytes_per_file=4096 + most)  # its message must be written
        return
    ballast = folder / "ballast"

    def run(each, bytes_free):
        disk = os.statvfs(folder)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(disk.f_bavail * disk.f_bsize - bytes_free, 1))
        try:
            return each.run()
        finally:
            ballast.unlink()

    try:
        yield run
    finally:
        c.umount2(bytes(folder), 2)


def _warm_up(folder):
    """Runs commands once in this process, so that its children have everything imported."""

    begun = _made(folder / "warm-up")
    result(two_people, begun)
    commands = [["gallery", "verify", begun / "gallery"], ["tokens", "list", begun / "tokens"]]
    commands += [each.arguments(begun) for each in OPERATIONS if each.name in {"gallery add", "gallery export"}]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for arguments in commands:
            assert code_of(arguments) == 0


def _made(folder: Path):
    folder.mkdir(parents=True)
    return folder

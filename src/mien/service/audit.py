"""The audit log: who asked what and when, and of patients only whose kept faces were shown. Changes can be detected.

Each line is a JSON object. `hash` covers the rest of the line, `previous` is the hash of the line before. So a line
that is changed, dropped or inserted breaks the chain. Lines that are cut off at the end do not: note the last hash
elsewhere, and `mien audit verify --head HASH` says whether that line is still there.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mien.errors import InvalidFileError, MienError

FIRST = "0" * 64  # `previous` of the first line
START = b'{"number": '  # how every line begins


class Head(NamedTuple):
    """The last line of a log."""

    number: int
    hash: str


class AuditLog:
    """A log that is open for writing. Every line is on the disk before `write` returns."""

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self.now = now
        self.lock = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        self.descriptor = os.open(path, flags, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(self.descriptor).st_mode):
                raise InvalidFileError(path, ["it is not a file: give another name for the log"])  # noqa: TRY301 closed
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.head, cut_off = verify_log(path, cut_off=True)
            if cut_off:
                os.ftruncate(self.descriptor, path.stat().st_size - cut_off)
                self.write("mended", bytes_cut_off=cut_off)
        except BaseException as error:
            os.close(self.descriptor)
            if isinstance(error, BlockingIOError):
                raise MienError(f"{path}: another service writes to this log: give each its own") from error
            raise

    def write(self, event: str, **facts: Any) -> None:
        """Adds a whole line, or none."""
        with self.lock:
            entry = {
                "number": self.head.number + 1,
                "time": self.now().isoformat(timespec="milliseconds"),
                "event": event,
                **facts,
                "previous": self.head.hash,
            }
            entry["hash"] = hash_of(entry)
            line, before = line_of(entry), os.fstat(self.descriptor).st_size
            try:
                if os.write(self.descriptor, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 as if it had been refused whole
                os.fsync(self.descriptor)
            except OSError as error:
                os.ftruncate(self.descriptor, before)
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            self.head = Head(entry["number"], entry["hash"])

    def close(self) -> None:
        """Closes the file, so that another service can write to it."""
        os.close(self.descriptor)


def hash_of(entry: dict[str, Any]) -> str:
    """The hash of an entry, without its field `hash`."""
    content = {name: value for name, value in entry.items() if name != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def line_of(entry: dict[str, Any]) -> bytes:
    """An entry as a line of the log."""
    return (json.dumps(entry) + "\n").encode()


def verify_log(path: Path, *, head: str | None = None, cut_off: bool = False) -> tuple[Head, int]:
    """Checks all lines of a log and returns the last; raises `InvalidFileError` at the first that was changed.

    With `cut_off`, half a line at the end is no error: a power cut leaves one. The second value counts its bytes.
    """
    last, found = Head(0, FIRST), head is None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if cut_off and not line.endswith(b"\n") and START.startswith(line[: len(START)]):
                return last, len(line)
            entry = _entry(path, number, line)
            if entry.get("hash") != hash_of(entry):
                raise InvalidFileError(path, [f"line {number} was changed: its hash differs"])
            if (entry.get("previous"), entry.get("number")) != (last.hash, number):
                raise InvalidFileError(
                    path, [f"line {number} does not follow the line before: lines are missing or new"]
                )
            last = Head(number, entry["hash"])
            found = found or last.hash == head
    if not found:
        raise InvalidFileError(path, [f"no line has the hash {head}: lines were cut off, or all of them made anew"])
    return last, 0


def _entry(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The entry of a line; it must be written exactly as `line_of` writes it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or line != line_of(entry):
        raise InvalidFileError(path, [f"line {number} was changed, or is no line of an audit log"])
    return entry

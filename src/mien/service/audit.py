"""Who asked what and when, in a file that shows when it was changed; nothing of patients is in it.

One JSON object a line. `hash` covers the rest of the line, `previous` is the hash of the line before: whoever changes,
drops or inserts a line breaks the chain. Cutting lines off at the end does not: so note the last hash elsewhere, and
`mien audit verify --head HASH` says whether that line is still there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mien.core.errors import InvalidFileError, MienError

FIRST = "0" * 64  # what stands before the first line
OWN = ("number", "time", "previous", "hash")


class Head(NamedTuple):
    """The last line of a log."""

    number: int
    hash: str


class AuditLog:
    """A log that is open for writing; every line is on the disk before `write` returns."""

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.now = now
        self.lock = threading.Lock()
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self.descriptor)
            raise MienError(f"{path}: another service writes to this log: give each its own") from error
        try:
            cut_off = mended(path, self.descriptor)
            self.head = verified(path)
        except BaseException:
            os.close(self.descriptor)
            raise
        if cut_off:
            self.write("mended", bytes_cut_off=cut_off)

    def write(self, event: str, **facts: Any) -> None:
        """Adds a line."""
        with self.lock:
            entry = {
                "number": self.head.number + 1,
                "time": self.now().isoformat(timespec="milliseconds"),
                "event": event,
                **facts,
                "previous": self.head.hash,
            }
            entry["hash"] = hash_of(entry)
            os.write(self.descriptor, (json.dumps(entry) + "\n").encode())
            os.fsync(self.descriptor)
            self.head = Head(entry["number"], entry["hash"])

    def close(self) -> None:
        """Lets another service have the file."""
        os.close(self.descriptor)


def hash_of(entry: dict[str, Any]) -> str:
    """The hash of a line, its own hash left out."""
    content = {name: value for name, value in entry.items() if name != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def mended(path: Path, descriptor: int) -> int:
    """Takes away the half line that a power cut left at the end; returns its bytes."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.ftruncate(descriptor, whole)
    return len(content) - whole


def verified(path: Path, *, head: str | None = None) -> Head:
    """The last line of a log in which no line was changed; raises `InvalidFileError` at the first that was."""
    last, found = Head(0, FIRST), head is None
    for number, entry in _entries(path):
        if entry.get("hash") != hash_of(entry):
            raise InvalidFileError(path, [f"line {number} was changed: its hash differs"])
        if (entry.get("previous"), entry.get("number")) != (last.hash, number):
            raise InvalidFileError(path, [f"line {number} does not follow the line before: lines are missing or new"])
        last = Head(number, entry["hash"])
        found = found or last.hash == head
    if not found:
        raise InvalidFileError(path, [f"no line has the hash {head}: lines were cut off, or all of them made anew"])
    return last


def _entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise InvalidFileError(path, [f"line {number} was changed: it is not JSON"]) from error
            if not isinstance(entry, dict) or not line.endswith(b"\n"):
                raise InvalidFileError(path, [f"line {number} was changed: it is cut off, or no object"])
            yield number, entry

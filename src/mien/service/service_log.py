"""The service's log: a JSON object per line on stderr, about requests and errors, never about patients.

A line tells when, what, which route and who asked. It has no ids, no names of files and nothing of a query; and no
messages of errors, which may quote such values. Lines about no person are limited per minute, each kind for itself:
a stranger's requests cannot keep an error out.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LINES_PER_MINUTE = 60  # of each kind that are about no person: at most 15 MB a day
KIND = ("event", "error", "todo", "message")  # facts that are constants: there are few kinds
LOGGER = logging.getLogger("mien.service")
CONSTANT_MESSAGES = ("mien", "uvicorn")  # loggers whose messages, without their values, are constants


class LogLines(logging.Handler):
    """Writes records of all loggers as lines."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.now = now
        self.minute, self.left_out = 0, 0
        self.written: Counter[tuple[Any, ...]] = Counter()  # lines of this minute, by kind

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record, if it is about a person or there is room for its kind in this minute."""
        facts: dict[str, Any] = getattr(record, "facts", None) or facts_of_record(record)
        if facts.get("person") is None and not self._has_room(record, facts):
            return
        self._write(record, facts)

    def _has_room(self, record: logging.LogRecord, facts: dict[str, Any]) -> bool:
        minute = int(self.now() // 60)
        if minute != self.minute:
            left_out = self.left_out
            self.minute, self.left_out = minute, 0
            self.written.clear()
            if left_out:
                self._write(record, {"event": "lines left out", "lines": left_out})
        kind = tuple(facts.get(name) for name in KIND)
        self.written[kind] += 1
        has_room = self.written[kind] <= LINES_PER_MINUTE
        self.left_out += not has_room
        return has_room

    def _write(self, record: logging.LogRecord, facts: dict[str, Any]) -> None:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "level": record.levelname.lower(), **facts}
        try:
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()
        except OSError:  # a full disk must not keep anybody from an answer
            pass


def facts_of_record(record: logging.LogRecord) -> dict[str, Any]:
    """What a line tells of a record that the service did not write itself: no values, they may be a patient's."""
    facts: dict[str, Any] = {"event": record.name, "places": [f"{record.module}:{record.lineno}"]}
    if record.name.startswith(CONSTANT_MESSAGES):
        facts["message"] = str(record.msg).strip()
    if record.exc_info and record.exc_info[1]:
        facts["error"] = type(record.exc_info[1]).__name__
    return facts


@contextmanager
def service_log(level: int = logging.INFO) -> Iterator[None]:
    """Inside, all loggers write to the service's log."""
    handler = LogLines()
    LOGGER.setLevel(level)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def log_event(event: str, *, level: int = logging.INFO, **facts: Any) -> None:
    LOGGER.log(level, event, extra={"facts": {"event": event, **facts}})


def log_error(error: Exception, todo: str) -> None:
    """Writes a line about an error: its kind, its places in the code, and the command that says more."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-8:]]
    reason = {"reason": error.strerror} if isinstance(error, OSError) else {}
    log_event("error", level=logging.ERROR, error=type(error).__name__, **reason, todo=todo, places=places)

"""How files are written: nothing is replaced in silence, nothing through a link, and what holds patients is private."""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mien.core.errors import MienError

TEMPORARY = ".new"


def refuse_existing(path: Path, *, force: bool = False) -> None:
    """Refuses an output whose name is taken, by a link that leads nowhere too; an empty folder is free."""
    try:
        path.lstat()
    except FileNotFoundError:
        return
    if not force and not (path.is_dir() and not any(path.iterdir())):
        raise MienError(f"{path} exists already: choose another name, or write over it with --force")


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A file that only its owner can read. It gets its name when it is whole and on the disk; no link is followed."""
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)  # of a killed process
    try:
        with os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Puts names that were given or taken on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_unlinked(path: Path) -> BinaryIO:
    """Opens a file to read it; `ValueError` where it is a link."""
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path.name} is a link") from error
        raise


def write_checked_json(path: Path, content: Mapping[str, Any]) -> None:
    """JSON after a line with its checksum."""
    text = json.dumps(content).encode()
    with private_file(path) as file:
        file.write(b"%08x\n" % zlib.crc32(text) + text)


def read_checked_json(path: Path) -> dict[str, Any]:
    """The content; `ValueError` where a byte of it has changed."""
    with open_unlinked(path) as file:
        checksum, _, text = file.read().partition(b"\n")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError(f"{path.name} does not match its checksum")
    content: dict[str, Any] = json.loads(text)
    return content

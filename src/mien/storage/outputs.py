"""How files are written: nothing is replaced in silence, nothing through a link, and what holds patients is private."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import BinaryIO

from mien.errors import MienError

TEMPORARY = ".new"


def refuse_existing(path: Path, *, force: bool = False) -> None:
    """Refuses an output that exists, even as a link that leads nowhere. An empty folder is accepted."""
    try:
        path.lstat()
    except FileNotFoundError:
        return
    if not force and not (path.is_dir() and not any(path.iterdir())):
        raise MienError(f"{path} exists already: choose another name, or write over it with --force")


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """Makes a file that only its owner can read. It gets its name when it is whole and on the disk; follows no link."""
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


@contextmanager
def private_folder(path: Path, holds: Sequence[str]) -> Iterator[Path]:
    """Makes a folder that only its owner can read. It gets its name when it is whole.

    The name must be free, or that of an empty folder. What a killed process left under the temporary name is deleted
    first, if the names of all its files match the patterns in `holds`.
    """
    path = path.absolute()
    temporary = path.with_name(path.name + TEMPORARY)
    if path.is_symlink() or path.is_mount() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise MienError(f"{path} is taken: give a new name, not that of something that is there")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _lock_folder(temporary, descriptor)
        _delete_files(temporary, holds)
        try:
            yield temporary
            os.fsync(descriptor)
            temporary.rename(path)
        except BaseException:
            _delete_files(temporary, holds)
            temporary.rmdir()
            raise
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


def _lock_folder(folder: Path, descriptor: int) -> None:
    """Locks a folder for this process, until the descriptor is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = os.path.samestat(folder.lstat(), os.fstat(descriptor))  # it may have got its name meanwhile
    except OSError:
        ours = False
    if not ours:
        raise MienError(f"{folder}: another process is writing there: wait for it")
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise MienError(f"{folder} belongs to somebody else: delete it, or give another name")
    os.fchmod(descriptor, 0o700)


def _delete_files(folder: Path, holds: Sequence[str]) -> None:
    files = list(folder.iterdir())
    if other := [file for file in files if file.is_dir() or not any(fnmatch(file.name, name) for name in holds)]:
        raise MienError(f"{other[0]} is in the way: move it")
    for file in files:
        file.unlink()


def sync_directory(directory: Path) -> None:
    """Writes to the disk which names a directory holds now."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Backups of a gallery. A backup is a gallery without its index: SQLite copies one state of the database in one step.

So a backup can be verified, exported and opened like any gallery, and restoring is copying it back.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from mien.core.errors import CorruptGalleryError, GalleryError
from mien.storage.changes import finish, prepare, restore_index
from mien.storage.database import DATABASE, FINISHED, State, connection, snapshot, state
from mien.storage.index_files import delete_index
from mien.storage.outputs import sync_directory
from mien.storage.verification import problems_of_database


@dataclass(frozen=True)
class Copied:
    """What was copied."""

    generation: int
    images: int
    patients: int
    fingerprint: str
    patients_brought_back: tuple[str, ...] | None  # ids: in the backup, not in the gallery that it replaced, if known


def back_up(directory: Path, out: Path, *, force: bool = False) -> Copied:
    """Copies a gallery, also while others change it; `force` replaces an older backup.

    Killed at any moment, `out` is what it was before, empty, or whole; done again, it is finished.
    """
    if out.resolve().is_relative_to(directory.resolve()):
        raise GalleryError(f"{out} lies inside the gallery {directory}: choose another place")
    with connection(directory) as source, snapshot(source):
        if found := list(problems_of_database(source, directory)):
            raise CorruptGalleryError(f"{directory}: nothing was copied, because of this: {found[0]}")
        prepare(out)
        replaced = _replaced_patients(out, state(source), force=force)
        with connection(out, write=True, create=True) as copy:
            # without this record no generation is missing: neither in what is there now, nor in the copy
            (out / FINISHED).unlink(missing_ok=True)
            sync_directory(out)
            source.backup(copy)  # one transaction of the copy's
            now, patients = state(copy), _patients(copy)
            delete_index(out, now.generation)  # of what was there before
            finish(copy, out)
            if found := list(problems_of_database(copy, out)):
                raise CorruptGalleryError(f"{out}: the copy is damaged, do not use it: {found[0]}")
    back = None if replaced is None else tuple(sorted(patients - replaced))
    return Copied(now.generation, now.images, len(patients), now.fingerprint, back)


def restore(backup: Path, directory: Path, *, force: bool = False) -> Copied:
    """Makes a gallery of a backup; with `force` in the place of another, even of a damaged one."""
    copied = back_up(backup, directory, force=force)
    restore_index(directory)
    return copied


def _replaced_patients(directory: Path, copied: State, *, force: bool) -> set[str] | None:
    """Who is in the gallery that will be replaced; None: there is none, or it cannot be read."""
    try:
        with connection(directory, write=True, create=True) as database:
            now, patients = state(database), _patients(database)
    except CorruptGalleryError:
        if not force:
            raise
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
            (directory / name).unlink(missing_ok=True)
        return None
    only_begun_or_the_same = not now.generation or now.fingerprint == copied.fingerprint
    if not (force or only_begun_or_the_same):
        raise GalleryError(f"{directory} holds a gallery: choose another directory, or write over it with --force")
    return patients if now.generation else None


def _patients(database: sqlite3.Connection) -> set[str]:
    return {str(patient_id) for (patient_id,) in database.execute("SELECT patient_id FROM patient")}

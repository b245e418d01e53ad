"""Backups of a gallery. A backup is a gallery without its index: SQLite copies one state of the database in one step.

So a backup can be verified, exported and opened like any gallery, and restoring is copying it to a new place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mien.errors import CorruptGalleryError, GalleryError
from mien.storage.changes import finish, restore_index
from mien.storage.database import connection, snapshot, state
from mien.storage.outputs import private_folder
from mien.storage.verification import problems_of_database

FILES = ("gallery.*", "index-*")  # all that lies in a gallery


@dataclass(frozen=True)
class Copied:
    """What was copied."""

    generation: int
    images: int
    patients: int
    fingerprint: str


def back_up(directory: Path, out: Path) -> Copied:
    """Copies a gallery into a new directory, also while others change it: `out` is whole or not there."""
    return _copy(directory, out, with_index=False)


def restore(backup: Path, directory: Path) -> Copied:
    """Makes a new gallery of a backup."""
    return _copy(backup, directory, with_index=True)


def _copy(directory: Path, out: Path, *, with_index: bool) -> Copied:
    if out.resolve().is_relative_to(directory.resolve()):
        raise GalleryError(f"{out} lies inside the gallery {directory}: choose another place")
    with connection(directory) as source, snapshot(source):
        if found := list(problems_of_database(source, directory)):
            raise CorruptGalleryError(f"{directory}: nothing was copied, because of this: {found[0]}")
        with private_folder(out, FILES) as folder:
            with connection(folder, write=True, create=True) as copy:
                source.backup(copy)
                finish(copy, folder)
                if found := list(problems_of_database(copy, folder)):
                    raise CorruptGalleryError(f"{out}: the copy was damaged and is deleted, try again: {found[0]}")
                now = state(copy)
                patients = copy.execute("SELECT count(*) FROM patient").fetchone()[0]
            if with_index:
                restore_index(folder)
    return Copied(now.generation, now.images, patients, now.fingerprint)

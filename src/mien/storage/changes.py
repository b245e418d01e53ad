"""Everything that changes a gallery: one transaction each, the new index written before it commits."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mien.answers.genes import Description
from mien.core.cohort import Cohort
from mien.errors import CorruptGalleryError, GalleryBusyError, GalleryError, shown
from mien.storage.cohort_reader import embedding_reader, read_roster
from mien.storage.cohort_writer import CohortWriter
from mien.storage.database import (
    DATABASE,
    DESCRIBED,
    FINISHED,
    LEARNED,
    connection,
    fingerprint,
    newest_state,
    state,
    transaction,
    write_state,
)
from mien.storage.descriptions import document_of
from mien.storage.faces import faces_erased_along, write_faces
from mien.storage.index_files import (
    delete_index,
    delete_other_indexes,
    is_written,
    read_index,
    write_checked_json,
    write_index,
)


@dataclass(frozen=True)
class Change:
    """What an import did."""

    generation: int
    images_added: int
    images_unchanged: int
    labels_added: int  # to images that were there: a patient turned out to have a second disorder
    disorders_renamed: tuple[str, ...]  # ids


def import_cohort(
    directory: Path,
    cohort: Cohort,
    *,
    exactly: bool,
    faces: Mapping[str, bytes] | None = None,
    composite_patients: int | None = None,
) -> Change:
    """Stores a cohort, and faces of its images to keep, all of it or nothing.

    `exactly`: the gallery may hold nothing else, and is made if need be.
    """
    if exactly:
        prepare(directory)
    with connection(directory, create=exactly, write=True) as database:
        with _change(database, directory):
            newest_state(database, directory)
            read_roster(database)  # a new fingerprint must not hide that rows are missing
            encoder_changed = _fix_encoder(database, directory, cohort)
            writer = CohortWriter(database, cohort)
            writer.write(exactly=exactly)
            if faces is not None:
                write_faces(database, faces, composite_patients)
            if writer.changed or encoder_changed:
                _next_generation(database, directory)
            elif not is_written(directory, state(database).generation):
                _write_index(database, directory)
            change = Change(
                generation=state(database).generation,
                images_added=writer.images_added,
                images_unchanged=writer.images_unchanged,
                labels_added=writer.labels_added,
                disorders_renamed=tuple(writer.disorders_renamed),
            )
        finish(database, directory)
        if state(database).erasing:
            _erase(database, directory)
        return change


def remove_patients(directory: Path, patient_ids: Iterable[str]) -> int:
    """Deletes patients, then their bytes; returns the new generation."""
    with connection(directory, write=True) as database:
        try:
            newest_state(database, directory)
        except CorruptGalleryError as error:  # no damage keeps anybody in the gallery
            logging.getLogger(__name__).warning("%s", error)
        interrupted = state(database).erasing
        if interrupted:
            _erase(database, directory)
        with _change(database, directory):
            keys = []
            for patient_id in dict.fromkeys(patient_ids):
                row = database.execute("SELECT patient_key FROM patient WHERE patient_id = ?", [patient_id]).fetchone()
                if row is None:
                    finished = "; an interrupted removal was finished just now" if interrupted else ""
                    raise GalleryError(
                        f"{directory}: no patient {shown(patient_id)} here, nobody was removed{finished}"
                    )
                keys.append(row)
            with faces_erased_along(database):
                database.executemany("DELETE FROM patient WHERE patient_key = ?", keys)
            database.execute("DELETE FROM disorder WHERE disorder_key NOT IN (SELECT disorder_key FROM label)")
            database.execute(LEARNED)
            database.execute("DELETE FROM learned")
            write_state(database, erasing=True)
            with suppress(CorruptGalleryError):  # as above
                _next_generation(database, directory)
            generation = state(database).generation
        _erase(database, directory)
        return generation


def describe(directory: Path, descriptions: Iterable[Description]) -> int:
    """Stores what is known of disorders, in the place of all that was known; returns the generation."""
    with connection(directory, write=True) as database:
        with _change(database, directory):
            document = document_of(descriptions)
            if document != newest_state(database, directory).described:
                database.execute(DESCRIBED)
                database.execute("INSERT OR REPLACE INTO described VALUES (1, ?, ?)", document)
                read_roster(database)  # a new fingerprint must not hide that rows are missing
                _next_generation(database, directory)
            generation = state(database).generation
        finish(database, directory)
        return generation


def restore_index(directory: Path) -> None:
    """Writes the index of the present generation where it is missing or damaged; upgrades an older gallery."""
    with connection(directory, write=True) as database:
        with _change(database, directory):
            write_state(database)
            now = newest_state(database, directory)
            try:
                read_index(directory, now.generation, now.fingerprint, check_all=True)
            except (FileNotFoundError, CorruptGalleryError):
                _write_index(database, directory)
        finish(database, directory)


def prepare(directory: Path) -> None:
    """Makes a directory for a gallery; one that holds anything else is refused."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # faces and diagnoses are for their keeper only
        found = [path.name for path in directory.iterdir()]
    except OSError as error:
        raise GalleryError(f"{directory}: {error.strerror}: choose a directory that you may write to") from error
    if found and DATABASE not in found:
        raise GalleryError(f"{directory} is not empty and holds no gallery: choose another directory")


def _fix_encoder(database: sqlite3.Connection, directory: Path, cohort: Cohort) -> bool:
    """Fixes what becomes known of the gallery's encoder; what is known already must be the same."""
    stored, brought = state(database).encoder, cohort.encodings.encoder
    if stored is not None:
        brought.require_same(stored, here="the import", there=f"the gallery {directory}")
    known = brought if stored is None else stored.completed_by(brought)
    write_state(database, encoder=known)
    return known != stored


@contextmanager
def _change(database: sqlite3.Connection, directory: Path) -> Iterator[None]:
    """A transaction; where it fails, the index that it may have written goes too."""
    begun = False
    try:
        with transaction(database):
            begun = True
            yield
    except BaseException:
        if begun:
            with suppress(sqlite3.Error, OSError):
                finish(database, directory)
        raise


def finish(database: sqlite3.Connection, directory: Path) -> None:
    """Deletes other indexes, and writes beside the database which generation is finished; never an older one."""
    with transaction(database):  # under the lock nobody else writes an index: all other files are left-overs
        now = state(database)
        delete_other_indexes(directory, keep=now.generation)
        with suppress(CorruptGalleryError):
            newest_state(database, directory)
            write_checked_json(directory / FINISHED, {"generation": now.generation, "fingerprint": now.fingerprint})


def _next_generation(database: sqlite3.Connection, directory: Path) -> None:
    """Counts the change and writes its index: readers find it the moment the transaction commits."""
    write_state(database, generation=state(database).generation + 1, fingerprint=fingerprint(database))
    _write_index(database, directory)


def _write_index(database: sqlite3.Connection, directory: Path) -> None:
    now, roster = state(database), read_roster(database)
    delete_index(directory, now.generation)  # of another version, damaged, or of a change that was killed
    if now.encoder is not None and now.images:
        read = embedding_reader(database, roster, now.encoder)
        write_index(directory, now.generation, now.fingerprint, roster, now.encoder, read)


def _erase(database: sqlite3.Connection, directory: Path) -> None:
    """Removes the last bytes of removed patients from all files: older indexes, database pages, the log."""
    try:
        generation = state(database).generation
        finish(database, directory)
        # secure_delete zeroes what it deletes, but pages that were split or joined before may hold older copies
        database.execute("VACUUM")
        if database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise GalleryBusyError(
                f"{directory}: removed, but another process reads the old log:"
                " repeat the removal to erase the last bytes"
            )
        # whoever removed somebody else meanwhile erases again
        with transaction(database):
            if state(database).generation == generation:
                write_state(database, erasing=False)
    except (sqlite3.Error, OSError) as error:
        raise GalleryError(
            f"{directory}: removed, but the last bytes could not be erased ({error}): repeat the removal"
        ) from error

"""Everything that changes a gallery: one transaction each, the new index written before it commits."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mien.core.cohort import Cohort
from mien.core.errors import LISTED_PROBLEMS, GalleryBusyError, GalleryError, InvalidCohortError, shown
from mien.core.roster import Disorder
from mien.storage.database import (
    DATABASE,
    checksum_of_disorder,
    checksum_of_image,
    connection,
    read_embeddings,
    read_roster,
    state,
    transaction,
)
from mien.storage.index_files import is_written, sweep, write_index


@dataclass(frozen=True)
class Change:
    """What an import did."""

    generation: int
    images_added: int
    images_unchanged: int
    labels_added: int  # to images that were there: a patient turned out to have a second disorder
    disorders_renamed: tuple[str, ...]  # ids


def import_cohort(directory: Path, cohort: Cohort, *, exactly: bool) -> Change:
    """Stores a cohort, all of it or nothing. `exactly`: the gallery may hold nothing else, and is made if need be."""
    if exactly:
        _prepare(directory)
    with connection(directory, create=exactly, write=True) as database:
        with _change(database, directory):
            now = state(database)
            if now.encoder is None:
                database.execute("UPDATE gallery SET encoder = ?", [json.dumps(cohort.encodings.encoder.as_dict())])
            else:
                cohort.encodings.encoder.require_same(now.encoder, here="the import", there=f"the gallery {directory}")
            writer = _CohortWriter(database, cohort)
            writer.write(exactly=exactly)
            if writer.changed:
                _next_generation(database, directory)
            elif not is_written(directory, now.generation):
                _write_index(database, directory)
        _tidy(database, directory)
        return Change(
            generation=state(database).generation,
            images_added=writer.images_added,
            images_unchanged=writer.images_unchanged,
            labels_added=writer.labels_added,
            disorders_renamed=tuple(writer.disorders_renamed),
        )


def remove_patients(directory: Path, patient_ids: Iterable[str]) -> int:
    """Deletes patients, then their bytes: the pages they stood on, the log, and the older index."""
    with connection(directory, write=True) as database:
        with _change(database, directory):
            interrupted = state(database).erasing
            present = []
            for patient_id in dict.fromkeys(patient_ids):
                row = database.execute("SELECT patient_key FROM patient WHERE patient_id = ?", [patient_id]).fetchone()
                if row is not None:
                    present.append(row)
                elif not interrupted:  # a removal that was cut short is repeated to finish it
                    raise GalleryError(f"{directory}: no patient {shown(patient_id)} here; nothing was removed")
            if present:
                database.executemany("DELETE FROM patient WHERE patient_key = ?", present)
                database.execute("DELETE FROM disorder WHERE disorder_key NOT IN (SELECT disorder_key FROM label)")
                database.execute("UPDATE gallery SET erasing = 1")
                _next_generation(database, directory)
        _tidy(database, directory)
        return state(database).generation


def restore_index(directory: Path) -> None:
    """Writes the index of the present generation where it is missing."""
    with connection(directory, write=True) as database, transaction(database):
        if not is_written(directory, state(database).generation):
            _write_index(database, directory)


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        found = [path.name for path in directory.iterdir()]
    except OSError as error:
        raise GalleryError(f"{directory}: {error.strerror}: choose a directory that you may write to") from error
    if found and DATABASE not in found:
        raise GalleryError(f"{directory} is not empty and holds no gallery: choose another directory")


@contextmanager
def _change(database: sqlite3.Connection, directory: Path) -> Iterator[None]:
    """A transaction; where it fails, the index that it may have written goes too."""
    try:
        with transaction(database):
            yield
    except BaseException:
        with suppress(sqlite3.Error, OSError):
            _sweep(database, directory)
        raise


def _sweep(database: sqlite3.Connection, directory: Path) -> None:
    with transaction(database):  # under the lock nobody else writes an index: all other files are left-overs
        sweep(directory, keep=state(database).generation)


def _next_generation(database: sqlite3.Connection, directory: Path) -> None:
    """Counts the change and writes its index: readers find it the moment the transaction commits."""
    database.execute("UPDATE gallery SET generation = generation + 1")
    _write_index(database, directory)


def _write_index(database: sqlite3.Connection, directory: Path) -> None:
    now, roster = state(database), read_roster(database)
    if now.encoder is not None and roster.image_ids:
        encoder = now.encoder
        write_index(
            directory,
            now.generation,
            roster,
            encoder,
            lambda images: read_embeddings(database, roster, encoder, images),
        )


def _tidy(database: sqlite3.Connection, directory: Path) -> None:
    """Deletes older indexes; after a removal, rewrites the database and empties its log."""
    erasing = state(database).erasing
    if erasing:
        # secure_delete zeroes what it deletes, but pages that were split or joined before may hold older copies
        database.execute("VACUUM")
    _sweep(database, directory)
    if erasing:
        busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise GalleryBusyError(
                f"{directory}: the patient is removed, but another process reads the old log:"
                " repeat the removal to erase the last bytes"
            )
        database.execute("UPDATE gallery SET erasing = 0")


class _CohortWriter:
    """Compares a cohort with what is stored, and stores what is new."""

    def __init__(self, database: sqlite3.Connection, cohort: Cohort) -> None:
        self.database = database
        self.cohort = cohort
        self.images_added = self.images_unchanged = self.labels_added = 0
        self.disorders_named = 0
        self.disorders_renamed: list[str] = []
        self.problems: list[str] = []

    @property
    def changed(self) -> bool:
        return bool(self.images_added or self.labels_added or self.disorders_named)

    def write(self, *, exactly: bool) -> None:
        roster, embeddings = self.cohort.roster, self.cohort.embeddings
        stored = self._stored_images()
        if exactly:
            self._refuse_others(stored)
        key_of_disorder = self._write_disorders()
        key_of_patient = dict(self.database.execute("SELECT patient_id, patient_key FROM patient").fetchall())
        for image, image_id in enumerate(roster.image_ids):
            patient_id = roster.patient_ids[roster.patient_of_image[image]]
            disorder_ids = [roster.disorders[disorder].disorder_id for disorder in roster.disorders_of_image[image]]
            embedding = embeddings[image].astype("<f4").tobytes()
            if image_id not in stored:
                if patient_id not in key_of_patient:
                    key_of_patient[patient_id] = self._insert("patient (patient_id)", patient_id)
                checksum = checksum_of_image(image_id, patient_id, disorder_ids, embedding)
                columns = "image (image_id, patient_key, checksum, embedding)"
                image_key = self._insert(columns, image_id, key_of_patient[patient_id], checksum, embedding)
                self.images_added += 1
                new_disorder_ids = disorder_ids
            else:
                image_key, stored_patient_id, stored_checksum, stored_disorder_ids = stored[image_id]
                new_disorder_ids = [this for this in disorder_ids if this not in stored_disorder_ids]
                same = checksum_of_image(image_id, patient_id, stored_disorder_ids, embedding) == stored_checksum
                if patient_id != stored_patient_id:
                    self.problems.append(
                        f"image {shown(image_id)} belongs to patient {shown(stored_patient_id)} in the gallery and to"
                        f" {shown(patient_id)} here: an image shows one person"
                    )
                elif not same:
                    self.problems.append(
                        f"image {shown(image_id)} is in the gallery with another embedding:"
                        " remove its patient first, or give the new image another id"
                    )
                elif new_disorder_ids:
                    all_ids = [*stored_disorder_ids, *new_disorder_ids]
                    checksum = checksum_of_image(image_id, patient_id, all_ids, embedding)
                    self.database.execute("UPDATE image SET checksum = ? WHERE image_key = ?", [checksum, image_key])
                    self.labels_added += len(new_disorder_ids)
                else:
                    self.images_unchanged += 1
            self.database.executemany(
                "INSERT INTO label VALUES (?, ?)", [(key_of_disorder[this], image_key) for this in new_disorder_ids]
            )
        if self.problems:
            raise InvalidCohortError(
                "\n".join(["the import contradicts the gallery:", *self.problems[:LISTED_PROBLEMS]])
            )

    def _insert(self, table_and_columns: str, *values: object) -> int:
        places = ", ".join("?" * len(values))
        key = self.database.execute(f"INSERT INTO {table_and_columns} VALUES ({places})", values).lastrowid  # noqa: S608
        assert key is not None
        return key

    def _stored_images(self) -> dict[str, tuple[int, str, bytes, list[str]]]:
        labels: dict[int, list[str]] = {}
        for image_key, disorder_id in self.database.execute(
            "SELECT image_key, disorder_id FROM label JOIN disorder USING (disorder_key)"
        ):
            labels.setdefault(image_key, []).append(disorder_id)
        rows = self.database.execute(
            "SELECT image_id, image_key, patient_id, checksum FROM image JOIN patient USING (patient_key)"
        )
        return {image_id: (key, patient, checksum, labels[key]) for image_id, key, patient, checksum in rows}

    def _refuse_others(self, stored: dict[str, tuple[int, str, bytes, list[str]]]) -> None:
        others = stored.keys() - self.cohort.roster.image_of_id
        if others:
            raise GalleryError(
                f"the gallery already holds {len(others)} other images, {shown(min(others))} among them:"
                " use 'mien gallery add' to extend it, or build in another directory"
            )

    def _write_disorders(self) -> dict[str, int]:
        rows = self.database.execute("SELECT disorder_id, name, omim, disorder_key FROM disorder")
        stored = {row[0]: (Disorder(*row[:3]), row[3]) for row in rows}
        key_of: dict[str, int] = {}
        for wanted in self.cohort.roster.disorders:
            if wanted.disorder_id not in stored:
                values = (wanted.disorder_id, wanted.name, wanted.omim, checksum_of_disorder(wanted))
                key_of[wanted.disorder_id] = self._insert("disorder (disorder_id, name, omim, checksum)", *values)
                continue
            known, key_of[wanted.disorder_id] = stored[wanted.disorder_id]
            named = Disorder(wanted.disorder_id, wanted.name or known.name, wanted.omim or known.omim)
            if named != known:
                self.database.execute(
                    "UPDATE disorder SET name = ?, omim = ?, checksum = ? WHERE disorder_key = ?",
                    [named.name, named.omim, checksum_of_disorder(named), key_of[wanted.disorder_id]],
                )
                self.disorders_named += 1
                if known.name not in (None, named.name):
                    self.disorders_renamed.append(wanted.disorder_id)
        return key_of

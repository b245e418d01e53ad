"""Compares a cohort with what a gallery holds, and stores what is new."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from mien.core.cohort import Cohort
from mien.core.roster import Disorder
from mien.errors import LISTED_PROBLEMS, GalleryError, InvalidCohortError, shown
from mien.storage.cohort_reader import checksum_of_disorder, checksum_of_image


class StoredImage(NamedTuple):
    """What the gallery holds of an image, without its embedding."""

    image_key: int
    patient_id: str
    checksum: bytes
    disorder_ids: list[str]


class CohortWriter:
    """Writes inside the caller's transaction, and counts what it did."""

    def __init__(self, database: sqlite3.Connection, cohort: Cohort) -> None:
        self.database = database
        self.cohort = cohort
        self.images_added = self.images_unchanged = self.labels_added = 0
        self.disorders_named = 0
        self.disorders_renamed: list[str] = []
        self.problems: list[str] = []

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return bool(self.images_added or self.labels_added or self.disorders_named)

    def write(self, *, exactly: bool) -> None:
        """Writes the whole cohort, or raises with everything that contradicts the gallery."""
        roster = self.cohort.roster
        stored = self._stored_images()
        if exactly:
            self._refuse_others(stored)
        self.key_of_disorder = self._write_disorders()
        self.key_of_patient = dict(self.database.execute("SELECT patient_id, patient_key FROM patient").fetchall())
        for image, image_id in enumerate(roster.image_ids):
            patient_id = roster.patient_ids[roster.patient_of_image[image]]
            disorder_ids = roster.disorder_ids_of_image[image]
            embedding = self.cohort.embeddings[image].astype("<f4").tobytes()
            if image_id in stored:
                self._compare(stored[image_id], image_id, patient_id, disorder_ids, embedding)
            else:
                self._add(image_id, patient_id, disorder_ids, embedding)
        if self.problems:
            lines = ["the import contradicts the gallery:", *self.problems[:LISTED_PROBLEMS]]
            raise InvalidCohortError("\n".join(lines))

    def _add(self, image_id: str, patient_id: str, disorder_ids: list[str], embedding: bytes) -> None:
        if patient_id not in self.key_of_patient:
            self.key_of_patient[patient_id] = self._insert("patient (patient_id)", patient_id)
        checksum = checksum_of_image(image_id, patient_id, disorder_ids, embedding)
        columns = "image (image_id, patient_key, checksum, embedding)"
        image_key = self._insert(columns, image_id, self.key_of_patient[patient_id], checksum, embedding)
        self._label(image_key, disorder_ids)
        self.images_added += 1

    def _compare(
        self, stored: StoredImage, image_id: str, patient_id: str, disorder_ids: list[str], embedding: bytes
    ) -> None:
        """The stored image must be the same; it may get a further disorder."""
        further = [disorder_id for disorder_id in disorder_ids if disorder_id not in stored.disorder_ids]
        if patient_id != stored.patient_id:
            self.problems.append(
                f"image {shown(image_id)} belongs to patient {shown(stored.patient_id)} in the gallery and to"
                f" {shown(patient_id)} here: an image shows one person"
            )
        elif checksum_of_image(image_id, patient_id, stored.disorder_ids, embedding) != stored.checksum:
            self.problems.append(
                f"image {shown(image_id)} is in the gallery with another embedding:"
                " remove its patient first, or give the new image another id"
            )
        elif further:
            checksum = checksum_of_image(image_id, patient_id, [*stored.disorder_ids, *further], embedding)
            self.database.execute("UPDATE image SET checksum = ? WHERE image_key = ?", [checksum, stored.image_key])
            self._label(stored.image_key, further)
            self.labels_added += len(further)
        else:
            self.images_unchanged += 1

    def _label(self, image_key: int, disorder_ids: list[str]) -> None:
        rows = [(self.key_of_disorder[disorder_id], image_key) for disorder_id in disorder_ids]
        self.database.executemany("INSERT INTO label VALUES (?, ?)", rows)

    def _insert(self, table_and_columns: str, *values: object) -> int:
        places = ", ".join("?" * len(values))
        key = self.database.execute(f"INSERT INTO {table_and_columns} VALUES ({places})", values).lastrowid  # noqa: S608
        assert key is not None
        return key

    def _stored_images(self) -> dict[str, StoredImage]:
        disorder_ids: dict[int, list[str]] = {}
        for image_key, disorder_id in self.database.execute(
            "SELECT image_key, disorder_id FROM label JOIN disorder USING (disorder_key)"
        ):
            disorder_ids.setdefault(image_key, []).append(str(disorder_id))
        rows = self.database.execute(
            "SELECT image_id, image_key, patient_id, checksum FROM image JOIN patient USING (patient_key)"
        )
        return {
            str(image_id): StoredImage(image_key, str(patient_id), checksum, disorder_ids.get(image_key, []))
            for image_id, image_key, patient_id, checksum in rows
        }

    def _refuse_others(self, stored: dict[str, StoredImage]) -> None:
        roster = self.cohort.roster
        others = stored.keys() - roster.image_of_id
        wanted = {(label.image_id, label.disorder_id) for label in roster.labels()}
        others |= {i for i, image in stored.items() for d in image.disorder_ids if (i, d) not in wanted}
        if others:
            raise GalleryError(
                f"the gallery already holds {len(others)} other images or labels, {shown(min(others))} among them:"
                " use 'mien gallery add' to extend it, or build in another directory"
            )

    def _write_disorders(self) -> dict[str, int]:
        rows = self.database.execute("SELECT disorder_id, name, omim, disorder_key FROM disorder")
        stored = {row[0]: (Disorder(*row[:3]), row[3]) for row in rows}
        key_of: dict[str, int] = {}
        for wanted in self.cohort.roster.disorders:
            if wanted.disorder_id not in stored:
                columns = "disorder (disorder_id, name, omim, checksum)"
                key_of[wanted.disorder_id] = self._insert(columns, *wanted, checksum_of_disorder(wanted))
                continue
            known, key = stored[wanted.disorder_id]
            key_of[wanted.disorder_id] = key
            named = Disorder(wanted.disorder_id, wanted.name or known.name, wanted.omim or known.omim)
            if named != known:
                self.database.execute(
                    "UPDATE disorder SET name = ?, omim = ?, checksum = ? WHERE disorder_key = ?",
                    [named.name, named.omim, checksum_of_disorder(named), key],
                )
                self.disorders_named += 1
                if known.name not in {None, named.name}:
                    self.disorders_renamed.append(wanted.disorder_id)
        return key_of

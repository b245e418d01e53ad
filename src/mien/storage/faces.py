"""The faces that a gallery keeps, if its lab wants them, and in which composites they are.

They lie in the database. Neither generation nor fingerprint counts them, because no ranking depends on them: the index
and a calibration stay as they are. They are read anew for every question, so that nothing of them stays in memory.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mien.errors import CorruptGalleryError, GalleryError, shown, shown_ids
from mien.storage.cohort_reader import read_roster
from mien.storage.composites import mean_face, whole_blocks
from mien.storage.database import DATABASE, connection, has_table, newest_state, rows_if_any, snapshot, transaction

COMPOSITE_PATIENTS = 5
FEWEST_COMPOSITE_PATIENTS = 3
SHAPE = (112, 112, 3)
TABLES = """
CREATE TABLE IF NOT EXISTS faces (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  composite_patients INTEGER NOT NULL,        -- of a block, fixed by the first faces
  digest BLOB NOT NULL                        -- of the checksums of all faces
) STRICT;
CREATE TABLE IF NOT EXISTS face (
  image_key INTEGER PRIMARY KEY REFERENCES image ON DELETE CASCADE,
  patient_key INTEGER NOT NULL,               -- the image's
  disorder_key INTEGER REFERENCES disorder,   -- in whose composites it is, with the other patients of its block
  block INTEGER,                              -- never changes; one that has lost a patient is in no composite
  checksum BLOB NOT NULL,                     -- of ids, block and crop together
  crop BLOB NOT NULL                          -- PNG
) STRICT;
CREATE INDEX IF NOT EXISTS face_of_disorder ON face (disorder_key, block, patient_key);
"""
ROWS = (
    "SELECT face.image_key, face.checksum, crop, composite_patients, image_id, patient_id, disorder_id, block"
    " FROM faces JOIN face LEFT JOIN image USING (image_key) LEFT JOIN disorder USING (disorder_key)"
    " LEFT JOIN patient ON patient.patient_key = face.patient_key"
)
WHOLE_BLOCKS = (
    "SELECT disorder_key, block FROM face WHERE block IS NOT NULL GROUP BY disorder_key, block"
    " HAVING count(DISTINCT patient_key) = (SELECT composite_patients FROM faces)"
)
COMPOSED = (
    "SELECT DISTINCT disorder_id FROM face JOIN disorder USING (disorder_key)"  # noqa: S608
    f" WHERE (disorder_key, block) IN ({WHOLE_BLOCKS})"
)


class StoredFace(NamedTuple):
    """A row of the table; a damaged one may hold anything."""

    image_key: int
    checksum: bytes
    crop: bytes
    composite_patients: int
    image_id: str
    patient_id: str
    disorder_id: str | None = None
    block: int | None = None

    @property
    def right_checksum(self) -> bytes:
        """SHA-256 over everything that is stored of a face."""
        return hashlib.sha256(repr(self[2:]).encode()).digest()


@dataclass(frozen=True)
class FacesAdded:
    """What an import of faces did."""

    faces_added: int
    faces_kept: int  # in all
    composites: int  # disorders that have one now


@dataclass(frozen=True)
class Faces:
    """The faces in a gallery's directory, as they are at the moment of each question."""

    directory: Path

    def count(self) -> int:
        """How many there are."""
        [(count,)] = self._rows("SELECT count(*) FROM face") or [(0,)]
        return int(count)

    def composite_patients(self) -> int:
        """How many patients a block has: composites show this many, or a multiple."""
        [(patients,)] = self._rows("SELECT composite_patients FROM faces") or [(COMPOSITE_PATIENTS,)]
        return int(patients)

    def of_images(self, image_ids: Iterable[str]) -> set[str]:
        """Those of the images of which there is a face."""
        question = "SELECT image_id FROM face JOIN image USING (image_key) JOIN json_each(?) ON value = image_id"
        return {image_id for (image_id,) in self._rows(question, json.dumps([*image_ids]))}

    def of_disorders(self, disorder_ids: Iterable[str]) -> set[str]:
        """Those of the disorders of which there is a composite."""
        return {disorder_id for (disorder_id,) in self._rows(COMPOSED)} & set(disorder_ids)

    def crop(self, image_id: str) -> bytes | None:
        """An image's face, as PNG."""
        return next((_checked(row).crop for row in self._rows(f"{ROWS} WHERE image_id = ?", image_id)), None)

    def composite(self, disorder_id: str) -> npt.NDArray[np.uint8] | None:
        """The mean face of a disorder (112, 112, 3): of whole blocks of patients only."""
        rows = self._rows(f"{ROWS} WHERE disorder_id = ? AND (disorder_key, block) IN ({WHOLE_BLOCKS})", disorder_id)
        if not rows:
            return None
        faces = [_checked(row) for row in rows]
        mean = mean_face((_decoded(face.crop) for face in faces), [face.patient_id for face in faces])
        return np.rint(mean).astype(np.uint8)

    def _rows(self, question: str, *values: str) -> list[Any]:
        with connection(self.directory) as database, snapshot(database):
            return rows_if_any(database, "faces", question, values)


def add_faces(directory: Path, crops: Mapping[str, bytes], composite_patients: int | None = None) -> FacesAdded:
    """Keeps faces of a gallery's images (PNG, 112 x 112), all or none; images that have one keep it."""
    with connection(directory, write=True) as database, transaction(database):
        newest_state(database, directory)
        read_roster(database)  # nothing is added to a database that lacks rows
        return write_faces(database, crops, composite_patients)


def write_faces(database: sqlite3.Connection, crops: Mapping[str, bytes], composite_patients: int | None) -> FacesAdded:
    """Writes faces inside the caller's transaction, and makes all blocks that are whole now."""
    for statement in TABLES.split(";\n"):
        database.execute(statement)
    patients = _fixed_patients(database, composite_patients)
    if not _digest_fits(database):
        raise CorruptGalleryError(f"{DATABASE}: faces are missing or were added: run 'mien gallery verify'")
    rows = database.execute(
        "SELECT image_id, image_key, patient_key, patient_id FROM image JOIN patient USING (patient_key)"
    )
    keys_of = {image_id: keys for image_id, *keys in rows}
    if unknown := [image_id for image_id in crops if image_id not in keys_of]:
        raise GalleryError(f"faces of images that the gallery does not hold: {shown_ids(unknown)}")
    there = {key for (key,) in database.execute("SELECT image_key FROM face")}
    new = [image_id for image_id in crops if keys_of[image_id][0] not in there]
    for image_id in new:
        if _decoded(crops[image_id]).shape != SHAPE:
            raise GalleryError(f"the face of image {shown(image_id)} is no PNG of 112 x 112 pixels in colour")
        image_key, patient_key, patient_id = keys_of[image_id]
        face = StoredFace(image_key, b"", crops[image_id], patients, image_id, patient_id)
        values = image_key, patient_key, face.right_checksum, face.crop
        database.execute("INSERT INTO face VALUES (?, ?, NULL, NULL, ?, ?)", values)
    _make_blocks(database, patients)
    _update_digest(database)
    return FacesAdded(len(new), len(there) + len(new), len(database.execute(COMPOSED).fetchall()))


@contextmanager
def faces_erased_along(database: sqlite3.Connection) -> Iterator[None]:
    """Wraps the deletion of patients, which deletes their faces. Faces that were missing before are still reported."""
    fits = has_table(database, "faces") and _digest_fits(database)
    yield
    if fits:
        _update_digest(database)


def face_problems(database: sqlite3.Connection) -> Iterator[str]:
    """A line for each damaged face."""
    if not has_table(database, "faces"):
        return
    for row in database.execute(f"{ROWS} ORDER BY face.image_key"):
        try:
            _checked(row)
        except CorruptGalleryError as problem:
            yield str(problem)
    if not _digest_fits(database):
        yield f"{DATABASE}: faces are missing or were added"


def _fixed_patients(database: sqlite3.Connection, asked: int | None) -> int:
    """How many patients a block has: a block that was shown must never be made again with more or less."""
    row = database.execute("SELECT composite_patients FROM faces").fetchone()
    fixed = COMPOSITE_PATIENTS if row is None else int(row[0])
    patients = fixed if asked is None else asked
    if row is not None and patients != fixed:
        raise GalleryError(f"composites of this gallery go in steps of {fixed} patients: its first faces fixed that")
    if patients < FEWEST_COMPOSITE_PATIENTS:
        raise GalleryError(f"a composite of {patients} patients shows them: give at least {FEWEST_COMPOSITE_PATIENTS}")
    if row is None:
        database.execute("INSERT INTO faces VALUES (1, ?, ?)", [patients, _digest(database)])
    return patients


def _make_blocks(database: sqlite3.Connection, size: int) -> None:
    """Puts patients with faces who are in no block into new blocks. A block keeps the faces that they have now."""
    waiting: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for disorder_id, patient_id, *keys in database.execute(
        "SELECT disorder_id, patient_id, label.disorder_key, face.image_key FROM face JOIN patient USING (patient_key)"
        " JOIN label USING (image_key) JOIN disorder ON disorder.disorder_key = label.disorder_key"
        " WHERE patient_key NOT IN (SELECT patient_key FROM face WHERE block IS NOT NULL)"
    ):
        waiting.setdefault(disorder_id, {}).setdefault(patient_id, []).append((keys[0], keys[1]))
    [(last,)] = database.execute("SELECT coalesce(max(block), 0) FROM face")
    for block, (disorder_id, patient_ids) in enumerate(whole_blocks(waiting, size), start=last + 1):
        for disorder_key, image_key in chain.from_iterable(waiting[disorder_id][each] for each in patient_ids):
            row = database.execute(f"{ROWS} WHERE face.image_key = ?", [image_key]).fetchone()
            face = _checked(row)._replace(disorder_id=disorder_id, block=block)
            values = disorder_key, block, face.right_checksum, image_key
            database.execute("UPDATE face SET disorder_key = ?, block = ?, checksum = ? WHERE image_key = ?", values)


def _decoded(crop: bytes) -> npt.NDArray[np.uint8]:
    from PIL.PngImagePlugin import PngImageFile  # noqa: PLC0415 heavy

    try:
        return np.asarray(PngImageFile(BytesIO(crop)))
    except (SyntaxError, OSError, ValueError):  # Pillow's, for what is no PNG
        return np.empty(0, np.uint8)


def _checked(row: tuple[Any, ...]) -> StoredFace:
    face = StoredFace(*row)
    if face.checksum != face.right_checksum:
        who = f"image {shown(str(face.image_id))}"
        raise CorruptGalleryError(f"{DATABASE}: row {face.image_key} of table face is damaged ({who})")
    return face


def _digest(database: sqlite3.Connection) -> bytes:
    checksums = database.execute("SELECT checksum FROM face ORDER BY image_key")
    return hashlib.sha256(repr(checksums.fetchall()).encode()).digest()


def _digest_fits(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT digest FROM faces").fetchone() == (_digest(database),))


def _update_digest(database: sqlite3.Connection) -> None:
    database.execute("UPDATE faces SET digest = ?", [_digest(database)])

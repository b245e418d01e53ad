"""Keeps the photos that are encoded already in a file, so that an interrupted run can resume where it stopped."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from mien.core.embeddings import Encoder
from mien.encoding.photo_encoder import EncodedPhoto, EncodesPhotos, Photo, Result
from mien.encoding.quality import PhotoFacts
from mien.errors import InvalidFileError, MienError
from mien.progress import Progress
from mien.version import __version__

COMMIT_EVERY = 16  # photos
APPLICATION = 0x6D69656E  # "mien": nobody else's database is touched
SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
CREATE TABLE IF NOT EXISTS encoder (identity TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS photo (
  image_id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, face TEXT NOT NULL, embedding BLOB NOT NULL, facts TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS crop (image_id TEXT PRIMARY KEY, png BLOB NOT NULL) STRICT;
"""


class Journal:
    """The results of an unfinished run. One process at a time uses the file.

    It drops results of another encoder or version. It does not keep refusals: a resumed run tries those photos again.
    """

    def __init__(self, path: Path, encoder: Encoder) -> None:
        self.path, self.encoder = path, encoder
        new = not path.exists() or not path.stat().st_size
        if new:
            os.close(os.open(path, os.O_CREAT | os.O_NOFOLLOW, 0o600))
        self._connection = sqlite3.connect(path, timeout=0)
        identity = json.dumps({"mien": __version__, **encoder.as_dict()})
        with self._translated(), self._connection as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            if not new and connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
                raise sqlite3.DatabaseError("somebody else's database")
            connection.executescript(SCHEMA)
            if connection.execute("SELECT identity FROM encoder").fetchall() != [(identity,)]:
                connection.execute("DELETE FROM photo")
                connection.execute("DELETE FROM crop")
                connection.execute("DELETE FROM encoder")
                connection.execute("INSERT INTO encoder VALUES (?)", [identity])

    def has(self, photo: Photo) -> bool:
        """Whether this photo was encoded and has not changed. With only one face, every choice means that face."""
        with self._translated():
            row = self._connection.execute(
                "SELECT fingerprint, face, facts ->> 'faces', png IS NULL FROM photo LEFT JOIN crop USING (image_id)"
                " WHERE image_id = ?",
                [photo.image_id],
            ).fetchone()
        if row is None or row[0] != photo.fingerprint or (photo.keep_crop and row[3]):
            return False
        return row[1] == str(photo.face) or (row[2] == 1 and photo.face in {None, "main", "official", 1})

    def add(self, photo: Photo, fingerprint: str, result: EncodedPhoto) -> None:
        """Adds a result. The fingerprint is of the photo before it was read. `commit` writes it to the disk."""
        facts = json.dumps(asdict(result.facts))
        values = (photo.image_id, fingerprint, str(photo.face), result.embedding.tobytes(), facts)
        with self._translated():
            self._connection.execute("INSERT OR REPLACE INTO photo VALUES (?, ?, ?, ?, ?)", values)
            self._connection.execute("DELETE FROM crop WHERE image_id = ?", [photo.image_id])  # of an older photo
            if result.crop is not None:
                self._connection.execute("INSERT INTO crop VALUES (?, ?)", [photo.image_id, result.crop])

    def commit(self) -> None:
        """Writes what was added to the disk."""
        with self._translated():
            self._connection.commit()

    def result(self, image_id: str) -> EncodedPhoto:
        """The stored result of a photo."""
        with self._translated():
            embedding, facts, crop = self._connection.execute(
                "SELECT embedding, facts, png FROM photo LEFT JOIN crop USING (image_id) WHERE image_id = ?", [image_id]
            ).fetchone()
        vectors = np.frombuffer(embedding, dtype=np.float32)
        shaped = vectors.reshape(self.encoder.representations, self.encoder.dimensions)
        return EncodedPhoto(image_id, shaped, PhotoFacts.from_dict(json.loads(facts)), crop)

    def close(self) -> None:
        """Closes the file, and does not delete it."""
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._connection.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise MienError(f"{self.path}: another run is at work on this output: wait for it") from error
            if isinstance(error, sqlite3.OperationalError):
                raise MienError(f"{self.path}: it cannot be written ({error}): is the disk full?") from error
            what = f"not the work of a run that was cut off ({error}): take it away, or choose another output"
            raise InvalidFileError(self.path, [what]) from error


def discard(path: Path) -> None:
    """Deletes a journal; a file that is no journal stays."""
    with path.open("rb") as file:
        header = file.read(72)
    if header.startswith(b"SQLite format 3\0") and header[68:] == APPLICATION.to_bytes(4):
        path.unlink()


def encode_into(journal: Journal, encoder: EncodesPhotos, photos: Sequence[Photo], report: Progress) -> list[Result]:
    """Encodes the photos that are not in the journal, and returns the results of all in their order."""
    left = [photo for photo in photos if not journal.has(photo)]
    fingerprints = [photo.fingerprint for photo in left]
    done = len(photos) - len(left)
    refused: dict[str, Result] = {}
    report(done, len(photos))
    for photo, fingerprint, result in zip(left, fingerprints, encoder.encode(left), strict=True):
        if isinstance(result, EncodedPhoto):
            journal.add(photo, fingerprint, result)
        else:
            refused[photo.image_id] = result
        done += 1
        if done % COMMIT_EVERY == 0:
            journal.commit()
        report(done, len(photos))
    journal.commit()
    return [refused.get(photo.image_id) or journal.result(photo.image_id) for photo in photos]

"""Photos encoded so far, on disk: a long run that was cut off goes on where it stopped."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mien.core.encoder import Encoder
from mien.core.errors import InvalidFileError
from mien.core.progress import Progress
from mien.encoding.photo_encoder import EncodedPhoto, Photo, PhotoEncoder, RefusedPhoto, Result
from mien.encoding.quality import PhotoFacts
from mien.version import __version__

COMMIT_EVERY = 16  # photos
SCHEMA = """
CREATE TABLE IF NOT EXISTS encoder (identity TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS photo (
  image_id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, embedding BLOB, facts TEXT, reason TEXT) STRICT;
"""


class Journal:
    """One file. What another encoder or version made is dropped, what belongs to a changed photo is made anew."""

    def __init__(self, path: Path, encoder: Encoder) -> None:
        path.touch(mode=0o600)
        self.path, self.encoder = path, encoder
        self._connection = sqlite3.connect(path)
        identity = json.dumps({"mien": __version__, **encoder.as_dict()})
        try:
            self._connection.executescript(SCHEMA)
            with self._connection as connection:
                if connection.execute("SELECT identity FROM encoder").fetchall() != [(identity,)]:
                    connection.execute("DELETE FROM photo")
                    connection.execute("DELETE FROM encoder")
                    connection.execute("INSERT INTO encoder VALUES (?)", [identity])
        except sqlite3.DatabaseError as error:
            self._connection.close()
            what = f"not the work of a run that was cut off ({error}): take it away, or choose another output"
            raise InvalidFileError(path, [what]) from error

    def fingerprints(self) -> dict[str, str]:
        """What each photo was like when it was encoded."""
        return dict(self._connection.execute("SELECT image_id, fingerprint FROM photo"))

    def add(self, result: Result, fingerprint: str) -> None:
        """Keeps a result; `commit` makes it last."""
        values: tuple[Any, ...] = (result.image_id, fingerprint)
        if isinstance(result, EncodedPhoto):
            values += (result.embedding.tobytes(), json.dumps(asdict(result.facts)), None)
        else:
            values += (None, None, result.reason)
        self._connection.execute("INSERT OR REPLACE INTO photo VALUES (?, ?, ?, ?, ?)", values)

    def commit(self) -> None:
        """Makes what was added last."""
        self._connection.commit()

    def results(self, image_ids: Iterable[str]) -> Iterator[Result]:
        """The results for these photos, in this order."""
        shape = (self.encoder.representations, self.encoder.dimensions)
        for image_id in image_ids:
            (embedding, facts, reason), *_ = self._connection.execute(
                "SELECT embedding, facts, reason FROM photo WHERE image_id = ?", [image_id]
            )
            if embedding is None:
                yield RefusedPhoto(image_id, reason)
            else:
                vectors = np.frombuffer(embedding, dtype=np.float32).reshape(shape)
                yield EncodedPhoto(image_id, vectors, PhotoFacts.from_dict(json.loads(facts)))

    def close(self) -> None:
        """Closes the file, which stays."""
        self._connection.close()

    def discard(self) -> None:
        """The work is done: nothing of it stays here."""
        self.close()
        self.path.unlink()


def encode_into(journal: Journal, encoder: PhotoEncoder, photos: Sequence[Photo], report: Progress) -> list[Result]:
    """Encodes the photos that the journal does not have yet, and hands out all of them in their order."""
    fingerprint_of = {photo.image_id: photo.fingerprint for photo in photos}
    known = journal.fingerprints()
    left = [photo for photo in photos if known.get(photo.image_id) != fingerprint_of[photo.image_id]]
    done = len(photos) - len(left)
    report(done, len(photos))
    for result in encoder.encode(left):
        journal.add(result, fingerprint_of[result.image_id])
        done += 1
        if done % COMMIT_EVERY == 0:
            journal.commit()
        report(done, len(photos))
    journal.commit()
    return list(journal.results(photo.image_id for photo in photos))

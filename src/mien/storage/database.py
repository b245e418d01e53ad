"""`gallery.sqlite`, of which the index is made: its tables, connections and state."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mien.core.embeddings import Encoder
from mien.errors import CorruptGalleryError, GalleryBusyError, GalleryError
from mien.storage.descriptions import StoredDocument
from mien.storage.index_files import read_checked_json

DATABASE = "gallery.sqlite"
FINISHED = "gallery.generation"  # which generation was finished last, whatever the database says
FORMAT = 2  # 1 has no checksum of the state, its first version no fingerprint; the next change adds them
CHECKED_COLUMNS = ("generation", "fingerprint", "erasing", "encoder")  # of the state, with a common checksum
SECONDS_TO_WAIT_FOR_A_LOCK = 30.0

SCHEMA = """
CREATE TABLE gallery (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  format INTEGER NOT NULL,
  generation INTEGER NOT NULL,   -- counts the changes
  fingerprint TEXT NOT NULL,     -- of everything stored; ties the index to it
  erasing INTEGER NOT NULL,      -- 1 while bytes of a removed patient may still lie in the files
  encoder TEXT,                  -- JSON, fixed by the first images
  checksum BLOB                  -- of these four
) STRICT;
CREATE TABLE disorder (
  disorder_key INTEGER PRIMARY KEY,
  disorder_id TEXT NOT NULL UNIQUE,
  name TEXT,
  omim TEXT,
  checksum BLOB NOT NULL
) STRICT;
CREATE TABLE patient (
  patient_key INTEGER PRIMARY KEY,
  patient_id TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE image (
  image_key INTEGER PRIMARY KEY,
  image_id TEXT NOT NULL UNIQUE,
  patient_key INTEGER NOT NULL REFERENCES patient ON DELETE CASCADE,
  checksum BLOB NOT NULL,        -- of ids, labels and embedding together
  embedding BLOB NOT NULL        -- float32, little-endian, representation by representation
) STRICT;
CREATE INDEX image_of_patient ON image (patient_key);
CREATE TABLE label (
  disorder_key INTEGER NOT NULL REFERENCES disorder,
  image_key INTEGER NOT NULL REFERENCES image ON DELETE CASCADE,
  PRIMARY KEY (disorder_key, image_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX label_of_image ON label (image_key);
"""
# tables that a gallery gets when it needs them
LEARNED = "CREATE TABLE IF NOT EXISTS learned (name TEXT PRIMARY KEY, document TEXT NOT NULL) STRICT"
DESCRIBED = """
CREATE TABLE IF NOT EXISTS described (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  document TEXT NOT NULL,        -- JSON: a description of each disorder
  checksum BLOB NOT NULL
) STRICT
"""


@dataclass(frozen=True)
class State:
    """The one row of the table `gallery`, and the number of images."""

    format: int
    generation: int
    fingerprint: str
    erasing: bool
    encoder: Encoder | None
    images: int
    learned: tuple[tuple[str, str], ...]  # name and document, JSON
    described: StoredDocument | None  # what is known of its disorders


@contextmanager
def connection(directory: Path, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
    """An open database; SQLite's errors leave as `GalleryError`s that name the gallery."""
    path = directory / DATABASE
    if not create and not path.is_file():
        raise GalleryError(f"{directory} holds no gallery: make one with 'mien gallery build'")
    if path.is_symlink():
        raise GalleryError(f"{path} is a link: give the directory where the file itself lies")
    try:
        if create and not path.exists():  # one that is there is not opened: closing it would end SQLite's locks
            with suppress(FileExistsError):  # SQLite's other files get the mode of this one
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        with closing(_connect(path, write=write)) as database:
            if create and not has_table(database, "gallery"):
                _create(database)
            yield database
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise GalleryBusyError(
                f"{directory}: another process is writing to the gallery, try again later"
            ) from error
        raise GalleryError(f"{path}: {error}; the gallery is as it was before") from error
    except OSError as error:
        raise GalleryError(
            f"{error.filename or directory}: {error.strerror}; the gallery is as it was before"
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes damaged bytes in its messages
        raise _damaged(path, error) from error


def _damaged(path: Path, what: object) -> CorruptGalleryError:
    return CorruptGalleryError(f"{path}: {what}: restore the file from a backup or build the gallery anew")


def path_of(database: sqlite3.Connection) -> Path:
    """The file of a database."""
    return Path(database.execute("PRAGMA database_list").fetchone()[2])


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={'rwc' if write else 'ro'}"
    database = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=SECONDS_TO_WAIT_FOR_A_LOCK)
    database.text_factory = lambda text: text.decode(errors="replace")  # a damaged id can still be named
    try:
        if write:
            database.execute("PRAGMA page_size = 16384")  # before the first table: an embedding fills pages well
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("PRAGMA temp_store = MEMORY")  # VACUUM must not leave faces in a temporary folder
        else:
            database.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except BaseException as error:
        database.close()
        unwritable = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname.startswith(
            ("SQLITE_CANTOPEN", "SQLITE_READONLY")
        )
        if write or not unwritable or path.with_name(f"{DATABASE}-wal").exists():
            raise
        # a log wants to be written beside the file even by readers; where there is none, nobody is writing
        return sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True, isolation_level=None)
    return database


def _create(database: sqlite3.Connection) -> None:
    with transaction(database):
        if not has_table(database, "gallery"):  # nobody else has made it meanwhile
            for statement in SCHEMA.split(";\n"):
                database.execute(statement)
            checksum = _checksum_of_state(0, "", 0, None)
            database.execute("INSERT INTO gallery VALUES (1, ?, 0, '', 0, NULL, ?)", [FORMAT, checksum])


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Takes the write lock, commits at the end, and undoes everything on any error."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(database: sqlite3.Connection) -> Iterator[None]:
    """All reads inside see one generation."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:  # not after an error of the disk
            database.execute("ROLLBACK")


def state(database: sqlite3.Connection) -> State:
    """The state of the gallery, checked; refuses one that was never finished, or has another format."""
    path = path_of(database)
    rows = database.execute("SELECT * FROM gallery") if has_table(database, "gallery") else None
    row = rows.fetchone() if rows else None
    if rows is None or row is None:
        raise GalleryError(f"{path}: the gallery was never finished: run 'mien gallery build' again")
    found: dict[str, Any] = dict(zip((column[0] for column in rows.description), row, strict=True))
    if "fingerprint" not in found:
        found["fingerprint"] = fingerprint(database)
    stored_format, *checked = (found[name] for name in ("format", *CHECKED_COLUMNS))
    generation, stored_fingerprint, erasing, encoder = checked
    if stored_format not in {1, FORMAT}:
        raise GalleryError(f"{path}: it has format {stored_format}, this version of mien reads format {FORMAT}")
    if stored_format != 1 and found.get("checksum") != _checksum_of_state(*checked):
        raise _damaged(path, "the description of the gallery is damaged")
    images = database.execute("SELECT count(*) FROM image").fetchone()[0]
    try:
        identity, generation = None if encoder is None else Encoder.from_dict(json.loads(encoder)), int(generation)
        if identity is not None and images:
            [(size,)] = database.execute("SELECT length(embedding) FROM image LIMIT 1")
            np.empty(size // 4).reshape(identity.representations, identity.dimensions)  # an error if it does not fit
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(path, f"the encoder's description is damaged ({error})") from error
    learned = rows_if_any(database, "learned", "SELECT name, document FROM learned ORDER BY name")
    described = next(iter(rows_if_any(database, "described", "SELECT document, checksum FROM described")), None)
    beside = tuple(learned), described
    return State(stored_format, generation, stored_fingerprint, bool(erasing), identity, images, *beside)


def newest_state(database: sqlite3.Connection, directory: Path) -> State:
    """The state; refuses a database that lacks changes which were finished.

    SQLite drops what it cannot read of its log, in silence: so a file beside the database knows what was finished.
    """
    try:
        finished = read_checked_json(directory / FINISHED)  # before the state, because it is written after it
    except FileNotFoundError:
        finished = {"generation": 0}
    except ValueError as error:
        raise CorruptGalleryError(f"{directory}: {error}: delete it, mien writes it again") from error
    now = state(database)
    known = finished["generation"]
    if now.generation < known or (now.generation == known and now.fingerprint != finished.get("fingerprint", "")):
        raise CorruptGalleryError(
            f"{directory / DATABASE}: it holds generation {now.generation}, but generation {known} was finished: the"
            f" last changes are lost, as with a damaged {DATABASE}-wal. Restore the whole directory from a backup, or"
            f" delete {FINISHED} to go on without them, and repeat them"
        )
    return now


def write_state(database: sqlite3.Connection, **changed: Any) -> None:
    """Changes fields of the state; a gallery of format 1 is upgraded."""
    now = replace(state(database), **changed)
    columns = {name for (name,) in database.execute("SELECT name FROM pragma_table_info('gallery')")}
    if "fingerprint" not in columns:
        database.execute("ALTER TABLE gallery ADD COLUMN fingerprint TEXT NOT NULL DEFAULT ''")
    if "checksum" not in columns:
        database.execute("ALTER TABLE gallery ADD COLUMN checksum BLOB")
        for suffix in ("", "-wal", "-shm"):
            path = Path(f"{path_of(database)}{suffix}")
            if path.exists() and not path.is_symlink():
                path.chmod(0o600)
    encoder = None if now.encoder is None else json.dumps(now.encoder.as_dict())
    row = now.generation, now.fingerprint, int(now.erasing), encoder
    database.execute(
        "UPDATE gallery SET format = ?, generation = ?, fingerprint = ?, erasing = ?, encoder = ?, checksum = ?",
        [FORMAT, *row, _checksum_of_state(*row)],
    )


def _checksum_of_state(*row: object) -> bytes:
    return hashlib.sha256(repr(row).encode()).digest()


def has_table(database: sqlite3.Connection, table: str) -> bool:
    """Whether the database has a table of this name."""
    return database.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", [table]).fetchone() is not None


def rows_if_any(database: sqlite3.Connection, table: str, question: str, values: Sequence[str] = ()) -> list[Any]:
    """The rows that answer a question to a table; none where a gallery has no such table yet."""
    return database.execute(question, values).fetchall() if has_table(database, table) else []


def fingerprint(database: sqlite3.Connection) -> str:
    """SHA-256 over the checksums of all rows: the same content has the same fingerprint."""
    digest = hashlib.sha256()
    for table in ("disorder", "image"):
        for (checksum,) in database.execute(f"SELECT checksum FROM {table} ORDER BY {table}_id"):  # noqa: S608
            digest.update(as_bytes(checksum))
    return digest.hexdigest()


def as_bytes(stored: object) -> bytes:
    """What should be bytes: a damaged row may hold anything."""
    return stored if isinstance(stored, bytes) else repr(stored).encode()

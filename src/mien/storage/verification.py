"""Every stored byte that has a checksum, checked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mien.errors import CorruptGalleryError, GalleryError, shown
from mien.storage.changes import restore_index
from mien.storage.cohort_reader import checksum_of_image, read_disorders
from mien.storage.database import DATABASE, connection, fingerprint, newest_state, snapshot
from mien.storage.descriptions import descriptions_of
from mien.storage.faces import face_problems
from mien.storage.index_files import read_index
from mien.storage.learned import damaged_names


def problems(directory: Path) -> Iterator[str]:
    """A line for each damaged row of the database, and for a damaged index, which is made anew."""
    with connection(directory) as database, snapshot(database):
        now = newest_state(database, directory)
        yield from problems_of_database(database, directory)
    try:
        read_index(directory, now.generation, now.fingerprint, check_all=True)
    except FileNotFoundError:
        pass  # it is made by whoever needs it
    except CorruptGalleryError as problem:
        try:
            restore_index(directory)
        except GalleryError as error:
            yield f"{problem}: the index could not be made anew ({error})"
        else:
            yield f"{problem}: the index was made anew from the database"


def problems_of_database(database: sqlite3.Connection, directory: Path) -> Iterator[str]:
    """A line for each damaged row."""
    now = newest_state(database, directory)
    yield from (f"{DATABASE}: {line}" for (line,) in database.execute("PRAGMA integrity_check") if line != "ok")
    for table, row, target, _ in database.execute("PRAGMA foreign_key_check"):
        yield f"{DATABASE}: row {row} of table {table} points to a row of table {target} that is not there"
    for disorder, sound in read_disorders(database):
        if not sound:
            yield f"{DATABASE}: disorder {shown(disorder.disorder_id)} is damaged"
    for image_key, image_id, patient_id, disorder_ids, checksum, embedding in database.execute(
        "SELECT image_key, coalesce(CAST(image_id AS TEXT), ''), coalesce(CAST(patient_id AS TEXT), ''),"
        " (SELECT json_group_array(CAST(disorder_id AS TEXT)) FROM label JOIN disorder USING (disorder_key)"
        " WHERE label.image_key = image.image_key), checksum, embedding"
        " FROM image LEFT JOIN patient USING (patient_key) ORDER BY image_key"
    ):
        if checksum != checksum_of_image(image_id, patient_id, json.loads(disorder_ids), embedding):
            yield (
                f"{DATABASE}: row {image_key} of table image is damaged"
                f" (image {shown(image_id)} of patient {shown(patient_id)})"
            )
    try:
        descriptions_of(now.described)
    except CorruptGalleryError as problem:
        yield f"{DATABASE}: {problem}"
    if now.erasing:
        yield f"{DATABASE}: a removal is not finished: repeat it to erase the last bytes"
    if now.fingerprint != (fingerprint(database) if now.generation else ""):  # 0: its build was only begun
        yield f"{DATABASE}: rows are missing or were added"
    yield from face_problems(database)
    yield from (str(problem) for _, problem in damaged_names(now.learned, directory))

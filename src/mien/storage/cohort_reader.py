"""Reads who is in `gallery.sqlite`, and their embeddings; everything is checked against its checksum."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mien.core.arrays import Float32s, Ints
from mien.core.embeddings import Encoder
from mien.core.roster import Disorder, Label, Roster
from mien.errors import CorruptGalleryError, shown
from mien.storage.database import as_bytes, fingerprint, path_of, state
from mien.storage.descriptions import descriptions_of, with_given_name


def checksum_of_image(image_id: str, patient_id: str, disorder_ids: Sequence[str], embedding: bytes) -> bytes:
    """SHA-256 over everything that is stored of an image."""
    digest = hashlib.sha256(json.dumps([image_id, patient_id, sorted(disorder_ids)]).encode())
    digest.update(as_bytes(embedding))
    return digest.digest()


def checksum_of_disorder(disorder: Disorder) -> bytes:
    """SHA-256 over everything that is stored of a disorder."""
    return hashlib.sha256(json.dumps(list(disorder), default=repr).encode()).digest()


def read_disorders(database: sqlite3.Connection) -> Iterator[tuple[Disorder, bool]]:
    """Every disorder, and whether its row is sound."""
    for disorder_id, name, omim, checksum in database.execute("SELECT disorder_id, name, omim, checksum FROM disorder"):
        disorder = Disorder(str(disorder_id), name, omim)
        yield disorder, checksum == checksum_of_disorder(disorder)


def read_roster(database: sqlite3.Connection) -> Roster:
    """Who is in the gallery; refuses damaged disorders, and a database in which rows are missing or were added."""
    now = state(database)
    disorders, descriptions = {}, descriptions_of(now.described)
    for disorder, sound in read_disorders(database):
        if not sound:
            who = f"disorder {shown(disorder.disorder_id)}"
            raise CorruptGalleryError(f"{path_of(database)}: {who} is damaged: run 'mien gallery verify'")
        disorders[disorder.disorder_id] = with_given_name(disorder, descriptions)
    labels = database.execute(
        "SELECT image_id, patient_id, disorder_id FROM label JOIN image USING (image_key)"
        " JOIN patient USING (patient_key) JOIN disorder USING (disorder_key)"
    )
    roster = Roster.of_labels((Label(*map(str, row)) for row in labels), disorders)
    if (len(roster.image_ids), fingerprint(database) if now.generation else "") != (now.images, now.fingerprint):
        raise CorruptGalleryError(f"{path_of(database)}: rows are missing or were added: run 'mien gallery verify'")
    return roster


def embedding_reader(database: sqlite3.Connection, roster: Roster, encoder: Encoder) -> Callable[[Ints], Float32s]:
    """Reads raw embeddings of some images of the roster, their checksums verified."""

    def read(images: Ints) -> Float32s:
        embeddings = np.empty((len(images), encoder.representations, encoder.dimensions), dtype="<f4")
        for row, image in enumerate(images.tolist()):
            image_id, patient_id = roster.image_ids[image], roster.patient_ids[roster.patient_of_image[image]]
            disorder_ids = roster.disorder_ids_of_image[image]
            stored = database.execute("SELECT embedding, checksum FROM image WHERE image_id = ?", [image_id]).fetchone()
            if stored is None or stored[1] != checksum_of_image(image_id, patient_id, disorder_ids, stored[0]):
                who = f"image {shown(image_id)}"
                raise CorruptGalleryError(f"{path_of(database)}: {who} is damaged: run 'mien gallery verify'")
            embeddings[row] = np.frombuffer(stored[0], dtype="<f4").reshape(embeddings.shape[1:])
        return embeddings

    return read

"""What is known of a gallery's disorders: one document with its checksum, in the gallery's database."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping

from mien.core.errors import CorruptGalleryError
from mien.core.genes import Description, Gene
from mien.core.roster import Disorder

TABLE = """
CREATE TABLE IF NOT EXISTS described (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  document TEXT NOT NULL,        -- JSON: a description of each disorder
  checksum BLOB NOT NULL
) STRICT
"""  # a gallery has it since its disorders were described

StoredDocument = tuple[object, object]  # document and checksum: damaged ones may hold anything


def read_document(database: sqlite3.Connection) -> StoredDocument | None:
    """The document as it is stored; None in a gallery whose disorders nobody described."""
    if not database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'described'").fetchone():
        return None
    row: StoredDocument | None = database.execute("SELECT document, checksum FROM described").fetchone()
    return row


def write_document(database: sqlite3.Connection, descriptions: Iterable[Description]) -> bool:
    """Puts these descriptions in the place of all others; whether that changed anything."""
    document = json.dumps(sorted(descriptions))
    stored = document, _checksum(document)
    if stored == read_document(database):
        return False
    database.execute(TABLE)
    database.execute("INSERT OR REPLACE INTO described VALUES (1, ?, ?)", stored)
    return True


def parsed(stored: StoredDocument | None) -> dict[str, Description]:
    """The descriptions by disorder id; a damaged document is refused."""
    if stored is None:
        return {}
    document, checksum = stored
    if not isinstance(document, str) or checksum != _checksum(document):
        raise CorruptGalleryError("the table of disorders is damaged: run 'mien gallery describe' again")
    return {
        disorder_id: Description(disorder_id, name, tuple(curies), tuple(Gene(*gene) for gene in genes))
        for disorder_id, name, curies, genes in json.loads(document)
    }


def named(disorder: Disorder, descriptions: Mapping[str, Description]) -> Disorder:
    """A disorder with the name that it was given last, and with OMIM numbers where the gallery had none."""
    said = descriptions.get(disorder.disorder_id, Description(disorder.disorder_id))
    omim = " ".join(curie for curie in said.curies if curie.startswith(("OMIM:", "OMIMPS:")))
    return Disorder(disorder.disorder_id, said.name or disorder.name, disorder.omim or omim or None)


def _checksum(document: str) -> bytes:
    return hashlib.sha256(document.encode()).digest()

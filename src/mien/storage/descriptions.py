"""What is known of a gallery's disorders, as one document with its checksum: the database keeps it in this form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from mien.answers.genes import Description, Gene
from mien.core.roster import Disorder
from mien.errors import CorruptGalleryError

StoredDocument = tuple[object, object]  # document and checksum: damaged ones may hold anything


def document_of(descriptions: Iterable[Description]) -> StoredDocument:
    """The document that holds these descriptions."""
    document = json.dumps(sorted(descriptions))
    return document, _checksum(document)


def descriptions_of(stored: StoredDocument | None) -> dict[str, Description]:
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


def with_given_name(disorder: Disorder, descriptions: Mapping[str, Description]) -> Disorder:
    """A disorder with the name that it was given last, and with OMIM numbers where the gallery had none."""
    said = descriptions.get(disorder.disorder_id, Description(disorder.disorder_id))
    omim = " ".join(curie for curie in said.curies if curie.startswith(("OMIM:", "OMIMPS:")))
    return Disorder(disorder.disorder_id, said.name or disorder.name, disorder.omim or omim or None)


def _checksum(document: str) -> bytes:
    return hashlib.sha256(document.encode()).digest()

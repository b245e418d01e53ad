"""Photos on the command line: which face, which encoder, how far it got, what was refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from mien.cli import show
from mien.core.cohort import Cohort, Encodings, Query
from mien.core.encoder import Encoder
from mien.core.errors import InvalidFileError, shown
from mien.encoding.folder import find_photos
from mien.encoding.journal import Journal, encode_into
from mien.encoding.photo_encoder import EncodedPhoto, Photo, PhotoEncoder, RefusedPhoto, Result
from mien.encoding.quality import different_persons
from mien.encoding.store import DEFAULT, known_encoders, stored_encoder
from mien.encoding.subject import Choice
from mien.report.photos import photo_document
from mien.storage.formats.gmdb_tables import read_metadata
from mien.storage.loading import LeftOut, labelled_cohort

LISTED = 10


def query_of_photos(
    paths: Sequence[Path], of_gallery: Encoder | None, encoder: str | None, face: Sequence[str] | None
) -> tuple[Query, dict[str, Any]]:
    """The photos of one patient as a query, and what the answer says of them; all of them must do."""
    photos = chosen_photos(find_photos(paths), face)
    loaded = loaded_encoder(encoder, of_gallery)
    results = encode_photos(loaded, photos)
    if refused := refusals(results):
        raise InvalidFileError("photos", refused, advice="mend these, or rank without them")
    print_warnings(results)
    encodings = encodings_of(results, loaded)
    warnings = different_persons(encodings, loaded.manifest.same_person_distance)
    for warning in warnings:
        show.note(warning)
    beside = {"photos": [photo_document(result) for result in results], "warnings": warnings}
    return Query(encodings, ids_are_file_names=True), beside


def cohort_of_photos(
    folder: Path,
    metadata: Sequence[Path],
    encoder: str | None,
    face: Sequence[str] | None,
    journal: Path,
    *,
    allow_missing: bool,
) -> tuple[Cohort, LeftOut]:
    """The photos that the tables label, encoded; a run that was cut off goes on where it stopped."""
    annotations = read_metadata(metadata, labelled=True)
    if not annotations.labels:
        hint = "say who is on the photos: a table with image_id, subject, label"
        raise typer.BadParameter(hint, param_hint="--metadata")
    found = find_photos([folder])
    wanted = {image_id: found[image_id] for image_id in annotations.patient_of if image_id in found}
    missing = [f"there is no photo {shown(image_id)}" for image_id in annotations.patient_of if image_id not in found]
    advice = "mend these, or go on without them with --allow-missing"
    if missing and not (wanted and allow_missing):
        raise InvalidFileError(folder, missing, advice=advice)
    loaded = loaded_encoder(encoder, None)
    results = encode_photos(loaded, chosen_photos(wanted, face), journal)
    refused = refusals(results)
    if refused and (len(refused) == len(results) or not allow_missing):
        kept = f"; what is encoded already is kept in {journal} for the next try"
        raise InvalidFileError(folder, refused, advice=advice + kept)
    print_warnings(results)
    for line in refused:
        show.note(line)
    encodings = encodings_of(results, loaded)
    journal.unlink()
    encoded = set(encodings.image_ids)
    without = tuple(image_id for image_id in annotations.patient_of if image_id not in encoded)
    return labelled_cohort(encodings, annotations), LeftOut(len(found) - len(wanted), without)


def chosen_photos(paths: Mapping[str, Path], faces: Sequence[str] | None) -> list[Photo]:
    """The photos with the faces that --face chooses on them."""
    every: Choice = None
    of_photo: dict[str, Choice] = {}
    for given in faces or ():
        image_id, _, number = given.rpartition("=")
        if given == "main":
            every = "main"
        elif not (number.isdecimal() and int(number)):
            raise typer.BadParameter(f"give a number from 1 on, 'main' or PHOTO=N, not {given!r}", param_hint="--face")
        elif image_id in paths:
            of_photo[image_id] = int(number)
        elif image_id or len(paths) > 1:
            hint = f"there is no photo {shown(image_id)}" if image_id else "say of which photo: PHOTO=N"
            raise typer.BadParameter(f"{hint}; the photos are {_first(paths)}", param_hint="--face")
        else:
            every = int(number)
    return [Photo(image_id, path, of_photo.get(image_id, every)) for image_id, path in paths.items()]


def loaded_encoder(name: str | None, of_gallery: Encoder | None) -> PhotoEncoder:
    """The encoder by its name, or the one that made the gallery; another one than that is refused before the work."""
    known = of_gallery.name if of_gallery is not None and of_gallery.name in known_encoders() else None
    stored = stored_encoder(name or known or DEFAULT)
    if of_gallery is not None:
        stored.manifest.encoder.require_same(of_gallery, here="a photo", there="the gallery")
    return stored.load()


def encode_photos(encoder: PhotoEncoder, photos: Sequence[Photo], journal: Path | None = None) -> list[Result]:
    """Encodes photos under a progress bar; with a journal, a run that was cut off goes on."""
    with show.progress("encoding photos") as report:
        if journal is not None:
            opened = Journal(journal, encoder.encoder)
            try:
                return encode_into(opened, encoder, photos, report)
            finally:
                opened.close()
        results = []
        for result in encoder.encode(photos):
            results.append(result)
            report(len(results), len(photos))
        return results


def encodings_of(results: Iterable[Result], encoder: PhotoEncoder) -> Encodings:
    """The embeddings of the photos that were encoded."""
    encoded = [result for result in results if isinstance(result, EncodedPhoto)]
    return Encodings.of(
        [photo.image_id for photo in encoded], np.stack([photo.embedding for photo in encoded]), encoder.encoder
    )


def refusals(results: Iterable[Result]) -> list[str]:
    """A line for each photo that was refused."""
    return [
        f"photo {shown(result.image_id)}: {result.reason}" for result in results if isinstance(result, RefusedPhoto)
    ]


def print_warnings(results: Iterable[Result]) -> None:
    """Says on stderr what speaks against photos that were encoded."""
    for result in results:
        if isinstance(result, EncodedPhoto):
            for warning in result.facts.warnings:
                show.note(f"photo {shown(result.image_id)}: {warning}")


def _first(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(map(shown, listed[:LISTED])) + (", …" if len(listed) > LISTED else "")

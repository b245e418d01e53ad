"""Encodes photos for commands: chooses faces and encoder, shows progress, reports refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer

from mien.cli import show
from mien.cli.options import PhotoOptions
from mien.core.cohort import Cohort, Encodings, Query
from mien.core.embeddings import Encoder
from mien.encoding.alignment import png_of
from mien.encoding.folder import find_photos
from mien.encoding.journal import Journal, encode_into
from mien.encoding.photo_encoder import EncodedPhoto, EncodesPhotos, Photo, RefusedPhoto, Result, crops_of
from mien.encoding.process_memory import forbid_core_dumps
from mien.encoding.quality import odd_pairs
from mien.encoding.store import encoder_for, likely_encoder
from mien.encoding.subject import Choice
from mien.errors import InvalidFileError, shown, shown_ids
from mien.report.photos import photo_document
from mien.storage.formats.annotations import Annotations
from mien.storage.formats.gmdb_tables import read_metadata
from mien.storage.formats.phenopacket import Phenopacket
from mien.storage.gallery import Gallery
from mien.storage.loading import LeftOut, labelled_cohort

BY_FACE = " with --face, by its number; --face main takes the most prominent one"
MEND = "mend these, or go on without them with --allow-missing"


class EncodedFolder(NamedTuple):
    """The encoded photos of a folder."""

    encodings: Encodings
    left_out: LeftOut
    faces: dict[str, bytes] | None  # by image id, if they are to be kept
    provenance: dict[str, str]  # for the answer


def query_of_photos(
    paths: Sequence[Path],
    of_gallery: Encoder | None,
    how: PhotoOptions,
    patient_id: str | None = None,
) -> tuple[list[Query], dict[str, Any]]:
    """Encodes the photos of one patient as a query; also returns facts for the answer. A refused photo is an error."""
    photos = chosen_photos(find_photos(paths, follow_links=how.follow_links, say=show.note), how.face)
    loaded = encoder_for(of_gallery, how.encoder).load(how.device)
    results = encode_photos(loaded, photos)
    if refused := refusals(results):
        raise InvalidFileError("photos", refused, advice="mend these, or rank without them")
    print_warnings(results)
    encodings = loaded.encodings_of(results)
    warnings = odd_pairs(encodings, loaded.manifest.same_person_distance)
    for warning in warnings:
        show.note(warning)
    beside = {"photos": [photo_document(result) for result in results], "warnings": warnings}
    return [Query(encodings, patient_id)], beside


def queries_of_phenopackets(
    packets: Sequence[Phenopacket], of_gallery: Encoder | None, how: PhotoOptions
) -> tuple[list[Query], dict[str, Any]]:
    """Encodes the photos that each packet names as a query; also returns facts for the answer."""
    photos_of = [packet.photos() for packet in packets]  # all packets are checked before the first photo is encoded
    queries: list[Query] = []
    beside: dict[str, Any] = {"photos": [], "warnings": []}
    for packet, photos in zip(packets, photos_of, strict=True):
        show.note(packet.in_words)
        [query], facts = query_of_photos(photos, of_gallery, how, packet.content.subject.id)
        queries.append(query)
        beside = {name: [*known, *facts[name]] for name, known in beside.items()}
    return queries, beside


def cohort_of_photos(
    folder: Path, metadata: Sequence[Path], how: PhotoOptions, of_gallery: Encoder | None, journal: Path
) -> tuple[Cohort, EncodedFolder]:
    """Encodes the photos that the tables label. A run that was cut off goes on where it stopped."""
    annotations = read_metadata(metadata, labelled=True)
    if not annotations.labels:
        hint = "say who is on the photos: a table with image_id, subject, label"
        raise typer.BadParameter(hint, param_hint="--metadata")
    encoded = encode_folder(folder, annotations, how, of_gallery, journal)
    return labelled_cohort(encoded.encodings, annotations), encoded


def encode_folder(
    folder: Path, annotations: Annotations, how: PhotoOptions, of_gallery: Encoder | None, journal: Path | None
) -> EncodedFolder:
    """Encodes the photos of a folder that the annotations name."""
    if not folder.is_dir():
        raise InvalidFileError(folder, ["it is not a folder: give the one that the photos are in"])
    wanted = annotations.patient_of
    found = find_photos([folder], short_ids=how.short_ids, wanted=wanted, follow_links=how.follow_links, say=show.note)
    photos = {image_id: found[image_id] for image_id in wanted if image_id in found}
    missing = [f"there is no photo {shown(image_id)}" for image_id in wanted if image_id not in found]
    if missing and not (photos and how.allow_missing):
        ids = "" if how.short_ids else "; ids without suffix and folder, as GMDB's, need --short-ids"
        raise InvalidFileError(folder, missing, advice=MEND + ids)
    loaded = encoder_for(of_gallery, how.encoder).load(how.device)
    results = encode_photos(loaded, chosen_photos(photos, how.face, keep_crop=how.keep_faces), journal)
    refused = refusals(results)
    if refused and (len(refused) == len(results) or not how.allow_missing):
        kept = f"; what is encoded already is kept in {journal} for the next try" if journal else ""
        raise InvalidFileError(folder, refused, advice=MEND + kept)
    show.print_first(refused, "photos were refused")
    print_warnings(results)
    encodings = loaded.encodings_of(results)
    encoded = set(encodings.image_ids)
    not_encoded = tuple(image_id for image_id in wanted if image_id not in encoded)
    crops = {each.image_id: each.crop for each in results if isinstance(each, EncodedPhoto) and each.crop is not None}
    left_out = LeftOut(len(found) - len(photos), not_encoded)
    return EncodedFolder(encodings, left_out, crops if how.keep_faces else None, {"device": loaded.device})


def faces_of_photos(
    folder: Path, gallery: Gallery, encoder: str | None, face: Sequence[str] | None, *, follow_links: bool
) -> tuple[dict[str, bytes], dict[str, list[str]]]:
    """Finds the faces of a gallery's images in a folder; also returns refused photos, and what does not match.

    A file belongs to an image if the image's id is the file's path below the folder, or its name up to the first "_"
    or ".".
    """
    image_ids = gallery.roster.image_of_id.keys()
    files = find_photos([folder], wanted=image_ids, follow_links=follow_links, say=show.note)
    by_path = {image_id: path for image_id, path in files.items() if image_id in image_ids}
    own = {path.resolve() for path in by_path.values()}
    wanted = image_ids - by_path.keys()
    by_number = find_photos(
        [folder], short_ids=True, wanted=wanted, own_files=own, follow_links=follow_links, say=lambda _said_above: None
    )
    paths = {**by_path, **{image_id: path for image_id, path in by_number.items() if image_id in image_ids}}
    there = gallery.faces.of_images(paths)
    photos = [photo for photo in chosen_photos(paths, face) if photo.image_id not in there]
    faces: dict[str, bytes] = {}
    refused = []
    detector = cache(likely_encoder(gallery.encoder, encoder).load_detector)
    forbid_core_dumps()
    with show.progress("aligning faces") as report:
        for done, (photo, crop) in enumerate(zip(photos, crops_of(photos, detector), strict=True), start=1):
            if isinstance(crop, RefusedPhoto):
                refused.append(crop)
            else:
                faces[photo.image_id] = png_of(crop.pixels)
            report(done, len(photos))
    matched = set(paths.values())
    return faces, {
        "photos_refused": refusals(refused),
        "files_of_no_image": [name for name, path in files.items() if path not in matched],
        "images_without_file": [image_id for image_id in image_ids if image_id not in paths],
    }


def chosen_photos(paths: Mapping[str, Path], faces: Sequence[str] | None, *, keep_crop: bool = False) -> list[Photo]:
    """The photos with the faces that --face chooses on them."""
    choice_of: dict[str | None, Choice] = {}  # None: of every other photo
    for given in faces or ():
        image_id, equals, choice = given.rpartition("=")
        which = image_id if equals else None
        if not re.fullmatch("main|official|[1-9][0-9]{0,3}", choice):
            hint = f"give a number from 1 on, 'main', 'official' or PHOTO=N, not {given!r}"
            raise typer.BadParameter(hint, param_hint="--face")
        if which is not None and which not in paths:
            hint = f"there is no photo {shown(which)}; the photos are {shown_ids(paths)}"
            raise typer.BadParameter(hint, param_hint="--face")
        if which in choice_of or (which is None and choice.isdecimal() and len(paths) > 1):
            raise typer.BadParameter(f"say of which photo: PHOTO={choice}", param_hint="--face")
        choice_of[which] = int(choice) if choice.isdecimal() else "main" if choice == "main" else "official"
    every = choice_of.get(None)
    return [Photo(image_id, path, choice_of.get(image_id, every), keep_crop) for image_id, path in paths.items()]


def encode_photos(encoder: EncodesPhotos, photos: Sequence[Photo], journal: Path | None = None) -> list[Result]:
    """Encodes photos and shows progress. With a journal, a run that was cut off goes on."""
    forbid_core_dumps()
    with show.progress("encoding photos") as report:
        if journal is not None:
            with closing(Journal(journal, encoder.encoder)) as opened:
                return encode_into(opened, encoder, photos, report)
        results = []
        for result in encoder.encode(photos):
            results.append(result)
            report(len(results), len(photos))
        return results


def refusals(results: Iterable[Result]) -> list[str]:
    """A line for each photo that was refused."""
    return [
        f"photo {shown(result.image_id)}: {result.reason}{BY_FACE if result.boxes else ''}"
        for result in results
        if isinstance(result, RefusedPhoto)
    ]


def print_warnings(results: Iterable[Result]) -> None:
    """Prints warnings about encoded photos on stderr; of many, the first."""
    encoded = [result for result in results if isinstance(result, EncodedPhoto)]
    lines = [f"photo {shown(photo.image_id)}: {warning}" for photo in encoded for warning in photo.facts.warnings]
    show.print_first(lines, "warnings; `mien encode` writes a table of them")

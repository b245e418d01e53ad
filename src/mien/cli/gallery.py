"""`mien gallery ...`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.core.encoder import Encoder
from mien.core.errors import GalleryError
from mien.report.gallery import gallery_document
from mien.storage.changes import import_cohort
from mien.storage.gallery import Gallery, state_of
from mien.storage.loading import Source, load_cohort
from mien.storage.outputs import refuse_existing
from mien.storage.verification import problems

app = typer.Typer(help="Build, extend, check and export a gallery of diagnosed patients.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The gallery's directory.")]


@app.command()
def build(
    directory: Directory,
    encodings: options.EncodingsOption = None,
    photos: options.PhotosOption = None,
    metadata: options.MetadataOption = None,
    encoder: options.EncoderOption = None,
    face: options.FaceOption = None,
    short_ids: options.ShortIdsOption = False,
    allow_missing: options.AllowMissingOption = False,
    json: options.JsonOption = False,
) -> None:
    """Make a gallery of exactly these images; run again, it finishes or changes nothing."""
    how = options.ImportOptions(encoder, face, short_ids, allow_missing)
    _import(directory, encodings, photos, metadata or [], how, exactly=True, json=json)


@app.command()
def add(
    directory: Directory,
    encodings: options.EncodingsOption = None,
    photos: options.PhotosOption = None,
    metadata: options.MetadataOption = None,
    encoder: options.EncoderOption = None,
    face: options.FaceOption = None,
    short_ids: options.ShortIdsOption = False,
    allow_missing: options.AllowMissingOption = False,
    json: options.JsonOption = False,
) -> None:
    """Add images to a gallery; images that are there already must be the same."""
    how = options.ImportOptions(encoder, face, short_ids, allow_missing)
    _import(directory, encodings, photos, metadata or [], how, exactly=False, json=json)


@app.command()
def remove_patient(
    directory: Directory,
    patient_ids: Annotated[list[str], typer.Argument(metavar="PATIENT_ID...", help="The patients to forget.")],
    json: options.JsonOption = False,
) -> None:
    """Erase patients: no byte of them stays in any file of the gallery."""
    with show.progress("erasing"):
        generation = Gallery.remove_patients(directory, patient_ids)
        _discard_journal(directory)  # an interrupted build may have left embeddings there
    if json:
        show.print_json({"generation": generation, "removed_patients": patient_ids})
    else:
        who = ", ".join(show.text(patient_id) for patient_id in patient_ids)
        show.console().print(f"erased from {show.text(str(directory))}, now generation {generation}: patient {who}")


@app.command()
def info(directory: Directory, json: options.JsonOption = False) -> None:
    """Show what a gallery holds."""
    gallery = Gallery.open(directory)
    document = gallery_document(gallery)
    if json:
        show.print_json(document)
    else:
        show.print_gallery(gallery, document)


@app.command()
def verify(directory: Directory, json: options.JsonOption = False) -> None:
    """Check every stored byte against its checksum; damaged rows are named, and the exit code is 1."""
    with show.progress("checking"):
        found = list(problems(directory))
    if json:
        show.print_json({"sound": not found, "problems": found})
    else:
        for line in found:
            show.console().print(show.text(line), soft_wrap=True)
        if not found:
            empty = "" if state_of(directory).images else ", and empty: 'mien gallery add' fills it"
            show.console().print(f"{show.text(str(directory))}: sound{empty}", soft_wrap=True)
    if found:
        raise typer.Exit(1)


@app.command()
def export(
    directory: Directory,
    out: Annotated[Path, typer.Option(help="The Parquet file to write: a cohort table.")],
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Write a gallery as one Parquet file, which `gallery build` reads."""
    refuse_existing(out, force=force)
    with show.progress("exporting"):
        rows = Gallery.export(directory, out)
    if json:
        show.print_json({"out": str(out), "rows": rows})
    else:
        show.console().print(f"{show.text(str(out))}: {rows:,} rows")


def _import(
    directory: Path,
    encodings: Path | None,
    photos: Path | None,
    metadata: list[Path],
    how: options.ImportOptions,
    *,
    exactly: bool,
    json: bool,
) -> None:
    if (encodings is None) == (photos is None):
        raise typer.BadParameter("give either --encodings or --photos")
    if photos is not None:
        from mien.cli.photos import cohort_of_photos  # noqa: PLC0415 onnxruntime is heavy

        cohort, left_out = cohort_of_photos(photos, metadata, how, _encoder_of(directory), _journal(directory))
    else:
        assert encodings is not None
        if how.face or how.short_ids:
            raise typer.BadParameter("--face and --short-ids belong to --photos")
        with show.progress("reading encodings") as report:
            cohort, left_out = load_cohort(Source(encodings, metadata, how.encoder, how.allow_missing), report)
    with show.progress("storing"):
        change = import_cohort(directory, cohort, exactly=exactly)
    _discard_journal(directory)
    if json:
        show.print_json({**asdict(change), **asdict(left_out)})
        return
    show.print_left_out(left_out)
    show.console().print(
        f"{show.text(str(directory))}, generation {change.generation}: {change.images_added:,} images added,"
        f" {change.images_unchanged:,} there already, {change.labels_added:,} labels added"
    )
    for disorder_id in change.disorders_renamed:
        show.console().print(f"disorder {show.text(disorder_id)} has a new name")


def _encoder_of(directory: Path) -> Encoder | None:
    """The encoder of a gallery that photos are added to."""
    try:
        return state_of(directory).encoder
    except GalleryError:
        return None  # there is none yet, or the import will refuse it


def _discard_journal(directory: Path) -> None:
    if _journal(directory).exists():
        from mien.encoding.journal import discard  # noqa: PLC0415 onnxruntime is heavy

        discard(_journal(directory))


def _journal(directory: Path) -> Path:
    """The file that keeps encoded photos until they are in the gallery."""
    whole = directory.resolve()
    return whole.with_name(f"{whole.name}.partial")

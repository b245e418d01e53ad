"""`mien gallery ...`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.core.embeddings import Encoder
from mien.errors import GalleryError, InvalidFileError, shown_ids
from mien.report.gallery import description_document, gallery_document
from mien.storage.backup import Copied, back_up
from mien.storage.backup import restore as restore_backup
from mien.storage.changes import import_cohort, restore_index
from mien.storage.formats.disorder_table import read_disorders
from mien.storage.gallery import Gallery, state_of
from mien.storage.loading import Source, load_cohort
from mien.storage.outputs import refuse_existing
from mien.storage.verification import problems

app = typer.Typer(help="Build, extend, check, export and copy a gallery of diagnosed patients.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The gallery's directory.")]


def _import_command(what_it_does: str, *, exactly: bool) -> Callable[..., None]:
    def command(
        directory: Directory,
        encodings: options.EncodingsOption = None,
        photos: options.PhotosOption = None,
        metadata: options.MetadataOption = None,
        encoder: options.EncoderOption = None,
        face: options.FaceOption = None,
        short_ids: options.ShortIdsOption = False,
        device: options.DeviceOption = options.DeviceName.auto,
        follow_links: options.FollowLinksOption = False,
        allow_missing: options.AllowMissingOption = False,
        keep_faces: options.KeepFacesOption = False,
        composite_patients: options.CompositePatientsOption = None,
        json: options.JsonOption = False,
    ) -> None:
        how = options.PhotoOptions(
            encoder, face, device, follow_links, short_ids, allow_missing, keep_faces, composite_patients
        )
        _import(directory, encodings, photos, metadata or [], how, exactly=exactly, json=json)

    command.__doc__ = what_it_does
    return command


app.command("build")(
    _import_command("Make a gallery of exactly these images; run again, it finishes or changes nothing.", exactly=True)
)
app.command("add")(
    _import_command("Add images to a gallery; images that are there already must be the same.", exactly=False)
)


@app.command()
def add_faces(
    directory: Directory,
    photos: Annotated[Path, typer.Option(help="A folder of photos, or of aligned crops such as 12_rot_aligned.jpg.")],
    encoder: Annotated[str | None, typer.Option(help="The encoder whose detector aligns photos.")] = None,
    face: options.FaceOption = None,
    follow_links: options.FollowLinksOption = False,
    composite_patients: options.CompositePatientsOption = None,
    json: options.JsonOption = False,
) -> None:
    """Keep faces of images that are in the gallery; images that have one keep it."""
    from mien.cli.photos import faces_of_photos  # noqa: PLC0415 onnxruntime is heavy

    gallery = Gallery.open(directory)
    faces, left_out = faces_of_photos(photos, gallery, encoder, face, follow_links=follow_links)
    with show.progress("storing"):
        added = Gallery.add_faces(directory, faces, composite_patients=composite_patients)
    if json:
        show.print_json({**asdict(added), **left_out})
        return
    show.print_first(left_out.pop("photos_refused"), "photos were refused")
    for what, names in left_out.items():
        if names:
            show.note(f"{len(names):,} {what.replace('_', ' ')}: {shown_ids(names)}")
    show.print_line(
        f"{show.printable(str(directory))}: {added.faces_added:,} faces added, {added.faces_kept:,} are kept now;"
        f" {added.composites:,} disorders have a composite"
    )


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
    who = ", ".join(show.printable(patient_id) for patient_id in patient_ids)
    words = f"erased from {show.printable(str(directory))}, now generation {generation}: patient {who}"
    show.print_result({"generation": generation, "removed_patients": patient_ids}, words, as_json=json)


@app.command()
def info(directory: Directory, json: options.JsonOption = False) -> None:
    """Show what a gallery holds."""
    gallery = Gallery.open(directory)
    document = gallery_document(gallery)
    show.print_result(document, show.gallery_table(gallery, document), as_json=json)


@app.command()
def verify(directory: Directory, json: options.JsonOption = False) -> None:
    """Check every stored byte against its checksum; damaged rows are named, and the exit code is 1."""
    with show.progress("checking"):
        found = list(problems(directory))
    lines = found
    if not found:
        empty = "" if state_of(directory).images else ", and empty: 'mien gallery add' fills it"
        lines = [f"{directory}: sound{empty}"]
    show.print_result({"sound": not found, "problems": found}, *map(show.printable, lines), as_json=json)
    if found:
        raise typer.Exit(1)


@app.command()
def describe(
    directory: Directory,
    disorders: Annotated[
        Path,
        typer.Option(
            readable=False,
            help="A table: disorder_id, name, curie, gene_symbol, entrez_id, hgnc_id, ensembl_id; a row for each gene."
            " Or GMDB's table of syndromes.",
        ),
    ],
    json: options.JsonOption = False,
) -> None:
    """Say what disorders are called and which genes they have, in the place of all that was said before."""
    descriptions = read_disorders(disorders)
    known = {disorder.disorder_id for disorder in Gallery.open(directory).roster.disorders}
    if not known & descriptions.keys():
        what = f"the gallery has none of these disorders: {shown_ids(descriptions)}"
        raise InvalidFileError(disorders, [f"{what}: check the ids; what was said before stays"])
    with show.progress("storing"):
        generation = Gallery.describe(directory, descriptions.values())
    document = description_document(Gallery.open(directory))
    said = f"{document['described']:,} disorders described, {document['genes']:,} genes"
    lines = [f"{show.printable(str(directory))}, generation {generation}: {said}"]
    for name, what in (
        ("without_gene", "have no gene"),
        ("not_described", "are not described"),
        ("not_in_gallery", "of the table are not in the gallery"),
    ):
        if ids := document[name]:
            lines.append(show.printable(f"{len(ids):,} {what}: {shown_ids(ids)}"))
    show.print_result({"generation": generation, **document}, *lines, as_json=json)


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
    show.print_result({"out": str(out), "rows": rows}, f"{show.printable(str(out))}: {rows:,} rows", as_json=json)


@app.command()
def backup(
    directory: Directory,
    out: Annotated[Path, typer.Option(help="The new directory: a gallery without its index.")],
    json: options.JsonOption = False,
) -> None:
    """Copy a gallery, checked, also while it is in use."""
    with show.progress("copying"):
        copied = back_up(directory, out)
    _show_copied(out, copied, json=json)


@app.command()
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `gallery backup` wrote.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The new directory of the gallery.")],
    json: options.JsonOption = False,
) -> None:
    """Make a new gallery of a backup. Patients who were removed since then are in it: remove them once more."""
    with show.progress("copying"):
        copied = restore_backup(backup, directory)
    _show_copied(directory, copied, json=json)
    show.note("patients who were removed after this backup are in it: remove-patient erases them again")


@app.command()
def upgrade(directory: Directory, json: options.JsonOption = False) -> None:
    """Bring a gallery of an earlier version to the present format, as any command does that opens it and may write.

    Back up first with `mien gallery backup`, which does not upgrade.
    """
    before = state_of(directory)
    with show.progress("upgrading"):
        restore_index(directory)
    now = state_of(directory)
    was = "as before" if before.format == now.format else f"before: {before.format}"
    show.print_result(
        {"generation": now.generation, "format_before": before.format, "format": now.format},
        f"{show.printable(str(directory))}, generation {now.generation}: format {now.format} ({was})",
        as_json=json,
    )


def _show_copied(where: Path, copied: Copied, *, json: bool) -> None:
    counts = f"{copied.images:,} images of {copied.patients:,} patients"
    words = f"{show.printable(str(where))}, generation {copied.generation}: {counts}, all checked"
    show.print_result({"out": str(where), **asdict(copied)}, words, as_json=json)


def _import(
    directory: Path,
    encodings: Path | None,
    photos: Path | None,
    metadata: list[Path],
    how: options.PhotoOptions,
    *,
    exactly: bool,
    json: bool,
) -> None:
    if (encodings is None) == (photos is None):
        raise typer.BadParameter("give either --encodings or --photos")
    if photos is not None:
        from mien.cli.photos import cohort_of_photos  # noqa: PLC0415 onnxruntime is heavy

        cohort, encoded = cohort_of_photos(photos, metadata, how, _encoder_of(directory), _journal(directory))
        left_out, faces, provenance = encoded.left_out, encoded.faces, encoded.provenance
    else:
        assert encodings is not None
        if how.face or how.short_ids or how.keep_faces or how.follow_links:
            raise typer.BadParameter("--face, --short-ids, --keep-faces and --follow-links belong to --photos")
        faces, provenance = None, {}
        with show.progress("reading encodings") as report:
            cohort, left_out = load_cohort(Source(encodings, metadata, how.encoder, how.allow_missing), report)
    with show.progress("storing"):
        change = import_cohort(
            directory, cohort, exactly=exactly, faces=faces, composite_patients=how.composite_patients
        )
    _discard_journal(directory)
    if json:
        show.print_json({**asdict(change), **asdict(left_out), **provenance})
        return
    show.print_left_out(left_out)
    show.print_line(
        f"{show.printable(str(directory))}, generation {change.generation}: {change.images_added:,} images added,"
        f" {change.images_unchanged:,} there already, {change.labels_added:,} labels added"
    )
    for disorder_id in change.disorders_renamed:
        show.print_line(f"disorder {show.printable(disorder_id)} has a new name")


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

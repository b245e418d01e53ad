"""`mien cohort`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mien.answers.ranking import notice_for
from mien.cli import options, show
from mien.core.cohort import Query
from mien.core.embeddings import Encoder
from mien.errors import shown_ids
from mien.evaluation.experiment_context import rows_of
from mien.report.report_folder import PAGE, check_report_folder
from mien.storage.formats.cohort_columns import read_groups
from mien.storage.formats.gmdb_tables import read_metadata
from mien.storage.formats.image_metadata import read_image_metadata
from mien.storage.gallery import Gallery
from mien.storage.loading import Source, load_queries, queries_of

if TYPE_CHECKING:
    from mien.evaluation.cohort_rows import CohortAnalysis

TABLES = {".csv", ".tsv", ".parquet"}


def cohort(
    patients: Annotated[Path, typer.Argument(readable=False, help="Cohort table, encodings, folder of photos.")],
    gallery: Annotated[Path, typer.Option(help="The gallery's directory: controls and known disorders.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A folder for the report.")],
    metadata: options.MetadataOption = None,
    facts: Annotated[
        Path | None,
        typer.Option(help="Table image_id, gender, age_year, age_month of both, to compare with the same sex and age."),
    ] = None,
    seed: options.SeedOption = 1,
    encoder: options.EncoderOption = None,
    face: options.FaceOption = None,
    device: options.DeviceOption = options.DeviceName.auto,
    follow_links: options.FollowLinksOption = False,
    short_ids: options.ShortIdsOption = False,
    allow_missing: options.AllowMissingOption = False,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Do these patients share a face? Groups, from a column `group`, against chance and against known disorders."""
    from mien.evaluation.cohort_analysis import analyse_cohort  # noqa: PLC0415 scipy and figures are heavy
    from mien.report.cohort import cohort_document, write_cohort  # noqa: PLC0415

    check_report_folder(out, force=force)
    opened = Gallery.open(gallery)
    how = options.PhotoOptions(encoder, face, device, follow_links, short_ids, allow_missing)
    queries, photos = _queries(patients, metadata or (), how, opened.encoder)
    tables = [path for path in (*(metadata or ()), patients) if path.suffix.lower() in TABLES and path.is_file()]
    groups = next((found for path in tables if (found := read_groups(path, queries)) is not None), None)
    if groups is None:
        show.note(f"no column group: the {len(queries):,} patients are one group")
    known = read_image_metadata(facts) if facts else None
    with show.progress("comparing") as report:
        analysis = analyse_cohort(opened, queries, groups, facts_of_image=known, seed=seed, progress=report)
    analysis = analysis._replace(facts={**analysis.facts, **photos})
    with show.progress("writing the report"):
        write_cohort(out, analysis, opened)
    if own := analysis.facts["left_out_of_gallery"]:
        show.note(f"{len(own)} patients of the cohort are in the gallery and were left out of it: {shown_ids(own)}")
    if json:
        show.print_json(cohort_document(analysis, opened))
    else:
        _print(analysis, out, notice_for(opened.encoder))


def _queries(
    patients: Path, metadata: Sequence[Path], how: options.PhotoOptions, of_gallery: Encoder | None
) -> tuple[list[Query], dict[str, str]]:
    """The patients, and how their photos were encoded."""
    if patients.is_dir():
        from mien.cli.photos import encode_folder  # noqa: PLC0415 onnxruntime is heavy

        annotations = read_metadata(metadata, labelled=False)
        if not annotations.patient_of:
            hint = "say who is on the photos: a table with image_id, patient_id and perhaps group"
            raise typer.BadParameter(hint, param_hint="--metadata")
        encoded = encode_folder(patients, annotations, how, of_gallery, None)
        queries, left_out, photos = queries_of(encoded.encodings, annotations), encoded.left_out, encoded.provenance
    else:
        with show.progress("reading encodings") as report:
            source = Source(patients, metadata, how.encoder, how.allow_missing)
            (queries, left_out), photos = load_queries(source, report), {}
    show.print_left_out(left_out)
    return queries, photos


def _print(analysis: CohortAnalysis, out: Path, notice: str) -> None:
    from mien.evaluation.cohort_rows import GroupResult, NearDisorder, strongest_first  # noqa: PLC0415
    from mien.report.cohort import group_in_words  # noqa: PLC0415

    near = rows_of(analysis.tables, "near_disorders", NearDisorder)
    for group in strongest_first(rows_of(analysis.tables, "groups", GroupResult)):
        words = show.printable(" ".join(group_in_words(group, near)))
        show.console().print(f"[bold]{show.printable(group.group)}[/]  {words}\n")
    if (used := analysis.facts["calibration"]) and used["stale"]:
        show.note("the gallery has changed since its calibration: run 'mien calibrate' again")
    show.console().print(f"[dim]{notice}[/]")
    show.print_line(f"The report is {show.printable(str(out / PAGE))}.")

"""`mien rank`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mien.answers.calibration import COVERAGE
from mien.answers.examination import examine
from mien.answers.genes import genes_of
from mien.answers.ranking import Ranking
from mien.answers.ranking import rank as rank_queries
from mien.cli import options, show
from mien.core.cohort import Query
from mien.core.method import FULL, Method
from mien.errors import shown_ids
from mien.report.gene_exports import EXPORTS
from mien.report.rankings import check_output_file, examination_document, ranking_document, ranking_rows, write_rows
from mien.storage.gallery import Gallery
from mien.storage.loading import Source, load_queries
from mien.storage.outputs import private_file
from mien.storage.sharded import AnyGallery, ShardedGallery

if TYPE_CHECKING:
    from mien.storage.formats.phenopacket import Phenopacket

By = StrEnum("By", ["disorder", "gene"])
Format = StrEnum("Format", {name: name for name in EXPORTS})  # type: ignore[misc] # names come from elsewhere
QUERIES_PER_STEP = 500  # between two movements of the progress bar


@options.with_method
def rank(
    gallery: Annotated[list[Path], typer.Option(help="The gallery's directory; several count as one gallery.")],
    photos: Annotated[list[Path] | None, typer.Argument(metavar="PHOTO...", help="Photos of one patient.")] = None,
    encodings: options.EncodingsOption = None,
    metadata: options.MetadataOption = None,
    method: Method | None = None,
    phenopacket: Annotated[
        Path | None, typer.Option(help="A phenopacket, or a folder of them, that names the photos of its subject.")
    ] = None,
    top: Annotated[
        str | None, typer.Option(help="How many disorders or genes to list, or 'all'. Default: 10; with --format all.")
    ] = None,
    by: Annotated[
        By, typer.Option(help="List disorders, or the genes of a described gallery's disorders.")
    ] = By.disorder,
    format: Annotated[
        Format | None,
        typer.Option(metavar="NAME", help=f"Write genes as others read them: {', '.join(EXPORTS)}."),
    ] = None,
    project: Annotated[str, typer.Option(help="With --format seqr: the project's name there.")] = "mien",
    encoder: options.EncoderOption = None,
    face: options.FaceOption = None,
    device: options.DeviceOption = options.DeviceName.auto,
    follow_links: options.FollowLinksOption = False,
    allow_missing: options.AllowMissingOption = False,
    coverage: Annotated[
        float, typer.Option(help="With a calibration: how often the prediction set holds the true disorder.")
    ] = COVERAGE,
    cluster: options.ClusterOption = None,
    out: Annotated[Path | None, typer.Option(help="Write the rankings to a .json, .tsv or .parquet file.")] = None,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Rank the gallery's disorders for one or many patients, with the evidence for every rank."""
    if not 0 < coverage < 1:
        raise typer.BadParameter("give a share above 0 and below 1", param_hint="--coverage")
    limit = options.limit_of(top or ("all" if format else "10"))
    if out is not None:
        inputs = [encodings, phenopacket, *(photos or ()), *(metadata or ())]
        check_output_file(out, inputs=inputs, galleries=gallery, any_suffix=format is not None, force=force)
    _check_queries(photos, encodings, phenopacket, metadata, face)
    packets = _phenopackets(phenopacket)
    with _opened(gallery, cluster) as opened:
        chosen = _tuned(opened) if method is options.TUNED else method or FULL
        if encodings is not None:
            queries, beside = _encoded_queries(Source(encodings, metadata or (), encoder, allow_missing))
        else:
            from mien.cli.photos import queries_of_phenopackets, query_of_photos  # noqa: PLC0415 onnxruntime is heavy

            how = opened.encoder, options.PhotoOptions(encoder, face, device, follow_links)
            queries, beside = queries_of_phenopackets(packets, *how) if packets else query_of_photos(photos or [], *how)
        examination = None
        if by == By.gene or format:
            rankings = genes_of(opened, _rankings(opened, queries, chosen, None, coverage), chosen, limit)
        elif encodings is None and len(queries) == 1 and chosen.fusion != "none":
            with show.progress("ranking"):
                examination = examine(opened, queries[0], chosen, top=limit, coverage=coverage)
            rankings = [examination.ranking]
        else:
            rankings = _rankings(opened, queries, chosen, limit, coverage)
    if out is None and not json and format is None:
        show.print_answer(rankings, opened, chosen, examination.evidence if examination else ())
        return
    answer = examination_document(examination, opened, chosen) if examination else None
    document = {**(answer or ranking_document(rankings, opened, chosen)), **beside}
    _add_packets(document, packets, queries, chosen)
    if format is not None:
        _export(format, document, project, out)
        return
    if out is not None:
        write_rows(out, document, ranking_rows(document))
        show.note(f"{out}: {len(rankings):,} rankings")
    if json:
        show.print_json(document)


def _phenopackets(path: Path | None) -> list[Phenopacket]:
    if path is None:
        return []
    from mien.storage.formats.phenopacket import read_phenopackets  # noqa: PLC0415 pydantic is heavy

    return read_phenopackets(path)


def _add_packets(
    document: dict[str, Any], packets: Sequence[Phenopacket], queries: Sequence[Query], method: Method
) -> None:
    """Adds to each answer the packet it is about. With fusion none, a packet has an answer for each photo."""
    most = None if method.fusion == "none" else 1
    pairs = zip(packets, queries, strict=False)  # no packets where photos or encodings are given
    of_answers = [packet for packet, query in pairs for _ in query.encodings.image_ids[:most]]
    for query, packet in zip(document["queries"], of_answers, strict=False):
        query["phenopacket"] = packet.as_dict()


def _export(name: Format, document: dict[str, Any], project: str, out: Path | None) -> None:
    """Writes genes in another program's format; notes on stderr what that format cannot hold."""
    export = EXPORTS[name](document, project)
    if out is None:
        sys.stdout.write(export.text)
    else:
        with private_file(out) as file:
            file.write(export.text.encode())
    if export.left_out:
        show.note(f"{export.left_out:,} lines {export.why} were left out")
    if missing := {disorder_id for query in document["queries"] for disorder_id in query["not_described"]}:
        show.note(f"{len(missing):,} disorders are not described: {shown_ids(sorted(missing))}")


@contextmanager
def _opened(directories: list[Path], cluster: str | None) -> Iterator[AnyGallery]:
    """Opens one gallery, or several as one; in this process, or on the workers of a cluster."""
    if cluster is None and len(directories) == 1:
        gallery = Gallery.open(directories[0])
        gallery.index  # noqa: B018 an empty gallery is refused before anything is read
        yield gallery
    elif cluster is None:
        yield ShardedGallery.open(directories)
    else:
        from mien.cluster.connection import connected  # noqa: PLC0415 heavy
        from mien.cluster.galleries import open_galleries  # noqa: PLC0415

        with connected(cluster, show.note) as workers:
            yield open_galleries(workers, directories)


def _tuned(gallery: AnyGallery) -> Method:
    if not isinstance(gallery, Gallery):
        raise typer.BadParameter("--method tuned is that of one gallery: give one, and no cluster")
    return gallery.tuned_method


def _rankings(
    gallery: AnyGallery, queries: Sequence[Query], method: Method, top: int | None, coverage: float
) -> list[Ranking]:
    with show.progress("ranking") as report:
        rankings = []
        for start in range(0, len(queries), QUERIES_PER_STEP):
            step = queries[start : start + QUERIES_PER_STEP]
            rankings += rank_queries(gallery, step, method, top=top, coverage=coverage)
            report(start + len(step), len(queries))
    return rankings


def _check_queries(
    photos: list[Path] | None,
    encodings: Path | None,
    phenopacket: Path | None,
    metadata: list[Path] | None,
    face: list[str] | None,
) -> None:
    """Refuses options that contradict each other, before anything is opened."""
    if sum((encodings is not None, bool(photos), phenopacket is not None)) != 1:
        raise typer.BadParameter("give either photos of one patient, --encodings or --phenopacket")
    if encodings is None and metadata:
        raise typer.BadParameter("--metadata belongs to --encodings: all photos are of one patient")
    if face and encodings:
        raise typer.BadParameter("--face belongs to photos")
    if any(given.rpartition("=")[2] == "official" for given in face or ()):
        raise typer.BadParameter("--face official is for studies: of a patient, say which face is meant")


def _encoded_queries(source: Source) -> tuple[list[Query], dict[str, Any]]:
    """The queries of a file of encodings, and what else the answer says."""
    with show.progress("reading encodings") as report:
        queries, left_out = load_queries(source, report)
    show.print_left_out(left_out)
    if queries[0].patient_id is None and (count := len(queries[0].encodings.image_ids)) > 1:
        tables = "--metadata names no patient" if source.metadata else "no --metadata"
        show.note(f"no column patient_id and {tables}: all {count:,} images are taken as one patient")
    missing = left_out.images_without_encoding
    return queries, {"images_without_encoding": missing} if missing else {}

"""`mien rank`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from mien.cli import options, show
from mien.core.answers import Ranking
from mien.core.calibration import COVERAGE
from mien.core.cohort import Query
from mien.core.encoder import Encoder
from mien.core.examination import examine
from mien.core.method import FULL, Method
from mien.core.ranking import rank as rank_queries
from mien.report.rankings import check_out, examination_document, ranking_document, write_rankings
from mien.storage.gallery import Gallery
from mien.storage.loading import Source, load_queries
from mien.storage.outputs import refuse_existing
from mien.storage.sharded import AnyGallery, ShardedGallery

QUERIES_PER_STEP = 500  # between two movements of the progress bar


@options.with_method
def rank(
    gallery: Annotated[list[Path], typer.Option(help="The gallery's directory; several count as one gallery.")],
    photos: Annotated[list[Path] | None, typer.Argument(metavar="[PHOTO...]", help="Photos of one patient.")] = None,
    encodings: options.EncodingsOption = None,
    metadata: options.MetadataOption = None,
    method: Method | None = None,
    top: Annotated[str, typer.Option(help="How many disorders to list, or 'all'.")] = "10",
    encoder: options.EncoderOption = None,
    face: options.FaceOption = None,
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
    if not (top.lower() == "all" or (top.isdecimal() and int(top) > 0)):
        raise typer.BadParameter("give a number of disorders from 1 on, or 'all'", param_hint="--top")
    if out is not None:
        check_out(out, inputs=[*([encodings] if encodings else photos or ()), *(metadata or ())], galleries=gallery)
        refuse_existing(out, force=force)
    _check_queries(photos, encodings, metadata, face)
    limit = None if top.lower() == "all" else int(top)
    with _opened(gallery, cluster) as opened:
        chosen = _tuned(opened) if method is options.TUNED else method or FULL
        queries, beside = _queries(
            photos, encodings, metadata, encoder, face, opened.encoder, allow_missing=allow_missing
        )
        examination = None
        if photos and chosen.fusion != "none":
            with show.progress("ranking"):
                examination = examine(opened, queries[0], chosen, top=limit, coverage=coverage)
            rankings = [examination.ranking]
        else:
            rankings = _rankings(opened, queries, chosen, limit, coverage)
    if out is None and not json:
        show.print_answer(rankings, opened, chosen, examination.evidence if examination else ())
        return
    of_rankings = examination_document(examination, opened, chosen) if examination else None
    document = {**(of_rankings or ranking_document(rankings, opened, chosen)), **beside}
    if out is not None:
        write_rankings(out, document)
        show.note(f"{out}: {len(rankings):,} rankings")
    if json:
        show.print_json(document)


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
    photos: list[Path] | None, encodings: Path | None, metadata: list[Path] | None, face: list[str] | None
) -> None:
    """Refuses options that contradict each other, before anything is opened."""
    if (encodings is None) == (not photos):
        raise typer.BadParameter("give either photos of one patient or --encodings")
    if photos and metadata:
        raise typer.BadParameter("--metadata belongs to --encodings: all photos are of one patient")
    if face and not photos:
        raise typer.BadParameter("--face belongs to photos")
    if any(given.rpartition("=")[2] == "official" for given in face or ()):
        raise typer.BadParameter("--face official is for studies: of a patient, say which face is meant")


def _queries(
    photos: list[Path] | None,
    encodings: Path | None,
    metadata: list[Path] | None,
    encoder: str | None,
    face: list[str] | None,
    of_gallery: Encoder | None,
    *,
    allow_missing: bool,
) -> tuple[list[Query], dict[str, Any]]:
    """The queries that the options name, and what else the answer says."""
    if encodings is not None:
        with show.progress("reading encodings") as report:
            queries, left_out = load_queries(Source(encodings, metadata or (), encoder, allow_missing), report)
        show.print_left_out(left_out)
        missing = left_out.images_without_encoding
        return queries, {"images_without_encoding": missing} if missing else {}
    from mien.cli.photos import query_of_photos  # noqa: PLC0415 onnxruntime is heavy

    query, beside = query_of_photos(photos or [], of_gallery, encoder, face)
    return [query], beside

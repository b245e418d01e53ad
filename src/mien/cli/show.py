"""Prints results, tables and notes on the terminal; shows progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mien.answers.examination import DisorderEvidence
from mien.answers.ranking import RankedDisorder, RankedGene, Ranking, answer_in_words, notice_for, percent
from mien.core.method import Method
from mien.errors import shown, shown_ids
from mien.progress import Progress as ReportProgress
from mien.storage.gallery import Gallery
from mien.storage.loading import LeftOut
from mien.storage.sharded import AnyGallery

if TYPE_CHECKING:
    from mien.encoding.store import StoredEncoder  # onnxruntime is heavy

MOST_TABLES = 3
WIDTH_OF_FILES = 120  # where there is no terminal to ask
SIMULATED = "[bold yellow]Simulated data:[/] nobody here exists; the numbers say nothing about real patients.\n"
LINES_IN_SUMMARY = 3
NEAREST_IMAGE = "nearest image (patient)"
MOST_REMARKS = 10


def console() -> Console:
    wide = None if sys.stdout.isatty() else WIDTH_OF_FILES
    return Console(highlight=False, width=wide)


def print_json(document: dict[str, Any]) -> None:
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


def print_line(line: str) -> None:
    """Prints a line on stdout. A terminal breaks a long line, a file gets it whole."""
    console().print(line, soft_wrap=True)


def print_result(document: dict[str, Any], *parts: RenderableType, as_json: bool) -> None:
    """Prints a result on stdout, as one JSON document or for people: lines, tables, and texts that are wrapped."""
    if as_json:
        print_json(document)
    else:
        for part in parts:
            console().print(part, soft_wrap=isinstance(part, str))


def table_of(headings: Iterable[str], words: Collection[str], *, title: str | None = None, apart: int = 2) -> Table:
    """An empty table without rules; columns of `words` are aligned left, the others right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, apart, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right", overflow="fold")
    return table


@contextmanager
def progress(what: str) -> Iterator[ReportProgress]:
    """Shows a progress bar on stderr while the work is done. Call the result with (done, all)."""
    with named_progress(what) as report:
        yield lambda done, total: report(what, done, total)


@contextmanager
def named_progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Shows a progress bar for work in several steps. Call the result with (name of the step, done, all)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)


def printable(value: str | None) -> str:
    """An id or a name with control characters and markup escaped."""
    return "" if value is None else escape(value if value.isprintable() else shown(value)[1:-1])


def note(line: str) -> None:
    """Prints a remark on stderr, because stdout is for results only."""
    sys.stderr.write(f"{line}\n")


def print_left_out(left_out: LeftOut) -> None:
    """Prints on stderr which images were left out of the join of encodings and metadata."""
    if left_out.encodings_without_metadata:
        note(f"{left_out.encodings_without_metadata:,} images are in no table and were left out")
    if missing := left_out.images_without_encoding:
        note(f"{len(missing):,} images of the tables have no encoding and were left out: {shown_ids(missing)}")


def print_first(lines: Sequence[str], what: str) -> None:
    """Prints the first remarks on stderr, and how many there are in all."""
    for line in lines[:MOST_REMARKS]:
        note(line)
    if len(lines) > MOST_REMARKS:
        note(f"… in all {len(lines):,} {what}")


def print_encoder(stored: StoredEncoder, missing: Sequence[str], damaged: Sequence[str]) -> None:
    """Prints an encoder's parts, where each comes from, and whether it is there."""
    manifest = stored.manifest
    print_line(
        f"[bold]{printable(manifest.name)}[/]: {manifest.encoder.representations} x {manifest.encoder.dimensions},"
        f" {'not complete in' if missing or damaged else 'in'} {printable(str(stored.folder))}"
    )
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for role, part in manifest.parts.items():
        there = "[yellow]missing[/]" if role in missing else "[red]damaged[/]" if role in damaged else "[green]ready[/]"
        table.add_row(printable(role), there, printable(part.source), printable(part.licence))
    console().print(table)


def print_answer(
    rankings: Sequence[Ranking], gallery: AnyGallery, method: Method, evidence: Sequence[DisorderEvidence] = ()
) -> None:
    """Prints rankings with gallery, method and notice."""
    counts = gallery.as_dict()
    print_line(
        f"[bold]gallery[/] {printable(str(gallery))}, generation {gallery.generation}:"
        f" {counts['images']:,} images of {counts['patients']:,} patients with {counts['disorders']:,} disorders,"
        f" {printable(str(gallery.encoder))}"
    )
    console().print(f"[bold]method[/]  {', '.join(f'{name} {value}' for name, value in method.as_dict().items())}\n")
    print_rankings(rankings, evidence)
    legend = " Average: to the mean of the disorder's patients; nearest: to its most similar photo."
    if any(ranking.calibration for ranking in rankings):
        legend += " Percent: probability; *: in the prediction set."
        if len(rankings) <= MOST_TABLES:
            legend += " Ratio: how much likelier this face is with the disorder than with one that is not in the"
            legend += " gallery, before the prior."
    console().print(f"\n[dim]Distances: smaller is closer.{legend}[/] {notice_for(gallery.encoder)}")


def print_rankings(rankings: Sequence[Ranking], evidence: Sequence[DisorderEvidence] = ()) -> None:
    """Prints a table per query, or one table for many queries. Evidence is that of a single query."""
    if len(rankings) > MOST_TABLES:
        console().print(_summary(rankings))
    else:
        for ranking in rankings:
            for line in answer_in_words(ranking):
                print_line(printable(line))
            console().print(_ranking_table(ranking, evidence) if ranking.genes is None else _gene_table(ranking))
            if ranking.not_described:
                left_out = f"{len(ranking.not_described):,} disorders are not described: "
                print_line(left_out + escape(shown_ids(ranking.not_described)))


def _images(ranking: Ranking) -> str:
    count = len(ranking.image_ids)
    return f"{count} images" if count > 1 else f"image {printable(ranking.image_ids[0])}"


def _whose(ranking: Ranking) -> str:
    who = "query" if ranking.patient_id is None else f"patient {printable(ranking.patient_id)}"
    left_out = ", ".join(printable(patient) for patient in ranking.excluded_gallery_patients)
    return f"{who}, {_images(ranking)}" + (f" (left out of the gallery: {left_out})" if left_out else "")


def _disorder(line: RankedDisorder | RankedGene) -> str:
    if isinstance(line, RankedGene):
        return printable(line.gene_symbol or line.disorder_name or line.disorder_id)
    ids = " ".join(part for part in (line.disorder_id, line.omim) if part)
    return f"{printable(line.disorder_name)} [dim]{printable(ids)}[/]" if line.disorder_name else printable(ids)


def _ranking_table(ranking: Ranking, evidence: Sequence[DisorderEvidence]) -> Table:
    by_photo = bool(evidence) and len(ranking.image_ids) > 1
    headings = ["", "disorder", "distance", "average", "nearest", NEAREST_IMAGE, "images (patients)"]
    headings += _sureness_headings(ranking) + ["rank by each photo"] * by_photo
    table = table_of(headings, {"disorder", NEAREST_IMAGE}, title=_whose(ranking), apart=1)
    for place, line in enumerate(ranking.disorders):
        of_photos = [str(standing.rank) for standing in evidence[place].alone] if by_photo else []
        table.add_row(
            str(line.rank),
            _disorder(line),
            f"[bold]{line.distance:.4f}[/]",
            f"{line.centroid_distance:.4f}",
            f"{line.nearest_distance:.4f}",
            f"{printable(line.nearest_image_id)} ({printable(line.nearest_patient_id)})",
            f"{line.gallery_images} ({line.gallery_patients})",
            *_sureness(line, ranking),
            *([", ".join(of_photos)] if of_photos else ()),
        )
    return table


def _gene_table(ranking: Ranking) -> Table:
    headings = ["", "gene", "distance", "nearest disorder", NEAREST_IMAGE, *_sureness_headings(ranking)]
    table = table_of(headings, {"gene", "nearest disorder", NEAREST_IMAGE}, title=_whose(ranking), apart=1)
    for line in ranking.genes or ():
        ids = " ".join(part for part in (line.entrez_id, line.hgnc_id, line.ensembl_id) if part)
        table.add_row(
            str(line.rank),
            f"{printable(line.gene_symbol)} [dim]{printable(ids)}[/]" if line.gene_symbol else "[dim]no gene[/]",
            f"[bold]{line.distance:.4f}[/]",
            printable(line.disorder_name or line.disorder_id),
            f"{printable(line.nearest_image_id)} ({printable(line.nearest_patient_id)})",
            *_sureness(line, ranking),
        )
    return table


def _sureness_headings(ranking: Ranking) -> list[str]:
    return ["probability", "ratio"] if ranking.prediction_set else []


def _sureness(line: RankedDisorder | RankedGene, ranking: Ranking) -> list[str]:
    """Probability, and likelihood ratio; nothing without a calibration."""
    if ranking.prediction_set is None:
        return []
    star = " *" if line.disorder_id in ranking.prediction_set.disorder_ids else "  "
    return [percent(line.probability or 0) + star, f"{10 ** (line.log10_likelihood_ratio or 0):.3g}"]


def _summary(rankings: Sequence[Ranking]) -> Table:
    listed = [ranking.disorders if ranking.genes is None else ranking.genes for ranking in rankings]
    lines = min(LINES_IN_SUMMARY, max(map(len, listed)))
    excluding = any(ranking.excluded_gallery_patients for ranking in rankings)
    names = ["patient", "images", *[f"rank {n + 1}" for n in range(lines)], *["left out of the gallery"] * excluding]
    table = table_of(names, names)
    for ranking, ranked in zip(rankings, listed, strict=True):
        shown = ranked[:lines]
        first = [" ".join([_disorder(line), f"{line.distance:.4f}", *_sureness(line, ranking)[:1]]) for line in shown]
        first += [""] * (lines - len(first))
        left_out = [", ".join(printable(patient) for patient in ranking.excluded_gallery_patients)] * excluding
        table.add_row(printable(ranking.patient_id) or "query", _images(ranking), *first, *left_out)
    return table


def gallery_table(gallery: Gallery, document: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in {**document, "encoder": str(gallery.encoder or "none yet")}.items():
        if isinstance(value, dict):
            described = ", ".join(f"{key.replace('_', ' ')} {item}" for key, item in value.items() if item is not None)
        elif isinstance(value, list):
            described = "; ".join(value) or "nothing"
        else:
            described = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), printable(described))
    return table

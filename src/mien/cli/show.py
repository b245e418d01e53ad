"""Prints results, tables and notes on the terminal; shows progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from mien.benchmark.measure import Line
from mien.core.answers import NOTICE, RankedDisorder, Ranking
from mien.core.errors import shown, shown_ids
from mien.core.examination import DisorderEvidence
from mien.core.method import Method
from mien.core.progress import Progress as ReportProgress
from mien.report.sureness import percent, sureness_in_words
from mien.storage.gallery import Gallery
from mien.storage.loading import LeftOut
from mien.storage.sharded import AnyGallery

if TYPE_CHECKING:
    from mien.encoding.store import StoredEncoder  # onnxruntime is heavy

MOST_TABLES = 3
WIDTH_OF_FILES = 120  # where there is no terminal to ask
SIMULATED = "nobody here exists; the numbers say nothing about real patients."
LINES_IN_SUMMARY = 3
MOST_REMARKS = 10


def console() -> Console:
    """The console on stdout, for results."""
    wide = None if sys.stdout.isatty() else WIDTH_OF_FILES
    return Console(highlight=False, width=wide)


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


@contextmanager
def progress(what: str) -> Iterator[ReportProgress]:
    """Shows a progress bar on stderr until the work is done; call the result with (done, all)."""
    with named_progress(what) as report:
        yield lambda done, total: report(what, done, total)


@contextmanager
def named_progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Shows a progress bar for work in several steps; call the result with (what, done, all)."""
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


def text(value: str | None) -> str:
    """An id or a name that is safe to print: control characters and markup are escaped."""
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
    """Prints an encoder's parts, their sources, and whether they are there."""
    manifest = stored.manifest
    console().print(
        f"[bold]{text(manifest.name)}[/]: {manifest.encoder.representations} x {manifest.encoder.dimensions},"
        f" {'not complete in' if missing or damaged else 'in'} {text(str(stored.folder))}",
        soft_wrap=True,
    )
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for role, part in manifest.parts.items():
        there = "[yellow]missing[/]" if role in missing else "[red]damaged[/]" if role in damaged else "[green]ready[/]"
        table.add_row(text(role), there, text(part.source), text(part.licence))
    console().print(table)


def print_answer(
    rankings: Sequence[Ranking], gallery: AnyGallery, method: Method, evidence: Sequence[DisorderEvidence] = ()
) -> None:
    """Prints rankings with gallery, method and notice."""
    counts = gallery.as_dict()
    console().print(
        f"[bold]gallery[/] {text(str(gallery))}, generation {gallery.generation}:"
        f" {counts['images']:,} images of {counts['patients']:,} patients with {counts['disorders']:,} disorders,"
        f" {text(str(gallery.encoder))}",
        soft_wrap=True,
    )
    console().print(f"[bold]method[/]  {', '.join(f'{name} {value}' for name, value in method.as_dict().items())}\n")
    print_rankings(rankings, evidence)
    calibrated = any(ranking.calibration for ranking in rankings)
    legend = " *: in the prediction set. Ratio: how much likelier than none of these." if calibrated else ""
    console().print(f"\n[dim]Distances: smaller is closer.{legend} {NOTICE}[/]")


def print_rankings(rankings: Sequence[Ranking], evidence: Sequence[DisorderEvidence] = ()) -> None:
    """Prints a table per query, or one table for many queries. Evidence is that of a single query."""
    if len(rankings) > MOST_TABLES:
        console().print(_summary(rankings))
    else:
        for ranking in rankings:
            for line in sureness_in_words(ranking):
                console().print(text(line), soft_wrap=True)
            console().print(_ranking_table(ranking, evidence))


def _images(ranking: Ranking) -> str:
    count = len(ranking.image_ids)
    return f"{count} images" if count > 1 else f"image {text(ranking.image_ids[0])}"


def _whose(ranking: Ranking) -> str:
    who = "query" if ranking.patient_id is None else f"patient {text(ranking.patient_id)}"
    left_out = ", ".join(text(patient) for patient in ranking.excluded_gallery_patients)
    return f"{who}, {_images(ranking)}" + (f" (left out of the gallery: {left_out})" if left_out else "")


def _disorder(line: RankedDisorder) -> str:
    ids = " ".join(part for part in (line.disorder_id, line.omim) if part)
    return f"{text(line.disorder_name)} [dim]{text(ids)}[/]" if line.disorder_name else text(ids)


def _ranking_table(ranking: Ranking, evidence: Sequence[DisorderEvidence]) -> Table:
    table = Table(title=_whose(ranking), title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    table.add_column("", justify="right")
    table.add_column("disorder", ratio=2, overflow="fold")
    table.add_column("distance", justify="right")
    table.add_column("centroid", justify="right")
    table.add_column("nearest", justify="right")
    table.add_column("nearest image (patient)", ratio=1, overflow="fold")
    table.add_column("images (patients)", justify="right")
    several, calibrated = len(ranking.image_ids) > 1, ranking.prediction_set is not None
    inside = ranking.prediction_set.disorder_ids if ranking.prediction_set else ()
    if calibrated:
        table.add_column("probability", justify="right")
        table.add_column("ratio", justify="right")
    if evidence and several:
        table.add_column("rank by each photo", justify="right")
    for place, line in enumerate(ranking.disorders):
        of_photos = [str(standing.rank) for standing in evidence[place].alone] if evidence and several else []
        table.add_row(
            str(line.rank),
            _disorder(line),
            f"[bold]{line.distance:.4f}[/]",
            f"{line.centroid_distance:.4f}",
            f"{line.nearest_distance:.4f}",
            f"{text(line.nearest_image_id)} ({text(line.nearest_patient_id)})",
            f"{line.gallery_images} ({line.gallery_patients})",
            *(_sureness(line, inside) if calibrated else ()),
            *([", ".join(of_photos)] if of_photos else ()),
        )
    return table


def _sureness(line: RankedDisorder, prediction_set: Sequence[str]) -> tuple[str, str]:
    """Probability, and likelihood ratio."""
    star = " *" if line.disorder_id in prediction_set else "  "
    return percent(line.probability or 0) + star, f"{10 ** (line.log10_likelihood_ratio or 0):.3g}"


def _summary(rankings: Sequence[Ranking]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    lines = min(LINES_IN_SUMMARY, max(len(ranking.disorders) for ranking in rankings))
    excluding = any(ranking.excluded_gallery_patients for ranking in rankings)
    names = ["patient", "images", *[f"rank {n + 1}" for n in range(lines)], *["left out of the gallery"] * excluding]
    for name in names:
        table.add_column(name, overflow="fold")
    for ranking in rankings:
        first = [f"{_disorder(line)} {line.distance:.4f}" for line in ranking.disorders[:lines]]
        first += [""] * (lines - len(first))
        left_out = [", ".join(text(patient) for patient in ranking.excluded_gallery_patients)] * excluding
        table.add_row(text(ranking.patient_id) or "query", _images(ranking), *first, *left_out)
    return table


def print_simulated() -> None:
    """Prints the banner of simulated data."""
    console().print(f"[bold yellow]Simulated data:[/] {SIMULATED}\n")


def print_gallery(gallery: Gallery, document: dict[str, Any]) -> None:
    """Prints what a gallery holds."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in {**document, "encoder": str(gallery.encoder or "none yet")}.items():
        if isinstance(value, dict):
            described = ", ".join(f"{key.replace('_', ' ')} {item}" for key, item in value.items() if item is not None)
        elif isinstance(value, list):
            described = "; ".join(value) or "nothing"
        else:
            described = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), text(described))
    console().print(table)


def print_benchmarks(lines: Sequence[Line]) -> None:
    """Prints times and ratios as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "found", "compared with", "there", "ratio", "wanted"):
        table.add_column(name, justify="right" if name in ("found", "there", "ratio") else "left")
    for line in lines:
        scale, unit = (1000, "ms") if line.unit == "s" else (1, line.unit)
        found, there = (f"{scale * amount:,.1f} {unit}" for amount in (line.amount, line.reference))
        table.add_row(line.what, found, line.compared_with, there, f"[bold]{line.ratio:.3g}[/]", line.wanted)
    console().print(table)

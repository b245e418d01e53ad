"""Writes the report as one HTML file that needs no other files and no network."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mien.answers.ranking import NOTICE
from mien.core.method import BASELINE, FULL
from mien.errors import shown_ids
from mien.evaluation.agreement import mean_absolute_error, worst
from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.findings import Finding
from mien.evaluation.published import SET_NAMES, published_accuracy
from mien.evaluation.results import Result
from mien.report.evaluation import NORMALISED
from mien.report.figures import FIGURES, figures_of
from mien.report.figures.style import patients_told
from mien.report.sections import SECTIONS
from mien.report.tables import WORDS, Column, TableCell, columns_of, has_published, in_words

if TYPE_CHECKING:
    from jinja2 import Environment

    from mien.report.reproduction import Reproduction

ROWS_SHOWN = 8  # a longer table is folded up below its figure


def page(done: Reproduction, figures: Path) -> str:
    """The HTML, with the figures of that folder inside."""
    errors = [TableCell(f"{cell.error:+.2f}") for cell in done.cells]
    return (
        environment()
        .get_template("reproduction.html")
        .render(
            done=done,
            notice=NOTICE,
            normalised=NORMALISED,
            words=WORDS,
            cards=list(_cards(rows_of(done.tables, "headline", Result))),
            error=mean_absolute_error(done.cells),
            worst=worst(done.cells),
            agreement=data_address(figures / "agreement.svg"),
            cells=[*columns_of(done.cells), Column("Difference (points)", numeric=True, cells=errors)],
            parts=list(_parts(figures, done.tables, done.findings)),
            left_out=list(_left_out(done.protocol)),
            seed=done.protocol["bootstrap"]["seed"],
        )
    )


def environment() -> Environment:
    """Renders the templates of reports."""
    from jinja2 import Environment, PackageLoader  # noqa: PLC0415 only here

    made = Environment(loader=PackageLoader("mien.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"in_words": in_words, "anchor": lambda paper: paper.lower().replace(" ", "-")}
    return made


def _cards(headline: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """The top-1 accuracies of each test set, shown large: baseline and full method."""
    for test_set in dict.fromkeys(result.set for result in headline):
        of_method = {result.method: result for result in headline if result.set == test_set}
        before, after = (published_accuracy(test_set, method) for method in (BASELINE, FULL))
        yield {
            "name": SET_NAMES[test_set],
            "patients": patients_told(test_set, of_method[FULL].patients),
            "baseline": of_method[BASELINE],
            "full": of_method[FULL],
            "published": (before.top1, after.top1) if before and after else None,
        }


def _parts(figures: Path, tables: Tables, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    drawn = figures_of(tables)
    for section in SECTIONS:
        needed = {*section.tables, *(FIGURES[name][0] for name in section.figures)}
        if not needed & tables.keys():
            continue  # its experiment was not asked for
        addresses = [data_address(figures / f"{name}.svg") for name in section.figures if name in drawn]
        shown = [
            {
                "name": name,
                "title": title,
                "columns": columns,
                "published": has_published(columns),
                "folded": addresses and len(rows) > ROWS_SHOWN,
            }
            for name, title in section.tables.items()
            if (rows := tables.get(name))
            for columns in [list(columns_of(rows))]
        ]
        own = [found for found in findings if found.where.split(",")[0] == section.paper]
        yield {"section": section, "figures": addresses, "tables": shown, "findings": own}


def _left_out(protocol: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a sentence about patients who were left out, and their ids."""
    left_out = {
        f"Test patients whose disorder the {gallery} gallery lacks: misses at every N": ids
        for gallery, ids in protocol["not_in_gallery"].items()
    } | {
        f"Fold {fold}: test patients who are in the gallery too, left out of it for their own queries": ids
        for fold, ids in protocol["tested_and_in_gallery"]["of_fold"].items()
    }
    yield from ((what, f"{len(ids):,}: {shown_ids(ids)}") for what, ids in left_out.items() if ids)


def data_address(path: Path) -> str:
    """A figure as an address that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"

"""Every table and figure of the paper, as files and as one page."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mien.core.errors import MienError
from mien.core.method import BASELINE, FULL
from mien.core.study import Study
from mien.evaluation.agreement import (
    Cell,
    Finding,
    accuracy_cells,
    findings,
    mean_absolute_error,
    mean_cells,
    worst,
)
from mien.evaluation.cases import rounds_of
from mien.evaluation.comparison import Comparison
from mien.evaluation.experiments import EXPERIMENTS
from mien.evaluation.experiments.proportional import ALPHAS
from mien.evaluation.lab import Lab, Release, Tables, rows_of
from mien.evaluation.published import DISTANCES, SPLITS, published_accuracy
from mien.evaluation.results import Result
from mien.report.evaluation import as_row, protocol_document
from mien.report.figures import FIGURES
from mien.report.figures.style import SET_NAMES, draw_and_save
from mien.report.rankings import NOTICE
from mien.report.sections import SECTIONS, Section
from mien.version import __version__

RESULTS, PAGE = "results.json", "index.html"
Progress = Callable[[str, int, int], None]  # what is done, how many steps are done, of how many


class Reproduction(NamedTuple):
    """A finished run."""

    study: Study
    protocol: dict[str, Any]
    tables: Tables
    findings: list[Finding]
    runs: int  # whose mean the agreement is

    @property
    def cells(self) -> list[Cell]:
        """Measured against published."""
        return rows_of(self.tables, "agreement", Cell)


def reproduce(
    study: Study,
    out: Path,
    *,
    seed: int,
    releases: Sequence[Release] = (),
    siblings: Sequence[Callable[[], Study]] = (),
    progress: Progress = lambda _what, _done, _all: None,
) -> Reproduction:
    """Runs all experiments and writes all files. Siblings are simulated alike: the agreement is the mean over all."""
    check_out(out)
    names = ["compare", *EXPERIMENTS, *["siblings"] * len(siblings), "figures"]
    steps = iter(range(len(names)))

    def step(name: str) -> Callable[[int, int], None]:
        done = next(steps)
        progress(name.replace("_", " "), 100 * done, 100 * len(names))
        return lambda part, of: progress(
            name.replace("_", " "), 100 * done + 100 * part // max(of, 1), 100 * len(names)
        )

    comparison = Comparison(study.encodings, rounds_of(study), alphas=ALPHAS, progress=step("compare"))
    tables: Tables = {}
    for name, run in EXPERIMENTS.items():
        tables |= run(Lab(study, comparison, seed, releases, step(name)))
    cells = [accuracy_cells(comparison)]
    protocol = protocol_document(study, comparison, seed=seed)
    del comparison
    for sibling in siblings:
        other = sibling()
        cells.append(accuracy_cells(Comparison(other.encodings, rounds_of(other), progress=step("siblings"))))
    tables["agreement"] = mean_cells(cells)
    done = Reproduction(study, protocol, tables, findings(tables), len(cells))
    step("figures")
    _write(out, done)
    return done


def check_out(out: Path) -> None:
    """Refuses a folder that holds something else than an earlier report."""
    if out.exists() and not out.is_dir():
        raise MienError(f"{out}: this is a file: give the name of a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / RESULTS).exists():
        raise MienError(f"{out}: the folder holds something else: give a new one, or an earlier report to replace")


def reproduction_document(done: Reproduction) -> dict[str, Any]:
    """The run as plain values, for JSON."""
    off = worst(done.cells)
    return {
        "tool": {"name": "mien", "version": __version__},
        "protocol": done.protocol,
        "agreement": {
            "accuracies": len(done.cells),
            "runs": done.runs,
            "mean_absolute_error": round(mean_absolute_error(done.cells), 6),
            "worst": {**as_row(off), "error": round(off.error, 6)},
        },
        "findings": [finding._asdict() for finding in done.findings],
        "tables": {name: [as_row(row) for row in rows] for name, rows in done.tables.items()},
        "notice": NOTICE,
    }


def _write(out: Path, done: Reproduction) -> None:
    for folder in ("tables", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for name, rows in done.tables.items():
        if rows:
            with (out / "tables" / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(as_row(rows[0])), lineterminator="\n")
                writer.writeheader()
                writer.writerows(as_row(row) for row in rows)
    for name, (needed, draw) in FIGURES.items():
        if done.tables[needed]:
            draw_and_save(draw, done.tables, out / "figures" / name, _note(done))
    (out / RESULTS).write_text(json.dumps(reproduction_document(done), indent=1) + "\n")
    (out / PAGE).write_text(_page(out, done))


def _note(done: Reproduction) -> str:
    kind = "Simulated data" if done.study.simulated else "Data"
    return f"{kind}: {done.study.source} · mien {__version__} · seed {done.protocol['bootstrap']['seed']}"


class _Part(NamedTuple):
    section: Section
    figures: list[tuple[str, str]]  # name and data address
    tables: list[tuple[str, list[dict[str, str]]]]


def _page(out: Path, done: Reproduction) -> str:
    import jinja2  # noqa: PLC0415 only here

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mien.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    headline = rows_of(done.tables, "headline", Result)
    figures = out / "figures"
    return environment.get_template("reproduction.html").render(
        done=done,
        note=_note(done),
        notice=NOTICE,
        set_names=SET_NAMES,
        cards=list(_cards(headline)),
        error=mean_absolute_error(done.cells),
        worst=worst(done.cells),
        agreement=_data_address(figures / "agreement.svg"),
        cells=[[cell, cell.error] for cell in done.cells],
        parts=list(_parts(figures, done)),
    )


def _cards(headline: Sequence[Result]) -> Iterator[dict[str, Any]]:
    for test_set in dict.fromkeys(result.set for result in headline):
        of_method = {result.method: result for result in headline if result.set == test_set}
        before, after = ((of_method[method].top1, published_accuracy(test_set, method)) for method in (BASELINE, FULL))
        yield {"name": SET_NAMES[test_set], "before": before, "after": after, "result": of_method[FULL]}


def _parts(figures: Path, done: Reproduction) -> Iterator[_Part]:
    for section in SECTIONS:
        shown = [
            (name, _data_address(figures / f"{name}.svg")) for name in section.figures if done.tables[FIGURES[name][0]]
        ]
        tables = [(name, list(map(_cells, done.tables[name]))) for name in section.tables if done.tables[name]]
        yield _Part(section, shown, tables)


def _cells(row: NamedTuple) -> dict[str, str]:
    """A row for people: few digits, the published figures beside ours, no empty columns."""
    shown = {name: _cell(name, value) for name, value in as_row(row).items()}
    if isinstance(row, Result):
        published = published_accuracy(row.set, row.method) if row.gallery == "unified" else None
        for name in ("top1", "top5", "top10"):
            value = getattr(published, name) if published else None
            shown[name] += f" ({value})" if value is not None else ""
        shown = {name: shown[name] for name in shown if name not in {"gallery", "alpha", "folds", "images"}} | (
            {"gallery": row.gallery}
        )
    name = str(row[0])
    if name in SPLITS:
        of = SPLITS[name]
        shown["published"] = " / ".join(
            "-" if value is None else f"{value:,}" for value in (of.images, of.patients, of.disorders)
        )
    if name in DISTANCES:
        shown["published"] = " / ".join(str(value) for value in DISTANCES[name] if value is not None)
    return shown


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        if name == "p_value":
            return "<0.001" if value < 0.001 else f"{value:.3f}"
        whole = value == int(value) and not name.startswith("top")
        return f"{value:,.0f}" if whole else f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _data_address(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"

"""Every table and figure of the paper, as files and as one page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mien.answers.ranking import NOTICE
from mien.core.study import Release, Study
from mien.evaluation.agreement import METHODS, Cell, accuracy_cells, mean_absolute_error, mean_cells, worst
from mien.evaluation.comparison import Comparison, ImagePlaces
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.experiment_context import ExperimentContext, Tables, rows_of
from mien.evaluation.experiments import EXPERIMENTS, methods_of
from mien.evaluation.findings import Finding
from mien.evaluation.paper_statements import findings
from mien.evaluation.parallel import in_parallel
from mien.progress import Progress
from mien.report.evaluation import as_row, protocol_document
from mien.report.figures import FIGURES, figures_of
from mien.report.figures.style import draw_and_save
from mien.report.page import page
from mien.report.report_folder import PAGE, check_report_folder, write_results
from mien.report.sections import SECTIONS
from mien.version import TOOL, __version__

NamedProgress = Callable[[str, int, int], None]  # what is done, how many steps are done, of how many
Sibling = tuple[Callable[[], Study], ImagePlaces | None]  # a study that is simulated alike, and where its images are

SHOWN = {needed for needed, _ in FIGURES.values()} | {name for section in SECTIONS for name in section.tables}
TABLES = SHOWN | {"confounders_missing"}


class Reproduction(NamedTuple):
    """A finished run."""

    study: Study
    protocol: dict[str, Any]
    tables: Tables
    findings: list[Finding]
    runs: int  # the agreement is their mean
    note: str  # where the numbers come from

    @property
    def cells(self) -> list[Cell]:
        """Measured against published."""
        return rows_of(self.tables, "agreement", Cell)


def reproduce(
    study: Study,
    out: Path,
    *,
    seed: int,
    only: Sequence[str] = tuple(EXPERIMENTS),
    force: bool = False,
    releases: Sequence[Release] = (),
    parts: ImagePlaces | None = None,
    siblings: Sequence[Sibling] = (),
    progress: NamedProgress = lambda _what, _done, _all: None,
) -> Reproduction:
    """Runs all experiments, or some only, and writes all files; figures are drawn while other experiments run.

    `parts`: where the gallery images are, if not here. The agreement with the paper is the mean over the study and its
    siblings.
    """
    check_report_folder(out, force=force)
    note = f"{'Simulated data' if study.simulated else 'Data'}: {study.source} · mien {__version__} · seed {seed}"
    names = ["compare", *only, *["siblings"] * len(siblings), "figures"]
    steps = iter(range(len(names)))

    def step(name: str) -> Progress:
        start, end = 100 * next(steps), 100 * len(names)
        progress(name.replace("_", " "), start, end)
        return lambda part, of: progress(name.replace("_", " "), start + 100 * part // max(of, 1), end)

    with TemporaryDirectory() as figures:  # with figures and no results, `out` would not be recognised as a report
        folds = evaluated_folds(study)
        comparison = Comparison(study.encodings, folds, methods=methods_of(only), parts=parts, progress=step("compare"))
        context = ExperimentContext(study, comparison, seed, releases)
        found: dict[str, Tables] = {}
        for name, of_experiment in in_parallel(lambda name: EXPERIMENTS[name](context), only):
            step(name)
            found[name] = of_experiment
            _draw(of_experiment, Path(figures), note)
        tables = {name: rows for experiment in only for name, rows in found[experiment].items()}
        others = [_sibling_cells(sibling, step("siblings")) for sibling in siblings]
        tables["agreement"] = mean_cells([accuracy_cells(comparison), *others])
        step("figures")
        runs = 1 + len(siblings)
        several = f", mean of {runs} seeds from there on" if siblings else ""
        _draw({"agreement": tables["agreement"]}, Path(figures), note + several)
        protocol = protocol_document(study, comparison, seed=seed)
        done = Reproduction(study, protocol, tables, findings(tables), runs, note)
        out.mkdir(parents=True, exist_ok=True)
        write_results(out, reproduction_document(done), tables, known_tables=TABLES, figures=FIGURES)
        for path in Path(figures).iterdir():
            shutil.move(path, out / "figures")
        (out / PAGE).write_text(page(done, out / "figures"))
    return done


def _sibling_cells(sibling: Sibling, progress: Progress) -> list[Cell]:
    simulated, places = sibling
    study = simulated()
    folds = evaluated_folds(study)
    return accuracy_cells(
        Comparison(study.encodings, folds, methods=METHODS, galleries=["unified"], parts=places, progress=progress)
    )


def reproduction_document(done: Reproduction) -> dict[str, Any]:
    """The run as plain values, for JSON."""
    off = worst(done.cells)
    return {
        "tool": TOOL,
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


def _draw(tables: Tables, folder: Path, note: str) -> None:
    """Draws the figures whose tables are there."""
    for name, draw in figures_of(tables).items():
        draw_and_save(draw, tables, folder / name, note)

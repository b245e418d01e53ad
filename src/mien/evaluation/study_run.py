"""Runs the experiments of a study, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mien.core.progress import Progress
from mien.core.study import Release, Study
from mien.evaluation.agreement import METHODS, accuracy_cells, mean_cells
from mien.evaluation.comparison import Comparison, ImagePlaces
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments import EXPERIMENTS, methods_of
from mien.evaluation.findings import Finding
from mien.evaluation.paper_statements import findings
from mien.evaluation.side_by_side import as_finished

NamedProgress = Callable[[str, int, int], None]  # what is done, how many steps are done, of how many
Sibling = tuple[Callable[[], Study], ImagePlaces | None]  # a study that is simulated alike, and where its images are


class StudyRun(NamedTuple):
    """What a run found."""

    comparison: Comparison
    tables: Tables
    findings: list[Finding]
    runs: int  # whose mean the agreement is


def run_study(
    study: Study,
    *,
    seed: int,
    only: Sequence[str] = tuple(EXPERIMENTS),
    releases: Sequence[Release] = (),
    parts: ImagePlaces | None = None,
    siblings: Sequence[Sibling] = (),
    progress: NamedProgress = lambda _what, _done, _all: None,
    on_tables: Callable[[Tables], None] = lambda _tables: None,
) -> StudyRun:
    """Runs all experiments, or some only; the agreement with the paper is the mean over the study and its siblings.

    `parts`: where the gallery images are, if not here. `on_tables` gets each experiment's tables while others run.
    """
    names = ["compare", *only, *["siblings"] * len(siblings), "figures"]
    steps = iter(range(len(names)))

    def step(name: str) -> Progress:
        done = next(steps)
        progress(name.replace("_", " "), 100 * done, 100 * len(names))
        return lambda part, of: progress(
            name.replace("_", " "), 100 * done + 100 * part // max(of, 1), 100 * len(names)
        )

    comparison = Comparison(
        study.encodings, evaluated_folds(study), methods=methods_of(only), parts=parts, progress=step("compare")
    )
    context = ExperimentContext(study, comparison, seed, releases)
    found: dict[str, Tables] = {}
    for name, of_experiment in as_finished(lambda name: EXPERIMENTS[name](context), only):
        step(name)
        found[name] = of_experiment
        on_tables(of_experiment)
    cells = [accuracy_cells(comparison)]
    for sibling, places in siblings:
        other = sibling()
        compared = Comparison(
            other.encodings,
            evaluated_folds(other),
            methods=METHODS,
            galleries=["unified"],
            parts=places,
            progress=step("siblings"),
        )
        cells.append(accuracy_cells(compared))
    step("figures")
    tables = {name: rows for experiment in only for name, rows in found[experiment].items()}
    tables["agreement"] = mean_cells(cells)
    return StudyRun(comparison, tables, findings(tables), len(cells))

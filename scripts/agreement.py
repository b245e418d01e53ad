"""How close the simulated GMDB comes to the paper: the whole study on databases that the calibration never saw.

Prints the tables of docs/simulation.md. Latent embeddings: the same distances but for the views' noise. Ten minutes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one process per core

import numpy as np

from mien.evaluation.agreement import Cell, accuracy_cells, mean_absolute_error, mean_cells, worst
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments import EXPERIMENTS, methods_of
from mien.evaluation.paper_statements import findings
from mien.evaluation.published import DISTANCES
from mien.simulation.embeddings import Layout
from mien.simulation.study import simulated_gmdb

LEFT_OUT = {"tsne", "overview", "growth", "settings"}  # drawings: the paper states no number of them


def studied(seed: int) -> tuple[list[Cell], Tables]:
    """The accuracies and all tables of one database."""
    study = simulated_gmdb(seed, layout=Layout(views=1, dimensions=None))
    comparison = Comparison(study.encodings, evaluated_folds(study), methods=methods_of(EXPERIMENTS))
    context = ExperimentContext(study, comparison, seed)
    tables: Tables = {}
    for name, run in EXPERIMENTS.items():
        tables |= {} if name in LEFT_OUT else run(context)
    return accuracy_cells(comparison), tables


def mean_tables(runs: Sequence[Tables]) -> Tables:
    """Each number as its mean over runs, where all of them have the row."""
    means: Tables = {}
    for name, rows in runs[0].items():
        if all(len(other[name]) == len(rows) for other in runs):
            means[name] = [_mean_row(same) for same in zip(*(other[name] for other in runs), strict=True)]
    return means


def _mean_row(rows: Sequence[tuple]) -> tuple:  # type: ignore[type-arg]
    values = (
        column[0] if len(set(column)) == 1 or not all(isinstance(x, float) for x in column) else float(np.mean(column))
        for column in zip(*rows, strict=True)
    )
    return type(rows[0])(*values)


def main() -> None:
    """Prints what the docs say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--statements", action="store_true", help="print every statement, of the mean over seeds")
    options = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        runs = list(pool.map(studied, options.seeds))
    tables = mean_tables([of_run for _, of_run in runs])
    cells = mean_cells([of_run for of_run, _ in runs])
    print("| | simulated | published |\n|---|---|---|")
    for key in dict.fromkeys((cell.set, cell.fusion, cell.score) for cell in cells):
        same = [cell for cell in cells if (cell.set, cell.fusion, cell.score) == key]
        tops = ", ".join(str(cell.top) for cell in same)
        measured, published = (
            " / ".join(f"{getattr(cell, name):.1f}" for cell in same) for name in ("measured", "published")
        )
        print(f"| {key[0]}, {key[1]} x {key[2]}, top-{tops} | {measured} | {published} |")
    for group in tables["distances"]:
        for name, published in DISTANCES[group.group].items():
            print(f"| {group.group}, {name.replace('_', ' ')} | {getattr(group, name):.3g} | {published} |")
    print(f"\nmean difference {mean_absolute_error(cells):.2f}, largest {worst(cells)}")
    print("each seed alone:", *(f"{mean_absolute_error(of_run):.2f}" for of_run, _ in runs))
    for seed, (_, of_run) in zip(options.seeds, runs, strict=True):
        found = findings(of_run)
        print(f"seed {seed}: {sum(finding.holds for finding in found)} of {len(found)} statements hold")
    found = findings(tables)
    print(f"mean over seeds: {sum(finding.holds for finding in found)} of {len(found)} statements hold")
    for finding in found if options.statements else ():
        print("+" if finding.holds else "-", *finding[:5], sep=" | ")


if __name__ == "__main__":
    main()

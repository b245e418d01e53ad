from __future__ import annotations

from dataclasses import replace

from mien.benchmark.studying import studying_benchmarks
from mien.simulation.embeddings import Layout
from mien.simulation.study import simulated_gmdb


def test_the_four_official_pairs_are_timed_against_the_usual_way():
    study = simulated_gmdb(1, layout=Layout(views=1, dimensions=None))
    line = next(studying_benchmarks(replace(study, folds=study.folds[:1])))
    assert line.amount > 0
    assert line.reference > 0

from __future__ import annotations

import dataclasses
from datetime import date

import pytest

from mien.core.study import Fold, Split
from mien.evaluation.agreement import accuracy_cells
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.experiment_context import ExperimentContext, Release
from mien.evaluation.experiments import EXPERIMENTS, methods_of, tsne
from mien.report.reproduction import reproduce

from studies import latent_gmdb, with_few_disorders


@pytest.fixture(scope="session", autouse=True)
def maps_drawn():
    """The map of the gallery takes longer than all other experiments together: it is small, and drawn once."""
    drawn, real = {}, tsne.tsne_positions

    def positions(rows, seed, **how):
        asked = rows.tobytes(), seed, *how.items()
        if asked not in drawn:
            drawn[asked] = real(rows, seed, **how)
        return drawn[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tsne, "DISORDERS", 2)
        patch.setattr(tsne, "ITERATIONS", 250)
        patch.setattr(tsne, "tsne_positions", positions)
        yield drawn


@pytest.fixture(scope="session")
def study():
    """Every eighth disorder of a simulated GMDB of latent size, two folds of it."""
    return with_few_disorders(latent_gmdb(1), folds=2)


@pytest.fixture(scope="session")
def frequent_study(study):
    """The same without rare disorders."""
    return dataclasses.replace(study, folds=(Fold(study.folds[0].frequent, Split((), ())),))


@pytest.fixture(scope="session")
def releases(study):
    """Two versions of its database."""
    return [
        Release("v1.0", date(2021, 3, 1), study.train),
        Release("v1.1", date(2024, 9, 1), (*study.train, *study.validation)),
    ]


@pytest.fixture(scope="session")
def finished(study, releases, tmp_path_factory):
    """A run of everything, and the folder of its report."""
    out = tmp_path_factory.mktemp("report")
    return reproduce(study, out, seed=1, releases=releases), out


@pytest.fixture(scope="session")
def report(finished):
    """The folder of a report."""
    return finished[1]


def tables_of(study, releases):
    """All that the experiments find, and no figure."""
    comparison = Comparison(study.encodings, evaluated_folds(study), methods=methods_of(EXPERIMENTS))
    context = ExperimentContext(study, comparison, 1, releases)
    found = {name: rows for run in EXPERIMENTS.values() for name, rows in run(context).items()}
    return found | {"agreement": accuracy_cells(comparison)}


@pytest.fixture(scope="session")
def tables(study, releases):
    return tables_of(study, releases)


@pytest.fixture(scope="session")
def frequent_tables(frequent_study, releases):
    return tables_of(frequent_study, releases)

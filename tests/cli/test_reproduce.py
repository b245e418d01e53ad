from __future__ import annotations

import json

import pytest

from mien.evaluation.experiments import EXPERIMENTS
from mien.simulation import study

from studies import small_gmdb


@pytest.fixture
def small(monkeypatch):
    """Simulates in a tenth of the time; of that, one fold and every eighth disorder."""
    monkeypatch.setattr(study, "simulated_gmdb", small_gmdb)


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_some_experiments_on_a_grown_database(mien, tmp_path):
    report = tmp_path / "report"
    code, out, _ = mien("reproduce", "--only", "splits", "--only", "headline", "--growth", 2, "--out", report)
    assert code == 0
    for part in ("simulated-1-x2", "full", "statements hold in this run", "index.html"):
        assert part in out
    document = json.loads((report / "results.json").read_text())
    assert document["protocol"]["source"] == "GMDB v1.1.4-simulated-1-x2"
    assert document["agreement"]["runs"] == 1
    assert document["tables"].keys() == {"splits", "headline", "headline_curves", "agreement"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--only", "nothing"], "splits"),
        (["--growth", 0], "--growth"),
        (["--growth", 2, "--gmdb", "x", "--encodings", "y"], "--growth"),
    ],
)
def test_wrong_usage_is_said_before_the_work(mien, tmp_path, options, problem):
    code, _, err = mien("reproduce", "--out", tmp_path / "report", *options)
    assert code == 2
    assert problem in err
    assert not (tmp_path / "report").exists()


def test_the_usage_error_lists_every_experiment(mien, tmp_path):
    _, _, err = mien("reproduce", "--out", tmp_path / "report", "--only", "nothing")
    assert all(name in err for name in EXPERIMENTS)

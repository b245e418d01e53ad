from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from mien import Encodings, Label
from mien.cli import simulate
from mien.core.study import Fold, Split, Study
from mien.simulation import study as simulation
from mien.storage.formats.gmdb_folder import read_gmdb

from studies import latent_gmdb, with_few_disorders


@pytest.fixture
def out(tmp_path):
    """A new folder that does not outlive the test: a simulated GMDB has 400 MB."""
    yield tmp_path / "simulated gmdb"
    shutil.rmtree(tmp_path / "simulated gmdb", ignore_errors=True)


def an_eighth(seed, *, growth):
    """Stands in for `simulated_gmdb`: every eighth disorder, few dimensions."""
    return with_few_disorders(latent_gmdb(seed, growth), folds=10)


@pytest.mark.parametrize(
    ("simulated", "shape"),
    [
        (an_eighth, (2398, 3, 150)),
        pytest.param(simulation.simulated_gmdb, (15_381, 12, 512), marks=pytest.mark.long),
    ],
    ids=["an eighth", "the whole"],
)
def test_a_simulated_gmdb_is_written_and_reads_back(mien, out, monkeypatch, simulated, shape):
    monkeypatch.setattr(simulation, "simulated_gmdb", simulated)
    code, printed, err = mien("simulate", out, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(printed)
    assert answer["next"] == ["mien", "evaluate", "--gmdb", str(out), "--encodings", str(out / "encodings.parquet")]
    assert (answer["seed"], answer["simulated"], answer["folds"]) == (1, True, 10)
    assert sorted(path.name for path in out.iterdir()) == ["encodings.parquet", "gmdb_metadata"]
    study, _ = read_gmdb(out, out / "encodings.parquet")
    assert study.simulated
    assert study.encodings.encoder.name == "simulated"
    assert len(study.encodings.image_ids) == answer["images"]
    assert study.encodings.embeddings.shape == shape
    assert study.validation
    assert study.facts_of_image.keys() == set(study.encodings.image_ids)
    labels = {label for fold in study.folds for split in fold for part in split for label in part}
    assert len({label.patient_id for label in labels}) == answer["patients"]
    assert {label.disorder_id for label in labels} == study.disorders.keys()
    assert len(study.disorders) == answer["disorders"]


def test_a_person_is_told_that_nobody_is_real_and_how_to_go_on(out, capsys):
    fold = Fold(Split((Label("1", "p", "A"),), (Label("2", "q", "A"),)), Split((), ()))
    study = Study("GMDB v0, seed 7", Encodings.of(["1", "2"], np.eye(2)), (fold,), simulated=True)
    simulate._print_result(out, study, 7, json=False)
    printed = capsys.readouterr().out
    for part in ("2 images of 2 patients with 1 disorders", "seed 7", "nobody here exists", "mien evaluate --gmdb"):
        assert part in printed
    assert f"'{out}/encodings.parquet'" in printed  # a name with a blank, ready for the shell


def test_a_folder_with_something_in_it_is_refused_before_the_work(mien, out):
    out.mkdir()
    (out / "thesis.txt").touch()
    code, printed, err = mien("simulate", out)
    assert (code, printed) == (1, "")
    assert f"{out} exists already: choose another name, or write over it with --force" in err
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("options", [["--seed", "-1"], ["--seed", "one"], []])
def test_wrong_usage_has_exit_code_two(mien, out, options):
    assert mien("simulate", *([out] if options else []), *options)[0] == 2
    assert not out.exists()


def test_the_command_line_does_without_scipy_until_it_simulates():
    code = "import sys, mien.cli.main; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

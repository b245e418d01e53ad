"""The documented example of a score outside the package: from Python, from the command line, and in an evaluation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from mien import FULL, Gallery, Method, Query, rank
from mien.storage.formats.cohort_parquet import write_cohort_parquet

import oracle
from cohorts import as_plain_gallery, random_cohort, random_query_arrays
from studies import small_gmdb

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def example():
    return run_path(str(EXAMPLES / "cautious_score.py"))


def mien(*arguments):
    """Runs a command as a user does, with the example on PYTHONPATH."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    command = [sys.executable, "-m", "mien", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def by_hand(evidence_of, half=20.0, most=0.5):
    weight = most * evidence_of["patients"] / (evidence_of["patients"] + half)
    return weight * evidence_of["nearest"] + (1 - weight) * evidence_of["centroid"]


def expected_order(cohort, photos, **parameters):
    """By plain loops: (distance, disorder id) in order."""
    probe, found = oracle.mean(photos.astype(float).tolist()), []
    for disorder_id, images in as_plain_gallery(cohort).items():
        patients = {patient_id: [e for p, e in images if p == patient_id] for patient_id, _ in images}
        evidence = {
            "patients": len(patients),
            "nearest": min(oracle.distance(probe, embedding) for _, embedding in images),
            "centroid": oracle.distance(probe, oracle.mean([oracle.mean(of) for of in patients.values()])),
        }
        found.append((by_hand(evidence, **parameters), disorder_id))
    return sorted(found)


def test_it_ranks_as_it_says(example, rng):
    cohort = random_cohort(rng, disorders=9, most_patients=12)
    photos = random_query_arrays(rng, cohort, 3)
    [ranking] = rank(cohort, Query.of(photos), Method(score=example["SCORE"], half=3.0), top=None)
    expected = expected_order(cohort, photos, half=3.0)
    assert [line.disorder_id for line in ranking.disorders] == [disorder_id for _, disorder_id in expected]
    assert [line.distance for line in ranking.disorders] == pytest.approx([d for d, _ in expected], abs=1e-6)


def test_it_is_evaluated_on_a_simulated_gmdb_and_compared_with_full(example):
    lines = example["compared"](small_gmdb(1))
    assert [line.split()[:3] for line in lines[:2]] == [["freq", "unified", "cautious"], ["freq", "unified", "hybrid"]]
    assert all("against full" in line for line in lines)
    assert any(not line.endswith("+0.0") for line in lines)


def test_the_command_line_takes_it_by_its_place(tmp_path, rng):
    cohort = random_cohort(rng, disorders=5, most_patients=6)
    Gallery.build(tmp_path / "gallery", cohort)
    path = tmp_path / "cohort.parquet"
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])
    chosen = ["--score", "cautious_score:SCORE", "--parameter", "half=3"]
    answer = json.loads(mien("rank", "--gallery", tmp_path / "gallery", "--encodings", path, *chosen, "--json"))
    assert answer["method"] == {"fusion": "embedding", "score": "cautious", "half": 3.0, "most": 0.5}
    query = cohort.queries()[0]
    left = random_cohort(np.random.default_rng(20_26), disorders=5, most_patients=6)
    assert left.roster.patient_ids == cohort.roster.patient_ids
    assert answer["queries"][0]["patient_id"] == query.patient_id

    found = json.loads(mien("evaluate", "--cohort", path, "--folds", 2, *chosen, "--against", "full", "--json"))
    scores = {(row["score"], row.get("half")) for row in found["results"]}
    assert scores == {("nearest", None), ("cautious", 3.0), ("hybrid", None)}
    assert all(row["against"] == str(FULL) for row in found["results"])


def test_an_installed_package_can_name_it(tmp_path, monkeypatch):
    info = tmp_path / "cautious-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cautious\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mien.scores]\ncautious = cautious_score:SCORE\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES), str(tmp_path)]))
    code = "from mien import Method; print(Method('none', 'cautious', most=0.25).as_dict())"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "{'fusion': 'none', 'score': 'cautious', 'half': 20.0, 'most': 0.25}"
    listed = subprocess.run(
        [sys.executable, "-m", "mien", "rank", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--half" in listed
    assert "cautious" in listed


@pytest.mark.parametrize(
    ("score", "says"),
    [
        ("nothing", "unknown score"),
        ("no.such.module:SCORE", "no score at .* on PYTHONPATH"),
        ("mien:FULL", "is not a mien Score"),
    ],
)
def test_a_score_that_is_none_is_refused(score, says):
    with pytest.raises(ValueError, match=says):
        Method(score=score)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def (:", "line 1 is not Python: "),
        ("import no_such_module_either", "No module named 'no_such_module_either'"),
        ("OTHER = 1", "has no attribute 'SCORE'"),
    ],
)
def test_a_mistake_in_a_file_that_was_found_is_named_without_advice_on_its_place(tmp_path, monkeypatch, text, says):
    name = f"score_of_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=says) as caught:
        Method(score=f"{name}:SCORE")
    assert "PYTHONPATH" not in str(caught.value)

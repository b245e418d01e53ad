"""A sample of `make faults`, in a process of its own: it forks, and threads of other tests would be in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.operations import OPERATIONS
from faults.tally import Tally

TESTS = Path(__file__).parents[1]


@pytest.mark.long
def test_a_sample_of_faults_does_no_harm(tmp_path):
    command = [sys.executable, "-m", "faults", "--sample", "--out", str(tmp_path / "figures.json")]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **one_thread, "PYTHONPATH": path}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    kinds = json.loads((tmp_path / "figures.json").read_text())["kinds"]
    tries = {kind["kind"]: kind["tries"] for kind in kinds}
    assert tries == {
        "kill": 60,
        "bit of small files": 600,
        "bit of large files": 100,
        "full disk": 40,
        "broken photo": 4_000,
    }
    assert [kind["faults"] for kind in kinds] == [[]] * len(kinds)
    assert kinds[0]["outcomes"].keys() <= {operation.name for operation in OPERATIONS}


def test_a_fault_is_counted(capsys):
    tally = Tally("kill", 2)
    tally.count("gallery build", "done", 1)
    tally.count("gallery build", "fault: parts of patients", 2, "p1")
    assert tally.as_dict()["outcomes"] == {"gallery build": {"done": 1, "fault: parts of patients": 1}}
    assert tally.as_dict()["faults"] == ["kill, gallery build, number 2: fault: parts of patients: p1"]

"""The lock: what it holds, and that a change of what is asked for is noticed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"


@pytest.fixture
def check(tmp_path):
    """Checks a copy of the lock beside a copy of pyproject.toml in which something was replaced."""

    def run(old="", new=""):
        text = (ROOT / "pyproject.toml").read_text()
        assert old in text
        (tmp_path / "pyproject.toml").write_text(text.replace(old, new))
        if not (tmp_path / LOCK.name).exists():
            shutil.copy(LOCK, tmp_path)
        command = [sys.executable, ROOT / "scripts" / "lock.py", "--check", "--root", tmp_path]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_the_lock_is_current(check):
    assert check().returncode == 0


def test_every_line_of_the_lock_has_hashes_and_no_host():
    lock = LOCK.read_text()
    for package in re.split(r"\n(?=\w)", lock)[1:]:
        assert re.match(r"[a-z0-9-]+==\S+( ; .+)? \\\n    --hash=sha256:[0-9a-f]{64}", package), package
    assert "//" not in lock
    assert len(lock) < 500_000
    assert "torch" not in lock


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"uvicorn>=0.32,', '"uvicorn>=0.33,', "it was made for other requirements"),
        ('"uvicorn>=0.32,<0.55"', '"uvicorn>=99"', "uvicorn>=99 is asked for, and "),
        (
            '"fastapi>=0.115",',
            '"fastapi>=0.115", "prometheus-nothing>=1",',
            "prometheus-nothing>=1 is asked for, and nothing",
        ),
        ('"matplotlib>=3.9", ', "", "it was made for other requirements"),
        ('requires-python = ">=3.11"', 'requires-python = ">=3.12"', "it was made for other requirements"),
    ],
)
def test_a_lock_for_other_requirements_is_not_current(check, old, new, says):
    checked = check(old, new)
    assert checked.returncode == 1
    assert "requirements.lock is not current: run `make lock`" in checked.stderr
    assert says in checked.stderr


def test_tools_of_development_do_not_matter(check):
    assert check('"hypothesis>=6.100"', '"hypothesis>=6.101"').returncode == 0


def test_a_lock_that_was_edited_is_not_current(check, tmp_path):
    (tmp_path / LOCK.name).write_text(re.sub(r"^numpy==\S+", "numpy==1.26.4", LOCK.read_text(), flags=re.MULTILINE))
    assert "numpy>=2.0 is asked for, and 1.26.4 is locked" in check().stderr

from __future__ import annotations

import sys

import pytest

from mien.cli.main import main


@pytest.fixture
def mien(monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mien", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

import mien

ARCHIVE = Path(__file__).parents[2] / "dist" / f"mien-{mien.__version__}-bundle.tar"


@pytest.fixture
def bundle(tmp_path):
    """The bundle, unpacked; what a test made beside it goes with it, because pytest would keep gigabytes."""
    if not ARCHIVE.is_file():
        pytest.skip("there is no bundle to install: `make test-long` makes it, and so does `make bundle WEIGHTS=1`")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    yield tmp_path / ARCHIVE.stem
    shutil.rmtree(tmp_path)

from __future__ import annotations

import gc
import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from mien import Gallery
from mien.cli.main import main

sys.path.insert(0, str(Path(__file__).parent))  # oracle.py and cohorts.py

settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
settings.load_profile("untimed")

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_collection_finish():
    """Modules and tests are there to the end: garbage need not be looked for among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def rng():
    return np.random.default_rng(20_26)


@pytest.fixture(scope="session")
def small_gallery(tmp_path_factory):
    """Embeddings of eight disorders. Tests open copies: files come and go beside a database that is read."""
    from cohorts import random_cohort

    directory = tmp_path_factory.mktemp("small") / "gallery"
    Gallery.build(directory, random_cohort(np.random.default_rng(20_26), disorders=8))
    return directory


@pytest.fixture
def ten_syndromes():
    path = SHARED_DATA / "syndromes" / "ten_syndromes.parquet"
    if not path.exists():
        pytest.skip("the public embeddings of ten syndromes are not beside the project: ../shared/data/syndromes")
    return path


@pytest.fixture
def phenopackets():
    """A folder of 120 real phenopackets."""
    folder = SHARED_DATA / "phenopackets"
    if not folder.exists():
        pytest.skip("the public phenopackets are not beside the project: ../shared/data/phenopackets")
    return folder


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


@pytest.fixture(scope="session")
def faces():
    """A folder of 60 persons with five photos each."""
    folder = SHARED_DATA / "faces"
    if not folder.exists():
        pytest.skip("the public photos of faces are not beside the project: ../shared/data/faces")
    return folder


@pytest.fixture(scope="session")
def default_encoder():
    """The default encoder as it is stored."""
    from mien.encoding.store import DEFAULT, stored_encoder

    stored = stored_encoder(DEFAULT)
    if stored.missing():
        pytest.skip("the default encoder's weights are not there: run `mien weights get`, as `make test` does")
    return stored


@pytest.fixture(scope="session")
def photo_encoder(default_encoder):
    """The default encoder, loaded."""
    return default_encoder.load()


@pytest.fixture
def published_tensors(default_encoder, tmp_path):
    """Reads the tensors that a network of the default encoder was made from."""
    from mien.encoding.package import download, unpacked
    from mien.encoding.store import cache_folder
    from mien.storage.formats.torch_file import read_tensors

    def tensors(role):
        origin = default_encoder.manifest.parts[role].made_from
        archive = cache_folder() / "packages" / f"{origin.package.replace('==', '-')}.tar.gz"
        if not archive.is_file():
            pytest.skip("the package of the default encoder's weights is not in the cache: run `mien weights get`")
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == origin.package_sha256
        path = tmp_path / "weights.pth"
        path.write_bytes(unpacked(download(origin, archive.parent), origin))
        return read_tensors(path)

    return tensors

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # oracle.py and cohorts.py

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def rng():
    return np.random.default_rng(20_26)


@pytest.fixture
def ten_syndromes():
    path = SHARED_DATA / "syndromes" / "ten_syndromes.parquet"
    if not path.exists():
        pytest.skip("the public embeddings of ten syndromes are not beside the project: ../shared/data/syndromes")
    return path

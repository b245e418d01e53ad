from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cluster():
    """Worker processes on the loopback."""
    from mien.cluster.connection import connected

    with connected("local") as cluster:
        yield cluster


@pytest.fixture
def cluster_to_break():
    """The same for one test, which may kill workers: Dask starts others in their place, but not always in time."""
    from mien.cluster.connection import connected

    with connected("local") as cluster:
        yield cluster

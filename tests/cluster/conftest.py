from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cluster():
    """Worker processes on the loopback; whoever kills one waits first until all are there."""
    from mien.cluster.connection import connected

    with connected("local") as cluster:
        yield cluster

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")  # not of the session: a worker that comes back while another cluster ends is lost
def cluster():
    """Worker processes on the loopback; whoever kills one waits first until all are there."""
    from mien.cluster.connection import connected

    with connected("local") as cluster:
        yield cluster

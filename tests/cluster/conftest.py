"""A cluster of worker processes of its own, on the loopback."""

import pytest


@pytest.fixture(scope="module")
def cluster():
    from mien.cluster.connection import connected

    with connected("local") as cluster:
        yield cluster

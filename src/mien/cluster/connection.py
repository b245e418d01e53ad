"""The way to a cluster: one of this machine's cores, or one that runs already."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mien.cluster.work import Cluster
from mien.core.errors import ClusterError, shown
from mien.version import __version__

LOCAL = "local"
SECONDS_TO_CONNECT = 30
SCHEMES = ("tcp", "tls")
CONFIG: dict[str, Any] = {
    # questions hold the rows of many queries; the usual warning is about programs that send data by accident
    "distributed.admin.large-graph-warning-threshold": "1 GB",
    # a local cluster shows nobody what it does
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@contextmanager
def connected(where: str) -> Iterator[Cluster]:
    """A cluster: `local`, a scheduler's address (tcp://host:port, tls://host:port) or its scheduler file."""
    try:
        import dask  # noqa: PLC0415 an extra, and heavy
        from distributed import Client  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ClusterError("Dask is not installed: pip install 'mien[cluster]'") from error
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(CONFIG))
        try:
            client = stack.enter_context(Client(_address(where, stack), timeout=SECONDS_TO_CONNECT))
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"{shown(where)}: no Dask scheduler answers there ({error}): is it running?") from error
        cluster = Cluster(client)
        _require_same_version(cluster)
        yield cluster


def _address(where: str, stack: ExitStack) -> Any:
    if where == LOCAL:
        return stack.enter_context(_local_cluster())
    if urlsplit(where).scheme in SCHEMES:
        return where
    try:
        return json.loads(Path(where).read_bytes())["address"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterError(
            f"{shown(where)}: no cluster: give 'local', the address of a Dask scheduler (tcp://host:port,"
            " tls://host:port), or the scheduler file that it wrote"
        ) from error


@contextmanager
def _local_cluster() -> Iterator[Any]:
    """One process per core, which only this process can speak to: others on this machine lack the keys."""
    from distributed import LocalCluster  # noqa: PLC0415

    with (
        tempfile.TemporaryDirectory(prefix="mien-cluster-") as folder,
        LocalCluster(
            n_workers=os.cpu_count() or 1,
            threads_per_worker=1,
            security=True,
            memory_limit=None,  # nothing is written to disk to make room
            dashboard_address="127.0.0.1:0",
            local_directory=folder,
            silence_logs="CRITICAL",
        ) as cluster,
    ):
        yield cluster


def _require_same_version(cluster: Cluster) -> None:
    """All workers must have this version of mien: they run its functions by name."""
    for address, version in cluster.versions().items():
        if version != __version__:
            found = f"mien {version}" if version else "no mien"
            raise ClusterError(f"worker {address} has {found}, here is {__version__}: install the same version there")

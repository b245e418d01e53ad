"""Connects to a Dask cluster: one that is started on this machine's cores, or one that runs already."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mien.cluster.workers import Cluster, version_here
from mien.errors import ClusterError, shown
from mien.version import __version__

LOCAL = "local"
SECONDS_TO_CONNECT = 30
SCHEMES = ("tcp", "tls")
# questions hold the rows of many queries on purpose: Dask must not warn of large messages
CONFIG = {"distributed.admin.large-graph-warning-threshold": "1 GB"}
# no status pages
LOCAL_CONFIG: dict[str, Any] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
LOGGERS = ("distributed", "tornado")  # silenced: mien reports their errors itself, in one line


@contextmanager
def connected(where: str, say: Callable[[str], None] = lambda _line: None) -> Iterator[Cluster]:
    """Connects to a cluster.

    `where` is `local`, a scheduler's address (tcp://host:port, tls://host:port) or its scheduler file.
    """
    import dask  # noqa: PLC0415 an extra, and heavy
    from distributed import Client  # noqa: PLC0415

    with ExitStack() as stack:
        stack.enter_context(dask.config.set(CONFIG))
        stack.enter_context(_silenced_loggers())
        address = _address(where, stack)
        try:
            client = stack.enter_context(Client(address, timeout=SECONDS_TO_CONNECT))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            advice = "is it running, and has Dask here its settings distributed.comm.tls?"
            raise ClusterError(f"{shown(where)}: no Dask scheduler answers there ({error}): {advice}") from error
        cluster = Cluster(client, say)
        _require_same_version(cluster)
        yield cluster


def _address(where: str, stack: ExitStack) -> Any:
    if where == LOCAL:
        return stack.enter_context(_local_cluster())
    address = where
    if urlsplit(where).scheme not in SCHEMES:
        try:
            address = json.loads(Path(where).read_bytes())["address"]
        except (OSError, ValueError, KeyError, TypeError):
            address = ""
    if not isinstance(address, str) or urlsplit(address).scheme not in SCHEMES:
        raise ClusterError(
            f"{shown(where)}: no cluster: give 'local', the address of a Dask scheduler (tcp://host:port,"
            " tls://host:port), or the scheduler file that it wrote"
        )
    return address


@contextmanager
def _local_cluster() -> Iterator[Any]:
    """Starts one process per core. Only this process has the keys to connect to them."""
    import dask  # noqa: PLC0415 heavy
    from distributed import LocalCluster  # noqa: PLC0415

    with (
        _on_signal(signal.SIGTERM, _end),  # batch systems send it: end in order, so that the folder is deleted
        tempfile.TemporaryDirectory(prefix="mien-cluster-") as folder,
        dask.config.set({**LOCAL_CONFIG, "temporary-directory": folder}),
    ):
        with _on_signal(signal.SIGINT, signal.SIG_IGN):  # workers inherit it: Ctrl-C ends this process, which ends them
            cluster = LocalCluster(
                n_workers=os.cpu_count() or 1,
                threads_per_worker=1,
                security=True,
                memory_limit=None,  # no memory is swapped to disk
                dashboard_address="127.0.0.1:0",
                silence_logs="CRITICAL",
            )
        with cluster:
            yield cluster


@contextmanager
def _on_signal(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Sets the handler of a signal for a while; does nothing outside of the main thread, where Python cannot."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _end(number: int, _frame: object) -> None:
    sys.exit(128 + number)


@contextmanager
def _silenced_loggers() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _require_same_version(cluster: Cluster) -> None:
    """Refuses workers with another version of mien: they run its functions by name."""
    cluster.require_workers()
    for address, answer in cluster.client.run(version_here, on_error="return").items():
        if answer != __version__ and not isinstance(answer, OSError):  # an OSError: the worker was just lost
            found = f"mien {answer}" if isinstance(answer, str) else "no mien"
            raise ClusterError(f"worker {address} has {found}, here is {__version__}: install the same version there")

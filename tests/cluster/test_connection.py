"""The way to a cluster, and what is said where there is none."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mien.cluster.connection import connected
from mien.errors import ClusterError, InvalidFileError

from clusters import wait_until


@pytest.fixture(scope="module")
def scheduler_file(tmp_path_factory):
    """A scheduler and a worker that run already, as on a cluster; the file that the scheduler wrote."""
    folder = tmp_path_factory.mktemp("scheduler")
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    start = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"
    dask = [sys.executable, "-c", start]
    scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    worker = [*dask, "worker", "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard"]
    processes = [
        subprocess.Popen([*command, "--scheduler-file", str(file)], start_new_session=True, **quiet)
        for command in (scheduler, worker)
    ]
    wait_until(file.exists)
    yield file
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_running_cluster_is_reached_by_its_file_and_by_its_address(scheduler_file):
    address = json.loads(scheduler_file.read_text())["address"]
    assert address.startswith("tcp://127.0.0.1:")
    for where in (str(scheduler_file), address):
        with connected(where) as cluster:
            assert cluster.load_parts([dict, dict]).ask(len) == [0, 0]


def test_another_version_of_mien_on_a_worker_is_refused(scheduler_file, monkeypatch):
    monkeypatch.setattr("mien.cluster.connection.__version__", "99.0")
    said = r"worker tcp://\S+ has mien [\d.]+, here is 99.0: install the same version there"
    with pytest.raises(ClusterError, match=said), connected(str(scheduler_file)):
        pass


def test_a_local_cluster_is_closed_to_others_and_to_the_network(cluster):
    assert all(worker.startswith("tls://127.0.0.1:") for worker in cluster.workers)
    assert cluster.threads == os.cpu_count()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nowhere.json", "'nowhere.json': no cluster: give 'local', the address of a Dask scheduler"),
        ("tcp://127.0.0.1:1", "'tcp://127.0.0.1:1': no Dask scheduler answers there"),
        ("tls://127.0.0.1:1", "'tls://127.0.0.1:1': no Dask scheduler answers there .*distributed.comm.tls"),
        ("http://127.0.0.1:1", "'http://127.0.0.1:1': no cluster"),
    ],
)
def test_where_no_cluster_is_one_line_says_so(where, said, monkeypatch):
    monkeypatch.setattr("mien.cluster.connection.SECONDS_TO_CONNECT", 1)
    with pytest.raises(ClusterError, match=said), connected(where):
        pass


@pytest.mark.parametrize(
    "content", ["not JSON", "[]", "{}", '{"address": null}', '{"address": 5}', '{"address": "inproc://x"}']
)
def test_a_file_that_is_no_scheduler_file_is_refused(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_text(content)
    with pytest.raises(ClusterError, match="no cluster: give 'local'"), connected(str(file)):
        pass


def refuse(_part):
    raise InvalidFileError("a.csv", ["row 2: no label"], advice="add one")


def test_errors_of_workers_arrive_as_they_are(cluster):
    with pytest.raises(InvalidFileError, match=r"a.csv:\s+row 2: no label\s+add one"):
        cluster.load_parts([dict]).ask(refuse)

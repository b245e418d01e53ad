"""What the tests of the cluster share."""

from __future__ import annotations

import os
import signal
import time

from mien import Cohort, Gallery


def kill_a_worker(cluster):
    """Ends one worker as a power cut would, once there are two; another process takes its place later."""
    wait_until(lambda: len(cluster.workers) > 1)
    os.kill(min(cluster.client.run(os.getpid).items())[1], signal.SIGKILL)


def wait_until(true, seconds=60):
    """Waits for something to become true."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.05)


def sharded(cohort, folder, parts):
    """Galleries with the cohort's patients dealt over them."""
    names = {disorder.disorder_id: disorder for disorder in cohort.roster.disorders}
    patients = cohort.roster.patient_ids
    directories = [folder / f"part-{part}" for part in range(parts)]
    for part, directory in enumerate(directories):
        own = set(patients[part::parts])
        labels = [label for label in cohort.roster.labels() if label.patient_id in own]
        Gallery.build(directory, Cohort.join(cohort.encodings, labels, names))
    return directories

"""Measures what a sharded gallery costs on this machine, and plans a larger one from it: docs/cluster.md.

python scripts/plan.py
"""

from __future__ import annotations

import pickle
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mien.core.partial import Question, look, merged
from threadpoolctl import threadpool_limits

from mien import Cohort, Encodings, Gallery, Label, Query, rank
from mien.cluster.connection import connected
from mien.cluster.galleries import open_galleries
from mien.core.index import GalleryIndex

IMAGES, DISORDERS = 12_000, 600  # measured with: 20 images a disorder, as GMDB has
REPRESENTATIONS, DIMENSIONS = 12, 512
SIZES = (  # images, disorders, workers
    (IMAGES, DISORDERS, 2),
    (1_000_000, 5_000, 8),
    (10_000_000, 10_000, 40),
    (10_000_000, 10_000, 80),
)
BYTES_PER_IMAGE = REPRESENTATIONS * DIMENSIONS * 4
BYTES_PER_DISORDER = 2 * REPRESENTATIONS * DIMENSIONS * (4 + 2 * 8)  # both centroids: unit rows, and sums in two parts


class Constants(NamedTuple):
    """What was measured."""

    compare_rate: float  # GB of image rows that one core compares with one query, a second
    pair_seconds: float  # µs for each disorder that a worker looks at twice
    roster_bytes: float  # in memory, for the ids of an image and its patient
    question_bytes: float  # one query on its way to a worker
    answer_bytes: float  # of each disorder on its way back
    merge_seconds: float  # µs for each worker's disorder where the answers are put together
    round_trip: float  # ms from asking all workers to their answers, when there is nothing to do


class Plan(NamedTuple):
    """What a gallery of that size needs."""

    rows_gb: float  # image rows in all
    worker_gb: float  # of them on each worker, with its centroid sums and ids
    asker_gb: float  # where the question comes from: centroids
    start_gb: float  # centroid sums that each worker sends to others, once
    query_mb: float  # over the network for each query
    query_seconds: float


def plan(constants: Constants, images: int, disorders: int, workers: int) -> Plan:
    """Images dealt evenly, every disorder on every worker: the most that can be."""
    own = images / workers
    rows = images * BYTES_PER_IMAGE / 1e9
    worker = own * (BYTES_PER_IMAGE + constants.roster_bytes) / 1e9 + disorders * BYTES_PER_DISORDER / 1e9
    comparing = own * BYTES_PER_IMAGE / 1e9 / constants.compare_rate + disorders * constants.pair_seconds / 1e6
    merging = workers * disorders * constants.merge_seconds / 1e6
    return Plan(
        rows_gb=rows,
        worker_gb=worker,
        asker_gb=disorders * REPRESENTATIONS * DIMENSIONS * 4 / 1e9,
        start_gb=disorders * REPRESENTATIONS * DIMENSIONS * 2 * 8 / 1e9,
        query_mb=workers * (constants.question_bytes + disorders * constants.answer_bytes) / 1e6,
        query_seconds=2 * constants.round_trip / 1e3 + comparing + merging,  # who it is, then how near
    )


def measured() -> tuple[Constants, float]:
    """All constants, on this machine; and how long a query takes on two workers, to compare the plan with."""
    rng = np.random.default_rng(1)
    cohort = _cohort(rng, IMAGES, DISORDERS)
    index = cohort.index
    query = Query.of(rng.standard_normal((1, REPRESENTATIONS, DIMENSIONS), dtype=np.float32))
    rows = cohort.index.image_rows[:1]
    question = Question(rows, np.zeros(1, np.intp), ((),), (), None, "patient")
    few = _cohort(rng, IMAGES, 1).index  # one disorder: nothing but the product
    with threadpool_limits(1):
        product = _best(partial(look, few, question))
        looking = _best(partial(look, index, question))
    answer = look(index, question)
    merging = _best(partial(merged, [answer] * 8)) / (8 * DISORDERS)
    round_trip, query_seconds = _on_two_workers(cohort, query)
    constants = Constants(
        compare_rate=index.image_rows.nbytes / 1e9 / product,
        pair_seconds=(looking - product) / DISORDERS * 1e6,
        roster_bytes=_roster_bytes(rng),
        question_bytes=len(pickle.dumps(question)),
        answer_bytes=len(pickle.dumps(answer)) / DISORDERS,
        merge_seconds=merging * 1e6,
        round_trip=round_trip * 1e3,
    )
    return constants, query_seconds


def _cohort(rng: np.random.Generator, images: int, disorders: int) -> Cohort:
    labels = [Label(f"image-{i:08}", f"patient-{i // 2:08}", f"d{i // 2 % disorders:05}") for i in range(images)]
    embeddings = rng.standard_normal((images, REPRESENTATIONS, DIMENSIONS), dtype=np.float32)
    return Cohort.join(Encodings.of([label.image_id for label in labels], embeddings), labels)


def _best(action: Callable[[], object], runs: int = 7) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _roster_bytes(rng: np.random.Generator) -> float:
    tracemalloc.start()
    roster = Cohort.of(
        rng.standard_normal((50_000, 1, 1)) + 9,
        image_ids=[f"image-{i:08}" for i in range(50_000)],
        patient_ids=[f"patient-{i // 2:08}" for i in range(50_000)],
        disorder_ids=[f"d{i // 100:05}" for i in range(50_000)],
    ).roster
    assert len(roster.image_of_id) > len(roster.patient_of_id)
    assert len(roster.patient_of_label)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / 50_000


def _on_two_workers(cohort: Cohort, query: Query) -> tuple[float, float]:
    """Seconds of a round trip, and of ranking one query, on a cluster of two workers with half of the gallery each."""
    labels = cohort.roster.labels()
    with tempfile.TemporaryDirectory() as folder, connected("local") as cluster:
        directories = [Path(folder) / name for name in ("even", "odd")]
        for rest, directory in enumerate(directories):
            own = [label for label in labels if int(label.patient_id.removeprefix("patient-")) % 2 == rest]
            Gallery.build(directory, Cohort.join(cohort.encodings, own))
        gallery = open_galleries(cluster, directories)
        rank(gallery, query)  # centroids are put together once
        round_trip = _best(lambda: gallery.shards.everywhere(_nothing), runs=30)
        return round_trip, _best(lambda: rank(gallery, query), runs=30)


def _nothing(index: GalleryIndex) -> int:
    return len(index.image_rows)


if __name__ == "__main__":
    found, query_seconds = measured()
    for name, value in found._asdict().items():
        print(f"{name:16} {value:10.3g}")
    print(f"\none query on two workers: {1e3 * query_seconds:.0f} ms measured")
    for images, disorders, workers in SIZES:
        print(f"\n{images:,} images, {disorders:,} disorders, {workers} workers")
        for name, value in plan(found, images, disorders, workers)._asdict().items():
            print(f"{name:16} {value:10.3g}")

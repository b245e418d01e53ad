"""Measures what a gallery in parts costs on this machine, and plans a larger one from it: docs/cluster.md.

python scripts/plan.py
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mien import Cohort, Gallery, Query, rank
from mien.cluster.connection import connected
from mien.cluster.galleries import open_galleries
from mien.core.gallery_parts import LocalParts
from mien.core.index import GalleryIndex, RoundedRows, scan
from mien.core.searcher import Searcher
from mien.simulation.study import simulated_gmdb

SIZES = (  # images, disorders, workers
    (1_000_000, 5_000, 8),
    (10_000_000, 10_000, 40),
    (10_000_000, 10_000, 80),
)
WIDTH = 12 * 512
BYTES_OF_ROUNDED, BYTES_OF_EXACT = WIDTH + 3 * 4, WIDTH * 4  # where views of a photo are not alike
BYTES_OF_SUM = WIDTH * 2 * 8  # behind one centroid: two parts in float64
ROUND_TRIPS = ("own_patients", "scan_part", "measure_part")
PARTS = 8
PATIENTS, RUNS = 20, 5


class Constants(NamedTuple):
    """What was measured."""

    scan_rate: float  # GB of rounded image rows that one core scans for one query, a second
    bound_seconds: float  # µs for each disorder that a worker finds bounds for
    measure_seconds: float  # ms in which a worker measures what can decide
    roster_bytes: float  # in memory, for the ids of an image and its patient
    question_bytes: float  # one query on its way to a worker, in three questions
    bound_bytes: float  # of each disorder on its way back
    measured_bytes: float  # of all that was measured on its way back
    score_seconds: float  # µs for each disorder where the query came from
    merge_seconds: float  # µs for each worker's disorder there
    round_trip: float  # ms from asking all workers to their answers, when there is nothing to do


class Plan(NamedTuple):
    """What a gallery of that size needs."""

    disks_gb: float  # exact rows in all, which stay on disk
    rounded_gb: float  # rounded rows in all
    worker_gb: float  # of them in the memory of each worker, with its ids
    asker_gb: float  # where the question comes from: centroids
    start_gb: float  # centroid sums that each worker sends to others, once
    query_mb: float  # over the network for each query
    query_seconds: float


def plan(constants: Constants, images: int, disorders: int, workers: int) -> Plan:
    """Images dealt evenly, every disorder on every worker: the most that can be."""
    own = images / workers
    answer = disorders * constants.bound_bytes + constants.measured_bytes
    scanning = own * BYTES_OF_ROUNDED / 1e9 / constants.scan_rate + disorders * constants.bound_seconds / 1e6
    scoring = disorders * (constants.score_seconds + workers * constants.merge_seconds) / 1e6
    waiting = (len(ROUND_TRIPS) * constants.round_trip + constants.measure_seconds) / 1e3
    return Plan(
        disks_gb=images * BYTES_OF_EXACT / 1e9,
        rounded_gb=images * BYTES_OF_ROUNDED / 1e9,
        worker_gb=own * (BYTES_OF_ROUNDED + constants.roster_bytes) / 1e9,
        asker_gb=disorders * (BYTES_OF_ROUNDED + BYTES_OF_EXACT) / 1e9,
        start_gb=disorders * BYTES_OF_SUM / 1e9,
        query_mb=workers * (constants.question_bytes + answer) / 1e6,
        query_seconds=waiting + scanning + scoring,
    )


class Asked(NamedTuple):
    """How long parts took to answer, and what travelled for each of them, if they were elsewhere."""

    seconds: float
    question_bytes: float
    answer_bytes: float


@dataclass(frozen=True)
class RecordedParts(LocalParts[GalleryIndex]):
    """Parts in this process whose answers are packed as if they travelled."""

    asked: dict[str, Asked] = field(default_factory=dict)  # by the function that was asked for
    seconds: list[float] = field(default_factory=list)  # of all questions, packing included

    def ask_each(self, questions: Sequence[Callable[[GalleryIndex], Any]]) -> list[Any]:
        """The answers, as they would arrive."""
        start = time.perf_counter()
        answers = super().ask_each(questions)
        took = time.perf_counter() - start
        packed = [pickle.dumps(answer) for answer in answers]
        name = getattr(questions[0], "func", questions[0]).__name__
        question_bytes = float(np.mean([len(pickle.dumps(question)) for question in questions]))
        self.asked[name] = Asked(took / len(self), question_bytes, float(np.mean([len(answer) for answer in packed])))
        unpacked = [pickle.loads(answer) for answer in packed]  # noqa: S301 our own
        self.seconds.append(time.perf_counter() - start)
        return unpacked


def measured() -> tuple[Constants, Plan, float]:
    """All constants, on this machine; a plan for two workers, and how long a query takes there in truth."""
    study = simulated_gmdb(1)
    fold = study.folds[0]
    cohort = Cohort.join(study.encodings, [label for split in fold for label in split.gallery])
    queries = Cohort.join(study.encodings, [label for split in fold for label in split.test]).queries()[:PATIENTS]
    disorders = len(cohort.roster.disorders)
    index = replace(cohort.index, images=RoundedRows.of(cohort.index.images.exact[:]))  # each view is scanned
    with _one_core():
        scanning = float(np.median([_best(partial(scan, index.images, index.images.exact[:1]), RUNS) for _ in queries]))
        asked, scoring = _recorded(RecordedParts([index]), queries)
        _, scoring_of_parts = _recorded(RecordedParts([part.index for part in dealt(cohort, PARTS)]), queries)
    round_trip, query_seconds = _on_two_workers(cohort, queries)
    constants = Constants(
        scan_rate=len(index.images) * BYTES_OF_ROUNDED / 1e9 / scanning,
        bound_seconds=(asked["scan_part"].seconds - scanning) / disorders * 1e6,
        measure_seconds=asked["measure_part"].seconds * 1e3,
        roster_bytes=_roster_bytes(),
        question_bytes=sum(asked[name].question_bytes for name in ROUND_TRIPS),
        bound_bytes=asked["scan_part"].answer_bytes / disorders,
        measured_bytes=asked["measure_part"].answer_bytes,
        score_seconds=scoring / disorders * 1e6,
        merge_seconds=(scoring_of_parts - scoring) / ((PARTS - 1) * disorders) * 1e6,
        round_trip=round_trip * 1e3,
    )
    return constants, plan(constants, len(index.images), disorders, 2), query_seconds


def _recorded(parts: RecordedParts, queries: Sequence[Query]) -> tuple[dict[str, Asked], float]:
    """What the parts were asked for the median query, and the seconds spent beside asking them."""
    searcher = Searcher.of(parts)
    of_queries: list[dict[str, Asked]] = []
    beside = []
    for query in queries:
        best: dict[str, Asked] = {}
        seconds = []
        for _ in range(RUNS):
            parts.seconds.clear()
            start = time.perf_counter()
            rank(searcher, query)
            seconds.append(time.perf_counter() - start - sum(parts.seconds))
            best = {name: min(parts.asked[name], best.get(name, parts.asked[name])) for name in ROUND_TRIPS}
        of_queries.append(best)
        beside.append(min(seconds))
    medians = {name: Asked(*np.median([best[name] for best in of_queries], axis=0).tolist()) for name in ROUND_TRIPS}
    return medians, float(np.median(beside))


def dealt(cohort: Cohort, parts: int) -> list[Cohort]:
    """The patients of a cohort, dealt into parts."""
    labels, place_of = cohort.roster.labels(), cohort.roster.patient_of_id
    of_parts = [[label for label in labels if place_of[label.patient_id] % parts == part] for part in range(parts)]
    return [Cohort.join(cohort.encodings, own) for own in of_parts]


@contextmanager
def _one_core() -> Iterator[None]:
    """As a worker has it, where the system lets processes choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


def _best(action: Callable[[], object], runs: int = 30) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _roster_bytes() -> float:
    tracemalloc.start()
    roster = Cohort.of(
        np.ones((50_000, 1, 1)),
        image_ids=[f"image-{i:08}" for i in range(50_000)],
        patient_ids=[f"patient-{i // 2:08}" for i in range(50_000)],
        disorder_ids=[f"d{i // 100:05}" for i in range(50_000)],
    ).roster
    assert len(roster.image_of_id) > len(roster.patient_of_id)
    assert len(roster.patient_of_label)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / 50_000


def _on_two_workers(cohort: Cohort, queries: Sequence[Query]) -> tuple[float, float]:
    """Seconds of a round trip, and of the median query, on a cluster of two workers with half of the gallery each."""
    with tempfile.TemporaryDirectory() as folder, connected("local") as cluster:
        directories = [Path(folder) / name for name in ("even", "odd")]
        for directory, half in zip(directories, dealt(cohort, 2), strict=True):
            Gallery.build(directory, half)
        gallery = open_galleries(cluster, directories)
        rank(gallery, queries[0])  # centroids are put together once
        round_trip = _best(lambda: gallery.searcher.parts.ask(_nothing))
        return round_trip, float(np.median([_best(partial(rank, gallery, query), RUNS) for query in queries]))


def _nothing(index: GalleryIndex) -> int:
    return len(index.images)


def _printed(values: NamedTuple) -> None:
    for name, value in values._asdict().items():
        print(f"{name:16} {value:10.3g}")


if __name__ == "__main__":
    found, of_two, query_seconds = measured()
    _printed(found)
    planned, took = 1e3 * of_two.query_seconds, 1e3 * query_seconds
    print(f"\none query on two workers: {planned:.0f} ms planned, {took:.0f} ms measured")
    for images, disorders, workers in SIZES:
        print(f"\n{images:,} images, {disorders:,} disorders, {workers} workers")
        _printed(plan(found, images, disorders, workers))

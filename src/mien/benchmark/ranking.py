"""Opening a gallery of GMDB's size, ranking against it, and serving it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from mien.answers.ranking import rank
from mien.benchmark.measure import Line, best_of, float32_index, reader
from mien.benchmark.serving import serving_benchmarks
from mien.core.arrays import Floats
from mien.core.cohort import Cohort, Encodings, Query
from mien.core.embeddings import unit_rows
from mien.core.gallery_parts import LocalParts
from mien.core.index import RoundedRows
from mien.core.method import FULL
from mien.core.searcher import Searcher
from mien.core.study import Study
from mien.errors import InvalidCalibrationError
from mien.evaluation.calibrating import calibrate
from mien.storage.gallery import Gallery

PATIENTS = 30  # who are ranked one by one
BATCH = 500
RUNS = 7


def ranking_benchmarks(study: Study, rng: np.random.Generator, size: float) -> Iterator[Line]:
    """A share of a study's disorders as a gallery on disk, and its test patients, with all photos they have."""
    gallery_labels, test_labels = (sum((split[side] for split in study.folds[0]), ()) for side in (0, 1))
    disorder_ids = rng.permutation(sorted({label.disorder_id for label in gallery_labels}))
    kept = set(disorder_ids[: max(1, round(size * len(disorder_ids)))].tolist())
    cohort = Cohort.join(study.encodings, [label for label in gallery_labels if label.disorder_id in kept])
    tested = Cohort.join(study.encodings, test_labels).queries()
    queries = [tested[patient] for patient in rng.permutation(len(tested))[:BATCH].tolist()]
    with tempfile.TemporaryDirectory() as directory:
        Gallery.build(Path(directory), cohort)
        gallery = Gallery.open(directory)
        [opening] = best_of(RUNS, lambda: Gallery.open(directory))
        yield Line("open the gallery", opening, "a tenth of a second", 0.1, "≤ 1")
        yield from _compare(gallery, queries, cohort)
        yield _worst_case(cohort, rng)
        del cohort
        yield from serving_benchmarks(gallery, queries, size)


def _compare(gallery: Gallery, queries: list[Query], cohort: Cohort) -> Iterator[Line]:
    matrices = float32_index(gallery.index)
    photos = np.concatenate([query.encodings.embeddings[:1] for query in queries])
    roster = gallery.roster
    disorder_of_image = np.zeros(len(roster.image_ids), dtype=np.intp)  # where it has two, one of them
    disorder_of_image[roster.image_of_label] = np.repeat(np.arange(len(roster.disorders)), roster.images_of_disorder)

    read = reader(*matrices)
    each_view = replace(gallery.index, images=RoundedRows.of(matrices[0]))  # as where views are not alike
    yield _one_patient(
        "full, each view scanned", partial(rank, Searcher.of(LocalParts([each_view]))), queries, read, 0.35
    )
    del each_view
    ours = _one_patient("full", partial(rank, gallery), queries, read, 0.35)
    yield ours
    rows = unit_rows(photos).astype(np.float32)
    batch, products = best_of(RUNS, lambda: rank(gallery, queries), lambda: [rows @ matrix.T for matrix in matrices])
    yield Line(f"rank {BATCH} patients, full", batch, "the bare matrix products", products, "≤ 1.2")
    [usual] = best_of(3, lambda: usual_ranking(photos[:1], cohort.embeddings, disorder_of_image))
    yield ours._replace(compared_with="the usual way, one photo", reference=usual, wanted="")
    [usual] = best_of(2, lambda: usual_ranking(photos, cohort.embeddings, disorder_of_image))
    yield Line(f"rank {BATCH} patients, full", batch, f"the usual way, {BATCH} photos", usual, "")
    start = time.perf_counter()
    try:
        calibration = calibrate(gallery, FULL)
    except InvalidCalibrationError:  # a small share of the disorders
        return
    yield Line("calibrate the gallery", time.perf_counter() - start, "five minutes", 300.0, "≤ 1")
    yield _one_patient("with probabilities", partial(rank, gallery, calibration=calibration), queries, read, 0.8)


def _one_patient(
    how: str, rank_one: Callable[[Query], object], queries: list[Query], read: Callable[[], object], wanted: float
) -> Line:
    *ones, limit = best_of(RUNS, *(partial(rank_one, query) for query in queries[:PATIENTS]), read)
    what = f"rank one patient (median of {PATIENTS}), {how}"
    return Line(what, float(np.median(ones)), "reading the float32 index once from memory", limit, f"≤ {wanted}")


def _worst_case(cohort: Cohort, rng: np.random.Generator) -> Line:
    """Nobody resembles anybody, so that rounded rows leave nearly every image to be measured."""
    images, *shape = cohort.embeddings.shape
    random = rng.standard_normal((images + 1, *shape), dtype=np.float32)
    index = Cohort(cohort.roster, Encodings.of(cohort.roster.image_ids, random[:-1])).index
    one, limit = best_of(RUNS, lambda: rank(index, Query.of(random[-1:])), reader(*float32_index(index)))
    return Line("rank one patient against random rows, full", one, "reading them once as float32", limit, "")


def usual_ranking(photos: Floats, gallery: Floats, disorder_of_image: np.ndarray) -> list[list[int]]:
    """As published code does it: cosine distances per representation, their mean, a sort, first occurrences."""
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415 only here

    distances = np.mean(
        [pairwise_distances(photos[:, r], gallery[:, r], metric="cosine") for r in range(gallery.shape[1])], axis=0
    )
    return [list(dict.fromkeys(disorder_of_image[np.argsort(row)].tolist())) for row in distances]

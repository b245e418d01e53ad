"""Opening a gallery of GMDB's size, ranking against it, and serving it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mien.benchmark.measure import Line, best_of, reader
from mien.benchmark.serving import serving_benchmarks
from mien.core.arrays import Floats
from mien.core.cohort import Cohort, Encodings, Query
from mien.core.embeddings import unit_rows
from mien.core.ranking import rank
from mien.core.roster import Label
from mien.storage.gallery import Gallery

IMAGES, PATIENTS, DISORDERS = 13_675, 10_246, 710
REPRESENTATIONS, DIMENSIONS = 12, 512
BATCH = 500
RUNS = 7


def ranking_benchmarks(rng: np.random.Generator, size: float) -> Iterator[Line]:
    """A gallery of a share of GMDB's size, on disk."""
    cohort = _cohort(rng, size)
    with tempfile.TemporaryDirectory() as directory:
        Gallery.build(Path(directory), cohort)
        gallery = Gallery.open(directory)
        [opening] = best_of(RUNS, lambda: Gallery.open(directory))
        yield Line("open the gallery", opening, "a tenth of a second", 0.1, "≤ 1")
        queries = [Query.of(_near(rng, cohort, 1 + number % 3)) for number in range(BATCH)]
        yield from _compare(gallery, queries, cohort)
        del cohort
        yield from serving_benchmarks(gallery, queries, size)


def _compare(gallery: Gallery, queries: list[Query], cohort: Cohort) -> Iterator[Line]:
    index = gallery.index
    matrices = index.images.exact, index.patient_centroids.exact
    photos = np.concatenate([query.encodings.embeddings[:1] for query in queries])
    disorder_of_image = np.repeat(np.arange(len(index.roster.disorders)), index.roster.images_of_disorder)

    one, limit = best_of(3 * RUNS, lambda: rank(gallery, queries[0]), reader(*matrices))
    yield Line("rank one patient, full", one, "reading the index once from memory", limit, "≤ 2")
    rows = unit_rows(photos).astype(np.float32)
    batch, products = best_of(RUNS, lambda: rank(gallery, queries), lambda: [rows @ matrix.T for matrix in matrices])
    yield Line(f"rank {BATCH} patients, full", batch, "the bare matrix products", products, "≤ 1.5")
    [usual] = best_of(3, lambda: usual_ranking(photos[:1], cohort.embeddings, disorder_of_image))
    yield Line("rank one patient, full", one, "the usual way, one photo", usual, "")
    [usual] = best_of(2, lambda: usual_ranking(photos, cohort.embeddings, disorder_of_image))
    yield Line(f"rank {BATCH} patients, full", batch, f"the usual way, {BATCH} photos", usual, "")


def usual_ranking(photos: Floats, gallery: Floats, disorder_of_image: np.ndarray) -> list[list[int]]:
    """As published code does it: cosine distances per representation, their mean, a sort, first occurrences."""
    from sklearn.metrics import pairwise_distances  # noqa: PLC0415 only here

    distances = np.mean(
        [pairwise_distances(photos[:, r], gallery[:, r], metric="cosine") for r in range(gallery.shape[1])], axis=0
    )
    return [list(dict.fromkeys(disorder_of_image[np.argsort(row)].tolist())) for row in distances]


def _cohort(rng: np.random.Generator, size: float) -> Cohort:
    """Random images; disorders and patients as uneven as GMDB's."""
    images, patients, disorders = (max(1, round(size * count)) for count in (IMAGES, PATIENTS, DISORDERS))
    share = 1 / np.arange(1, disorders + 1) ** 0.8  # the largest disorder has hundreds of patients, most have a few
    disorder_of_patient = np.concatenate(
        [np.arange(disorders), rng.choice(disorders, max(0, patients - disorders), p=share / share.sum())]
    )
    patient_of_image = np.concatenate(
        [np.arange(len(disorder_of_patient)), rng.integers(len(disorder_of_patient), size=max(0, images - patients))]
    )
    embeddings = rng.standard_normal((len(patient_of_image), REPRESENTATIONS, DIMENSIONS), dtype=np.float32)
    labels = [Label(f"i{i}", f"p{p}", f"d{disorder_of_patient[p]}") for i, p in enumerate(patient_of_image.tolist())]
    return Cohort.join(Encodings.of([label.image_id for label in labels], embeddings), labels)


def _near(rng: np.random.Generator, cohort: Cohort, images: int) -> Floats:
    """Photos of one patient who resembles somebody in the gallery."""
    resembled = cohort.embeddings[rng.integers(len(cohort.embeddings))]
    photos: Floats = 0.5 * resembled + rng.standard_normal((images, REPRESENTATIONS, DIMENSIONS), dtype=np.float32)
    return photos

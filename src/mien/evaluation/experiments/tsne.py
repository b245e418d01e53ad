"""Figure 2: a map of gallery images and centroids, of frequent and of less frequent disorders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from mien.core.centroids import patient_weighted_centroid
from mien.core.embeddings import unit_rows
from mien.core.roster import Roster
from mien.evaluation.experiment_context import ExperimentContext, Tables

DISORDERS = 10  # of each kind
COMPONENTS = 50
ITERATIONS = 500  # enough for thousands of images; twice as many take three times as long


class Point(NamedTuple):
    """One image or centroid on the map."""

    disorder_id: str
    disorder_name: str | None
    cohort: str  # most frequent, less frequent
    kind: str  # image, centroid
    x: float
    y: float


def run(context: ExperimentContext) -> Tables:
    """All images of the ten largest disorders of the frequent gallery, and of ten from its smaller half."""
    study, rng = context.study, context.rng("tsne")
    roster = Roster.of_labels(study.folds[0].frequent.gallery, study.disorders)
    if not roster.image_ids:
        return {"tsne": []}
    by_size = np.argsort(-roster.patients_of_disorder, kind="stable")
    most, rest = by_size[:DISORDERS], by_size[DISORDERS:]
    fewer = rest[len(rest) // 2 :]
    chosen = [*most, *rng.permutation(fewer)[:DISORDERS]]
    rows, points = [], []
    for place, disorder in enumerate(chosen):
        images = roster.images_with(int(disorder))
        raw = study.encodings.embeddings[[study.row_of_image[roster.image_ids[image]] for image in images]]
        rows += [unit_rows(raw), patient_weighted_centroid(raw, roster.patient_of_image[images]).unit_row]
        name = roster.disorders[disorder]
        cohort = "most frequent" if place < len(most) else "less frequent"
        points += [(name.disorder_id, name.name, cohort, kind) for kind in ["image"] * len(raw) + ["centroid"]]
    positions = tsne_positions(np.concatenate(rows), context.seed, iterations=ITERATIONS)
    return {"tsne": [Point(*point, x, y) for point, (x, y) in zip(points, positions, strict=True)]}


def tsne_positions(rows: np.ndarray, seed: int, *, iterations: int = 1000) -> list[tuple[float, float]]:
    """Positions of rows on a map of two dimensions that keeps neighbours together (t-SNE)."""
    # one thread: the order in which threads add up would change the map from run to run
    with threadpool_limits(1):
        components = min(COMPONENTS, *rows.shape)
        main = PCA(components, svd_solver="randomized", random_state=seed)  # an exact one takes twenty times as long
        reduced = main.fit_transform(rows.astype(np.float32)) if components < rows.shape[1] else rows
        perplexity = min(30.0, (len(rows) - 1) / 3)
        layout = TSNE(perplexity=perplexity, init="pca", max_iter=iterations, random_state=seed, n_jobs=1)
        found = layout.fit_transform(reduced)
    return [(float(x), float(y)) for x, y in found.tolist()]

"""Figure 2: a map of gallery images and centroids, of frequent and of less frequent disorders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from mien.core.centroids import patient_weighted_centroids
from mien.core.embeddings import unit_rows
from mien.core.roster import Roster
from mien.evaluation.lab import Lab, Tables

DISORDERS = 10  # of each kind
IMAGES_OF_DISORDER = 60  # at most, so that each can be seen
COMPONENTS = 50


class Point(NamedTuple):
    """One image or centroid on the map."""

    disorder_id: str
    disorder_name: str | None
    cohort: str  # most frequent, less frequent
    kind: str  # image, centroid
    x: float
    y: float


def run(lab: Lab) -> Tables:
    """The ten largest disorders of the frequent gallery, and ten from its smaller half."""
    study, rng = lab.study, lab.rng("tsne")
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
        centroid = patient_weighted_centroids(raw, roster.patient_of_image[images], np.zeros(1, np.intp))
        shown = np.sort(rng.permutation(len(raw))[:IMAGES_OF_DISORDER])
        rows += [unit_rows(raw[shown]), unit_rows(centroid)]
        name = roster.disorders[disorder]
        cohort = "most frequent" if place < len(most) else "less frequent"
        points += [(name.disorder_id, name.name, cohort, kind) for kind in ["image"] * len(shown) + ["centroid"]]
    places = places_of(np.concatenate(rows), lab.seed)
    return {"tsne": [Point(*point, x, y) for point, (x, y) in zip(points, places, strict=True)]}


def places_of(rows: np.ndarray, seed: int) -> list[tuple[float, float]]:
    """Where rows stand on a map of two dimensions that keeps neighbours together."""
    # one thread: the order in which threads add up would change the map from run to run
    with threadpool_limits(1):
        components = min(COMPONENTS, *rows.shape)
        reduced = PCA(components, svd_solver="full").fit_transform(rows) if components < rows.shape[1] else rows
        perplexity = min(30.0, (len(rows) - 1) / 3)
        found = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(reduced)
    return [(float(x), float(y)) for x, y in found.tolist()]

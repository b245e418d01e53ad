"""How the photos of one query are combined: before the comparison, after it, or not at all."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Float64s, Floats, Ints
from mien.core.centroids import group_means

FUSIONS = ("none", "distance", "embedding")


def fuse_embeddings(embeddings: Floats) -> Float64s:
    """Mean of the raw embeddings of a query's images, per representation (eq:emb-fusion).

    >>> fuse_embeddings(np.array([[[1.0, 0.0]], [[3.0, 2.0]]])).tolist()
    [[2.0, 1.0]]
    """
    # raw mean, as for centroids: a query is summarised as the patients it is compared with are
    fused: Float64s = embeddings.mean(axis=0, dtype=np.float64)
    return fused


def fuse_distances(distances: Floats, first_of_query: Ints) -> Floats:
    """Mean of the disorder distances of each query's images (eq:dist-fusion).

    >>> fuse_distances(np.array([[0.2, 0.4], [0.4, 0.8]]), np.array([0])).round(6).tolist()
    [[0.3, 0.6]]
    """
    if len(first_of_query) == len(distances):
        return distances
    return group_means(distances, first_of_query)

"""Disorder centroids: means of raw embeddings."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Float64s, Floats, Ints, run_starts

FIRST = np.zeros(1, dtype=np.intp)  # one group, from the first row on


def group_means(values: Floats, first_of_group: Ints) -> Float64s:
    """Mean of each run of rows, added in float64 one row after the other: the same rows give the same bits."""
    counts = np.diff(first_of_group, append=len(values))
    means = values[first_of_group].astype(np.float64)
    for group in np.flatnonzero(counts > 1).tolist():
        first, count = first_of_group[group], counts[group]
        for row in range(first + 1, first + count):
            means[group] += values[row]
        means[group] /= count
    return means


def image_weighted_centroids(embeddings: Floats, first_image: Ints) -> Float64s:
    """Mean of all images of each disorder (eq:centroid-img); images sorted by disorder, `first_image` of each.

    >>> image_weighted_centroids(np.array([[[1.0]], [[1.0]], [[4.0]]]), np.array([0])).tolist()
    [[[2.0]]]
    """
    # raw mean: the paper averages without normalising, so long vectors weigh more
    return group_means(embeddings, first_image)


def patient_weighted_centroids(embeddings: Floats, patient_of_row: Ints, first_image: Ints) -> Float64s:
    """Mean per patient, then mean over the patients of each disorder (eq:centroid-pat).

    Rows are images sorted by disorder and, inside it, by patient. A patient with two disorders has rows in both.

    >>> rows = np.array([[[1.0]], [[1.0]], [[4.0]]])  # two images of one patient, one of another
    >>> patient_weighted_centroids(rows, np.array([0, 0, 1]), np.array([0])).tolist()
    [[[2.5]]]
    """
    first_of_patient = np.flatnonzero(run_starts(patient_of_row, first_image))
    first_patient = np.searchsorted(first_of_patient, first_image)
    return group_means(group_means(embeddings, first_of_patient), first_patient)

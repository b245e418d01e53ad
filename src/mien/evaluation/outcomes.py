"""From ranks to the paper's accuracy: images within patient, patients within disorder, then disorders."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints

MISSED = np.iinfo(np.intp).max  # a rank beyond every N
MEASURES = ("reciprocal rank", "top-1", "top-3")


def true_ranks(distances: Floats, true_disorder: Ints) -> Ints:
    """Rank of the true disorder of each query, which loses ties; a disorder that the gallery lacks (-1) is `MISSED`.

    >>> true_ranks(np.array([[0.1, 0.3, 0.3], [0.1, 0.3, 0.4]]), np.array([1, 0])).tolist()
    [3, 1]
    """
    everywhere = np.ones((distances.shape[1], 1), dtype=np.float32)
    ranks: Ints = true_ranks_in_lists(distances, true_disorder, everywhere)[0]
    return ranks


def true_ranks_in_lists(distances: Floats, true_disorder: Ints, in_list: Float32s) -> Ints:
    """The same (lists, queries) in several lists of disorders; `in_list` (disorders, lists) is one or zero.

    >>> true_ranks_in_lists(np.array([[0.1, 0.3, 0.3]]), np.array([1]), np.array([[1, 0], [1, 1], [1, 0]])).tolist()
    [[3], [1]]
    """
    known = true_disorder >= 0
    own = np.take_along_axis(distances, np.where(known, true_disorder, 0)[:, np.newaxis], axis=1)
    ranks = (distances <= own).astype(np.float32) @ in_list  # exact up to 2 ** 24
    return np.where(known, ranks.T.astype(np.intp), MISSED)


def rank_measures(ranks: Ints) -> Float64s:
    """The `MEASURES` of each rank in percent, along a new first axis.

    >>> rank_measures(np.array([1, 2, 4])).tolist()
    [[100.0, 50.0, 25.0], [100.0, 0.0, 0.0], [100.0, 100.0, 0.0]]
    """
    return 100 * np.stack([1 / ranks, ranks <= 1, ranks <= 3])


def patient_outcomes(ranks: Ints, patient_of_rank: Ints, *, top: int) -> Float64s:
    """Share of each patient's rankings that have the true disorder among the first `top` (eq:image-outcome).

    A fused patient has one ranking. Patients are numbered 0, 1, ...; a patient with two disorders is two of them here.

    >>> patient_outcomes(np.array([1, 7, 2]), np.array([0, 0, 1]), top=5).tolist()
    [0.5, 1.0]
    """
    hits = np.bincount(patient_of_rank, weights=ranks <= top)
    outcomes: Float64s = hits / np.bincount(patient_of_rank)
    return outcomes


def mean_per_disorder(outcomes: Float64s, disorder_of_outcome: Ints) -> float:
    """Mean of patients' outcomes within each disorder, then over the disorders that have patients (eq:per-disorder).

    >>> mean_per_disorder(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 4]))
    0.75
    """
    patients = np.bincount(disorder_of_outcome)
    sums = np.bincount(disorder_of_outcome, weights=outcomes)
    return float((sums[patients > 0] / patients[patients > 0]).mean())

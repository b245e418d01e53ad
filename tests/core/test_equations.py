from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien.core.centroids import CENTROID_OF_KIND, image_weighted_centroid
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.method import fuse_distances, fuse_embeddings
from mien.core.scores.hybrid import hybrid_distance
from mien.core.scores.nearest import nearest_distance
from mien.core.scores.proportional import neighbours_counted, proportional_nearest_distance
from mien.evaluation.outcomes import MISSED, mean_per_disorder, patient_outcomes, true_ranks, true_ranks_in_lists

import oracle
from cohorts import as_plain_gallery, random_cohort


def test_distance_is_the_mean_of_cosine_distances(rng):
    a = rng.standard_normal((5, 12, 7)) * 10.0 ** rng.uniform(-3, 3, (5, 12, 1))
    b = rng.standard_normal((4, 12, 7))
    expected = [[oracle.distance(x.tolist(), y.tolist()) for y in b] for x in a]
    np.testing.assert_allclose(mean_cosine_distance(unit_rows(a), unit_rows(b)), expected, atol=1e-12)


def test_a_long_representation_weighs_no_more_than_a_short_one():
    query = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    gallery = np.array([[[1000.0, 0.0], [0.0, 0.001]]])
    assert mean_cosine_distance(unit_rows(query), unit_rows(gallery))[0, 0] == pytest.approx(0.5)


def test_centroids_are_the_means_of_plain_loops(rng):
    cohort = random_cohort(rng, disorders=10, two_disorder_patients=4)
    roster = cohort.roster
    for place, disorder in enumerate(roster.disorders):
        images = as_plain_gallery(cohort)[disorder.disorder_id]
        patients = sorted({patient_id for patient_id, _ in images})
        means = [oracle.mean([e for owner, e in images if owner == patient_id]) for patient_id in patients]
        rows = roster.images_with(place)
        for kind, expected in (("image", oracle.mean([e for _, e in images])), ("patient", oracle.mean(means))):
            found = CENTROID_OF_KIND[kind](cohort.embeddings[rows], roster.patient_of_image[rows]).mean
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_centroids_are_raw_means_and_long_vectors_weigh_more():
    images = np.array([[[8.0, 0.0]], [[0.0, 1.0]]])
    np.testing.assert_array_equal(image_weighted_centroid(images, np.array([0, 1])).mean, [[4.0, 0.5]])


def test_fusing_one_image_changes_no_bit(rng):
    embedding = rng.standard_normal((1, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(fuse_embeddings(embedding), embedding[0].astype(np.float64))
    distances = rng.standard_normal((3, 5))
    assert fuse_distances(distances, np.arange(3)) is distances


def test_hybrid_ends_are_exact(rng):
    nearest, centroid = rng.random((2, 50)).astype(np.float32)
    np.testing.assert_array_equal(hybrid_distance(nearest, centroid, centroid_weight=0.0), nearest)
    np.testing.assert_array_equal(hybrid_distance(nearest, centroid, centroid_weight=1.0), centroid)


@pytest.mark.parametrize(
    ("alpha", "images", "counted"),
    [
        (0.1, 30, 3),
        (0.1, 31, 4),
        (0.07, 100, 7),
        (0.29, 100, 29),
        (1.0, 17, 17),
        (0.05, 1, 1),
        (0.001, 900, 1),
        (0.5, 3, 2),
    ],
)
def test_the_share_of_images_is_taken_as_it_is_written(alpha, images, counted):
    assert neighbours_counted(np.array([images]), alpha).tolist() == [counted]


@given(st.integers(1, 1000), st.integers(1, 2000))
def test_whole_shares_never_round_up(thousandths, images):
    [counted] = neighbours_counted(np.array([images]), thousandths / 1000)
    assert counted == -(-thousandths * images // 1000)


def test_alpha_one_is_the_mean_and_a_small_alpha_the_nearest(rng):
    distances, first, sizes = rng.random((4, 9)), np.array([0, 2, 3]), np.array([2, 1, 6])
    counts = [neighbours_counted(sizes, alpha) for alpha in (1.0, 0.01)]
    everything, few = proportional_nearest_distance(distances, first, counts)
    means = [distances[:, :2].mean(axis=1), distances[:, 2], distances[:, 3:].mean(axis=1)]
    np.testing.assert_allclose(everything, np.stack(means, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(few, nearest_distance(distances, first))


def test_the_true_disorder_loses_ties():
    distances = np.array([[0.2, 0.2, 0.5], [0.2, 0.2, 0.5], [0.1, 0.2, 0.3]])
    assert true_ranks(distances, np.array([0, 2, -1])).tolist() == [2, 3, MISSED]


@given(st.integers(0, 2**32 - 1))
def test_ranks_in_several_lists_are_those_in_each_list_alone(seed):
    rng = np.random.default_rng(seed)
    distances = rng.integers(0, 4, size=(5, 7)).astype(np.float64)  # with ties
    true_disorder = rng.integers(-1, 7, size=5)
    in_list = rng.integers(0, 2, size=(7, 3)).astype(np.float32)
    in_list[true_disorder[true_disorder >= 0]] = 1
    for ranks, listed in zip(true_ranks_in_lists(distances, true_disorder, in_list), in_list.T, strict=True):
        for rank, of_query, true in zip(ranks.tolist(), distances.tolist(), true_disorder.tolist(), strict=True):
            before = [d for d, inside in zip(of_query, listed.tolist(), strict=True) if inside and d <= of_query[true]]
            assert rank == (len(before) if true >= 0 else MISSED)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(1, 40)), min_size=1, max_size=40))
def test_accuracy_averages_images_then_patients_then_disorders(rows):
    """Rows of (disorder, patient within it, rank of one image), against plain loops."""
    ranks = {}
    for disorder, patient, rank in rows:
        ranks.setdefault((disorder, patient), []).append(rank)
    cases = sorted(ranks)
    patient_of_rank = np.array([place for place, case in enumerate(cases) for _ in ranks[case]])
    flat = np.array([rank for case in cases for rank in ranks[case]])
    outcomes = patient_outcomes(flat, patient_of_rank, top=5)
    expected = {}
    for (disorder, _), own in ranks.items():
        expected.setdefault(disorder, []).append(sum(rank <= 5 for rank in own) / len(own))
    per_disorder = [sum(own) / len(own) for own in expected.values()]
    measured = mean_per_disorder(outcomes, np.array([disorder for disorder, _ in cases]))
    assert measured == pytest.approx(sum(per_disorder) / len(per_disorder))

"""The bootstrap against exact enumeration of all that can be drawn."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from mien.evaluation.bootstrap import bootstrap_means, interval_of


def exact_distribution(values, weights, disorder_of_patient):
    """{mean: probability} over every draw of disorders, and of patients within them."""
    disorders = sorted(set(disorder_of_patient))
    mean_of = {}
    for disorder in disorders:
        patients = [patient for patient, of in enumerate(disorder_of_patient) if of == disorder]
        share = [weights[patient] / sum(weights[patient] for patient in patients) for patient in patients]
        outcomes = Counter()
        for draw in product(range(len(patients)), repeat=len(patients)):
            probability = np.prod([share[place] for place in draw])
            outcomes[round(float(np.mean([values[patients[place]] for place in draw])), 12)] += probability
        mean_of[disorder] = outcomes
    distribution = Counter()
    for drawn in product(disorders, repeat=len(disorders)):
        for means in product(*(mean_of[disorder].items() for disorder in drawn)):
            probability = np.prod([p for _, p in means]) / len(disorders) ** len(disorders)
            distribution[round(float(np.mean([mean for mean, _ in means])), 12)] += probability
    return distribution


CASES = [
    ([1.0, 0.0, -1.0, 0.5], [1, 1, 1, 1], [0, 0, 1, 1]),
    ([1.0, 0.0, 1.0, -0.5, 0.25], [3, 1, 2, 1, 1], [0, 0, 1, 1, 2]),
    ([2.0, -1.0], [1, 1], [0, 1]),
    ([1.0, -1.0, 0.0], [5, 1, 4], [0, 0, 0]),
]


@pytest.mark.parametrize(("values", "weights", "disorder_of_patient"), CASES)
def test_draws_follow_the_exact_distribution(values, weights, disorder_of_patient):
    resamples = 200_000
    found = bootstrap_means(
        np.array([values]),
        np.array(weights),
        np.array(disorder_of_patient),
        rng=np.random.default_rng(1),
        resamples=resamples,
    )[0]
    expected = exact_distribution(values, weights, disorder_of_patient)
    assert sum(expected.values()) == pytest.approx(1)
    drawn = Counter(found.round(9).tolist())
    rounded = Counter()
    for mean, probability in expected.items():
        rounded[round(mean, 9) + 0.0] += probability
    assert set(drawn) <= set(rounded)
    for mean, probability in rounded.items():
        error = 5 * np.sqrt(probability * (1 - probability) / resamples) + 1e-9
        assert drawn[mean] / resamples == pytest.approx(probability, abs=error)


@pytest.mark.parametrize(("values", "weights", "disorder_of_patient"), CASES)
def test_p_value_is_the_exact_one_but_for_drawing(values, weights, disorder_of_patient):
    resamples = 100_000
    found = bootstrap_means(
        np.array([values]),
        np.array(weights),
        np.array(disorder_of_patient),
        rng=np.random.default_rng(2),
        resamples=resamples,
    )[0]
    exact = exact_distribution(values, weights, disorder_of_patient)
    below, above = (sum(p for mean, p in exact.items() if sign * mean <= 0) for sign in (1, -1))
    assert interval_of(found).p_value == pytest.approx(min(1, 2 * min(below, above)), abs=0.02)


def test_disorders_can_count_differently():
    values, patients = np.array([[1.0, 0.0]]), np.array([0, 1])
    means = bootstrap_means(
        values,
        np.ones(2, dtype=int),
        patients,
        weight_of_disorder=np.array([0.75, 0.25]),
        rng=np.random.default_rng(1),
        resamples=40_000,
    )[0]
    shares = {value: np.mean(means == value) for value in (0.0, 0.75, 1.0)}
    assert shares == pytest.approx({0.0: 0.25, 0.75: 0.5, 1.0: 0.25}, abs=0.02)  # both zero, one of each, both one


def test_all_measures_see_the_same_draws():
    values = np.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.5], [2.0, 0.0, 1.0]])
    same, again, twice = bootstrap_means(
        values, np.ones(3, dtype=int), np.array([0, 0, 1]), rng=np.random.default_rng(1), resamples=50
    )
    assert same.tolist() == again.tolist()
    assert twice.tolist() == pytest.approx((2 * same).tolist())


def test_no_difference_has_p_value_one():
    means = bootstrap_means(np.zeros((1, 3)), np.ones(3, dtype=int), np.array([0, 1, 2]), rng=np.random.default_rng(1))
    assert interval_of(means[0]).p_value == 1


def test_differences_that_cancel_are_exactly_zero():
    values = np.array([[0.1 + 0.2 - 0.3, 0.1 + 0.2 - 0.3]])  # 5.6e-17
    means = bootstrap_means(values, np.ones(2, dtype=int), np.array([0, 1]), rng=np.random.default_rng(1))
    assert not means.any()


def test_the_smallest_p_value_is_that_of_four_thousand_resamples():
    assert interval_of(np.ones(4000)).p_value == 2 / 4001

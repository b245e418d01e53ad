"""Statistics of groups against plain loops, and against what chance gives."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kstest

from mien.evaluation.group_statistics import (
    chance,
    chance_of_pairs,
    close_clusters,
    groups_of_one_disorder,
    holm,
    jackknife_interval,
    matched_groups,
    mean_within,
    means_within,
    means_without_one,
    neighbour_ranks,
    pair_shares,
    random_groups,
    separation,
)

DISORDERS = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3, 3])


def random_distances(rng, patients):
    upper = np.triu(rng.random((patients, patients)).round(2), 1)  # rounded: with ties
    return upper + upper.T


def plain_mean(distances, members):
    pairs = [distances[a][b] for a, b in combinations(members, 2)]
    return sum(pairs) / len(pairs)


def test_means_equal_plain_loops(rng):
    distances = random_distances(rng, 7)
    members = np.array([[0, 3, 5, 6], [1, 2, 4, 0]])
    all_of, without_last = means_within(distances, members)
    for group, mean, shorter in zip(members.tolist(), all_of, without_last, strict=True):
        assert mean == pytest.approx(plain_mean(distances, group))
        assert shorter == pytest.approx(plain_mean(distances, group[:-1]))
    assert mean_within(distances) == pytest.approx(plain_mean(distances, range(7)))
    for patient, mean in enumerate(means_without_one(distances)):
        assert mean == pytest.approx(plain_mean(distances, [other for other in range(7) if other != patient]))


@pytest.mark.parametrize("size", [2, 4, 6])
def test_a_disorder_is_drawn_again_only_when_all_others_were(rng, size):
    groups = random_groups(DISORDERS, size, 400, rng=rng)
    assert groups.shape == (400, size)
    for group in groups:
        assert len(set(group.tolist())) == size
        times = np.bincount(DISORDERS[group], minlength=4)
        if size <= 4:
            assert times.max() == 1
        else:
            # the disorder of one patient cannot give two
            assert times.min() == 1
            assert times.max() <= size - 3


def test_every_disorder_is_drawn_as_often_whatever_its_size(rng):
    both = [random_groups(DISORDERS, 2, 4000, rng=rng)]
    both.append(matched_groups(DISORDERS, np.ones((2, len(DISORDERS)), dtype=bool), 4000, rng=rng))
    for groups in both:
        shares = np.bincount(DISORDERS[groups[:, 0]], minlength=4) / 4000
        assert np.allclose(shares, 0.25, atol=0.04)
        first = groups[DISORDERS[groups[:, 0]] == 3][:, 0]
        assert np.allclose(np.bincount(first, minlength=10)[6:] / len(first), 0.25, atol=0.07)


def test_a_group_of_one_disorder_is_of_any_that_has_enough_patients(rng):
    groups = groups_of_one_disorder(DISORDERS, 3, 2000, rng=rng)
    assert groups.shape == (2000, 3)
    assert all(len(set(group.tolist())) == 3 and len(set(DISORDERS[group].tolist())) == 1 for group in groups)
    assert np.allclose(np.bincount(DISORDERS[groups[:, 0]], minlength=4) / 2000, [0.5, 0, 0, 0.5], atol=0.05)
    whole = groups_of_one_disorder(DISORDERS, 20, 5, rng=rng)  # no disorder has 20: as many as the largest has
    assert np.sort(whole, axis=1).tolist() == [[6, 7, 8, 9]] * 5


def test_a_matched_draw_suits_its_member(rng):
    suits = np.zeros((3, 10), dtype=bool)
    suits[0, [0, 1]] = suits[1, [0, 4]] = suits[2, :] = True
    groups = matched_groups(DISORDERS, suits, 300, rng=rng)
    assert all(suits[member, patient] for group in groups for member, patient in enumerate(group))
    assert all(len(set(group.tolist())) == 3 for group in groups)


def test_the_observed_value_counts_as_drawn():
    assert chance(np.array([0.2, 0.3, 0.4]), 0.1) == 1 / 4
    assert chance(np.array([0.2, 0.3, 0.4]), 0.3) == 3 / 4


def test_holm_by_hand():
    # sorted 0.001, 0.02, 0.03, 0.9 times 4, 3, 2, 1; never below an earlier one
    assert holm(np.array([0.03, 0.001, 0.9, 0.02])).tolist() == pytest.approx([0.06, 0.004, 0.9, 0.06])
    assert holm(np.array([0.5, 0.6])).tolist() == [1.0, 1.0]


def plain_separation(distances, inside, *, others_alike=False):
    everybody = range(len(distances))

    def gain(members):
        outside = [other for other in everybody if other not in members]
        between = [distances[a][b] for a in members for b in outside]
        within = [plain_mean(distances, group) for group in [members, *[outside] * others_alike]]
        return sum(within) / len(within) - sum(between) / len(between)

    groups = list(combinations(everybody, len(inside)))
    return sum(gain(group) <= gain(tuple(inside)) + 1e-9 for group in groups) / len(groups)


def test_few_ways_to_deal_patients_are_all_looked_at(rng):
    distances = random_distances(rng, 8)
    inside = np.isin(np.arange(8), [1, 4, 6])
    found = separation(distances, inside, rng=rng)
    assert found.exact
    assert found.p_value == pytest.approx(plain_separation(distances, [1, 4, 6]))
    both = separation(distances, inside, rng=rng, others_alike=True)
    assert both.p_value == pytest.approx(plain_separation(distances, [1, 4, 6], others_alike=True))
    assert both.between == found.between


def test_a_group_is_told_from_others_who_are_more_alike(rng):
    # patients of the tight group, dealt into the loose one, would make a closer group than it is
    rows = np.concatenate([rows_of(rng, 6, face=np.ones(30), alike=0.7), rows_of(rng, 8, face=-np.ones(30), alike=4.0)])
    distances = 1 - rows @ rows.T
    np.fill_diagonal(distances, 0)
    inside = np.arange(14) < 6
    assert separation(distances, inside, rng=rng, others_alike=True).p_value < 0.001


def test_patients_of_one_kind_dealt_to_two_groups_give_uniform_p_values(rng):
    p_values = []
    for _ in range(200):
        rows = rows_of(rng, 11, face=np.ones(30), alike=0.7)
        p_values.append(separation(1 - rows @ rows.T, np.arange(11) < 4, rng=rng, others_alike=True).p_value)
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_many_ways_to_deal_give_nearly_the_same_as_all(rng, monkeypatch):
    distances = random_distances(rng, 10)
    inside = np.arange(10) < 4
    exact = separation(distances, inside, rng=rng)
    monkeypatch.setattr("mien.evaluation.group_statistics.MOST_ENUMERATED", 1)
    drawn = separation(distances, inside, rng=rng)
    assert not drawn.exact
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert drawn.between == exact.between


def test_ranks_equal_plain_loops_and_lose_ties(rng):
    distances = random_distances(rng, 6)
    to_controls = rng.random((6, 20)).round(1)
    ranks = neighbour_ranks(distances, to_controls)
    for i in range(6):
        for j in set(range(6)) - {i}:
            others = [distances[i][k] for k in range(6) if k not in {i, j}] + to_controls[i].tolist()
            assert ranks[i, j] == 1 + sum(other <= distances[i][j] for other in others)


def test_shares_of_pairs_equal_plain_loops(rng):
    distances, at = random_distances(rng, 10), np.array([0.2, 0.5, 0.7])
    found = pair_shares(distances, DISORDERS, at)
    same, different = {}, {}
    for a, b in combinations(range(10), 2):
        where = same if DISORDERS[a] == DISORDERS[b] else different
        where.setdefault((DISORDERS[a], DISORDERS[b]), []).append(distances[a][b])
    for place, limit in enumerate(at):
        for shares, pairs in ((found.same, same), (found.different, different)):
            expected = np.mean([np.mean([d <= limit for d in of_pair]) for of_pair in pairs.values()])
            assert shares[place] == pytest.approx(expected)
    assert found.mean_of_different == pytest.approx(np.mean([np.mean(of_pair) for of_pair in different.values()]))
    closer = [
        np.mean([(s < d) + 0.5 * (s == d) for s in of_same for d in of_different])
        for of_same in same.values()
        for of_different in different.values()
    ]
    every = pair_shares(distances, DISORDERS, np.unique(distances))
    assert every.auc == pytest.approx(np.mean(closer))
    assert found.mean_of_disorder.tolist() == pytest.approx([np.mean(of_pair) for of_pair in same.values()])


def test_chance_of_pairs_equals_plain_loops(rng):
    distances = random_distances(rng, 10)
    controls = [distances[a][b] for a, b in combinations(range(10), 2) if DISORDERS[a] != DISORDERS[b]]
    pairs = np.array([0.3, 0.01, 0.9, 0.3, controls[0]])
    expected = [(1 + sum(d <= pair + 1e-9 for d in controls)) / (1 + len(controls)) for pair in pairs]
    assert chance_of_pairs(pairs, distances, DISORDERS).tolist() == pytest.approx(expected)


def test_every_two_patients_of_a_cluster_are_close():
    chain = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))  # neighbours at 1, ends at 3
    assert close_clusters(chain, 1) == [[0, 1], [2, 3]]
    assert close_clusters(chain, 0.5) == []


def rows_of(rng, patients, *, face=None, alike=0.0):
    rows = rng.standard_normal((patients, 30)) + (0 if face is None else alike * face)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def p_of_group(rng, rows, controls, disorder, draws=199):
    every = 1 - controls @ controls.T
    np.fill_diagonal(every, 0)
    own = 1 - rows @ rows.T
    np.fill_diagonal(own, 0)
    drawn, _ = means_within(every, random_groups(disorder, len(rows), draws, rng=rng))
    return chance(drawn, mean_within(own))


def test_random_patients_give_uniform_p_values_and_planted_ones_small_ones(rng):
    disorder = np.repeat(np.arange(20), 5)
    nobody, planted = [], []
    for _ in range(150):
        controls = rows_of(rng, 100)
        nobody.append(p_of_group(rng, rows_of(rng, 4), controls, disorder))
        planted.append(p_of_group(rng, rows_of(rng, 4, face=np.ones(30), alike=0.7), controls, disorder))
    assert kstest(nobody, "uniform").pvalue > 0.01
    assert np.mean(np.array(planted) < 0.05) > 0.9


def test_the_interval_holds_the_mean_of_all_such_patients(rng):
    inside = 0
    truth = mean_within(
        1 - (many := rows_of(rng, 1500, face=np.ones(30), alike=0.7)) @ many.T - np.diag(1 - (many * many).sum(axis=1))
    )
    for _ in range(200):
        rows = rows_of(rng, 8, face=np.ones(30), alike=0.7)
        distances = 1 - rows @ rows.T
        np.fill_diagonal(distances, 0)
        low, high = jackknife_interval(distances)
        inside += low <= truth <= high
    assert 0.88 <= inside / 200 <= 1
    assert jackknife_interval(np.zeros((2, 2))) is None

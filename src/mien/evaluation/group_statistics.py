"""Are the patients of a group more alike than chance? Statistics of distances between patients, one row each."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import t

from mien.core.arrays import Bools, Float64s, Floats, Ints
from mien.core.roster import run_starts

DRAWS = 9999
MATCHED_DRAWS = 999
MOST_ENUMERATED = 20_000  # ways to choose a group; where there are more, some are drawn
MOST_OF_ONE = 10  # patients with one disorder who are drawn as a group: few disorders have more
CELLS_AT_A_TIME = 1 << 22  # of the distance matrices of draws
ROUNDING = 1e-9  # distances this close are equal


def mean_within(distances: Floats) -> float:
    """Mean distance of two patients, from a square matrix with zeros on its diagonal.

    >>> mean_within(np.array([[0.0, 0.2, 0.4], [0.2, 0.0, 0.6], [0.4, 0.6, 0.0]]))
    0.4
    """
    return round(float(distances.sum(dtype=np.float64)) / (len(distances) * (len(distances) - 1)), 12)


def means_within(distances: Floats, members: Ints) -> tuple[Float64s, Float64s]:
    """The mean distances in many groups of rows (groups, size): of all patients, and of all but the last."""
    size = members.shape[1]
    sums = np.empty(len(members))
    step = max(1, CELLS_AT_A_TIME // size**2)
    for start in range(0, len(members), step):
        some = members[start : start + step]
        sums[start : start + step] = distances[some[:, :, np.newaxis], some[:, np.newaxis]].sum((1, 2), np.float64)
    of_last = distances[members[:, -1:], members].sum(1, np.float64)
    return sums / (size * (size - 1)), (sums - 2 * of_last) / max(1, (size - 1) * (size - 2))


def _blocks(disorder_of_patient: Ints) -> tuple[Ints, Ints]:
    """Where the patients of each disorder start, and how many they are; sorted by disorder."""
    starts = np.flatnonzero(run_starts(disorder_of_patient))
    return starts, np.diff(starts, append=len(disorder_of_patient))


def random_groups(disorder_of_patient: Ints, size: int, draws: int, *, rng: np.random.Generator) -> Ints:
    """Groups (draws, size) of different patients: disorders first, each as likely, then one patient of each.

    A disorder is drawn again only when all others were.
    """
    starts, counts = _blocks(disorder_of_patient)
    if size > len(starts):
        step = max(1, CELLS_AT_A_TIME // len(disorder_of_patient))
        chunks = [min(step, draws - done) for done in range(0, draws, step)]
        return np.concatenate([_groups_in_turns(counts, size, some, rng) for some in chunks])
    chosen = rng.random((draws, len(starts))).argpartition(size - 1, axis=1)[:, :size]
    groups: Ints = starts[chosen] + (rng.random((draws, size)) * counts[chosen]).astype(np.intp)
    return groups


def _groups_in_turns(counts: Ints, size: int, draws: int, rng: np.random.Generator) -> Ints:
    """Random groups with more members than there are disorders: one patient of each, then a second one of each, ..."""
    turns = [rng.random((draws, count)).argsort(axis=1) + rng.random((draws, 1)) for count in counts.tolist()]
    groups: Ints = np.concatenate(turns, axis=1).argpartition(size - 1, axis=1)[:, :size]
    return groups


def groups_of_one_disorder(disorder_of_patient: Ints, size: int, draws: int, *, rng: np.random.Generator) -> Ints:
    """Groups of patients with one disorder. Every disorder with enough patients is as likely, and so is every patient.

    A group has `MOST_OF_ONE` patients at most, and no more than the largest disorder has.
    """
    starts, counts = _blocks(disorder_of_patient)
    size = min(size, MOST_OF_ONE, int(counts.max()))
    enough = np.flatnonzero(counts >= size)
    times_drawn = np.bincount(rng.choice(enough, draws), minlength=len(counts))
    drawn = [
        starts[place] + rng.random((times_drawn[place], counts[place])).argsort(axis=1)[:, :size]
        for place in enough.tolist()
    ]
    return np.concatenate(drawn)


def matched_groups(disorder_of_patient: Ints, suits: Bools, draws: int, *, rng: np.random.Generator) -> Ints:
    """Groups like `random_groups`, but each member is replaced by a patient who suits: `suits` (members, patients)."""
    _, disorder, counts = np.unique(disorder_of_patient, return_inverse=True, return_counts=True)
    times_drawn = np.zeros((draws, len(counts)))
    taken = np.zeros((draws, len(disorder)), dtype=np.bool_)
    groups, every = np.empty((draws, len(suits)), dtype=np.intp), np.arange(draws)
    for member in rng.permutation(len(suits)).tolist():
        candidates = np.flatnonzero(suits[member])
        weights = 1 / counts[disorder[candidates]]  # each disorder is as likely, if all of its patients suit
        chosen = rng.choice(candidates, draws, p=weights / weights.sum())
        again = np.flatnonzero(times_drawn[every, disorder[chosen]])  # not the first of its disorder
        late = times_drawn[np.ix_(again, disorder[candidates])]
        late[taken[np.ix_(again, candidates)]] = np.inf
        # of patients with waiting times like these, each comes first as often as its weight says
        waits = rng.standard_exponential(late.shape) / weights
        waits[late > late.min(axis=1, keepdims=True)] = np.inf
        chosen[again] = candidates[waits.argmin(axis=1)]
        groups[:, member], taken[every, chosen] = chosen, True
        times_drawn[every, disorder[chosen]] += 1
    return groups


def chance(drawn: Floats, observed: float) -> float:
    """One-sided p-value: how often drawn values are as small. The observed one counts as drawn (+1).

    >>> chance(np.array([0.5, 0.6, 0.7]), 0.5)
    0.5
    """
    return (1 + int(np.count_nonzero(drawn <= observed + ROUNDING))) / (len(drawn) + 1)


def holm(p_values: Floats) -> Float64s:
    """Adjusted for so many tests by Holm's method.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)).clip(max=1)
    adjusted: Float64s = np.empty(len(order))
    adjusted[order] = stepped
    return adjusted


def jackknife_interval(distances: Floats) -> tuple[float, float] | None:
    """95 % interval of the mean distance in a group whose patients stand for many; None of fewer than three."""
    size = len(distances)
    if size < 3:
        return None
    without = means_without_one(distances)
    error = np.sqrt((size - 1) / size * ((without - without.mean()) ** 2).sum())
    half = float(t.ppf(0.975, size - 1) * error)
    middle = mean_within(distances)
    return middle - half, middle + half


def means_without_one(distances: Floats) -> Float64s:
    """The mean distance in a group of three or more, without each of its patients in turn."""
    size = len(distances)
    rests: Float64s = distances.sum(dtype=np.float64) - 2 * distances.sum(axis=1, dtype=np.float64)
    return rests / ((size - 1) * (size - 2))


class Separation(NamedTuple):
    """Of one group from other patients."""

    between: float  # mean distance of a patient of the group to one of the others
    p_value: float  # that they are as far apart, if patients are dealt to the two at random
    exact: bool  # all ways to deal were looked at


def separation(distances: Floats, inside: Bools, *, rng: np.random.Generator, others_alike: bool = False) -> Separation:
    """Whether a group of two or more is closer in itself than to the others: patients are permuted, not photos.

    Where the others are alike, the mean within the two groups counts. Otherwise others who are more alike than the
    group, dealt into it, would be a closer group than it is, however far they are from it.
    """
    size, everybody = int(inside.sum()), len(distances)
    exact = comb(everybody, size) <= MOST_ENUMERATED
    if exact:
        dealt = np.array(list(combinations(range(everybody), size)))
    else:
        dealt = rng.random((DRAWS, everybody)).argpartition(size - 1, axis=1)[:, :size]
    members = np.concatenate([np.flatnonzero(inside)[np.newaxis], dealt])
    within, _ = means_within(distances, members)
    sums = distances.sum(axis=1, dtype=np.float64)[members].sum(axis=1)
    between = (sums - within * size * (size - 1)) / (size * (everybody - size))
    gains = within - between  # the smaller, the more apart
    rest = everybody - size
    if others_alike and rest > 1:
        of_others = distances.sum(dtype=np.float64) - 2 * sums + within * size * (size - 1)
        gains = (within + of_others / (rest * (rest - 1))) / 2 - between
    p_value = float(np.mean(gains[1:] <= gains[0] + ROUNDING)) if exact else chance(gains[1:], float(gains[0]))
    return Separation(float(between[0]), p_value, exact)


def neighbour_ranks(distances: Floats, to_controls: Floats) -> Ints:
    """Where patient j stands among all others, seen from patient i (i, j): controls and patients; ties are lost.

    >>> neighbour_ranks(np.array([[0.0, 0.5], [0.5, 0.0]]), np.array([[0.4, 0.9], [0.6, 0.7]])).tolist()
    [[0, 2], [1, 0]]
    """
    ranks = np.empty(distances.shape, dtype=np.intp)
    for patient, row in enumerate(distances):
        others = np.sort(np.concatenate([np.delete(row, patient), to_controls[patient]]))
        ranks[patient] = np.searchsorted(others, row, side="right")
        ranks[patient, patient] = 0
    return ranks


class PairShares(NamedTuple):
    """How often two controls lie as close as some distances. Disorders count the same, and so do pairs of disorders."""

    distances: Float64s  # increasing
    same: Float64s  # share of pairs with the same disorder
    different: Float64s
    mean_of_different: float
    sd_of_different: float
    mean_of_disorder: Float64s  # of each disorder with two patients or more

    @property
    def auc(self) -> float:
        """How often two patients with one disorder are closer than two with different ones."""
        return float(np.trapezoid([0.0, *self.same, 1.0], [0.0, *self.different, 1.0]))


def pair_shares(distances: Floats, disorder_of_patient: Ints, at: Float64s) -> PairShares:
    """Shares of the pairs of controls, who are sorted by disorder and have one each, up to the distances `at`."""
    starts, counts = _blocks(disorder_of_patient)
    weight = 1 / counts.repeat(counts)
    same, different, moments, means = np.zeros(len(at) + 1), np.zeros(len(at) + 1), np.zeros(3), []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        block = distances[start : start + count, start : start + count][np.triu_indices(count, 1)].astype(np.float64)
        if len(block):
            same += np.bincount(np.searchsorted(at, block), minlength=len(same)) / len(block)
            means.append(float(block.mean()))
        beyond = distances[start : start + count, start + count :].astype(np.float64)
        weights = np.broadcast_to(weight[start + count :] / count, beyond.shape)
        moments += [(weights * beyond**power).sum() for power in range(3)]
        places = np.searchsorted(at, beyond.ravel())
        different += np.bincount(places, weights=weights.ravel(), minlength=len(different))
    mean, square = (moments[1:] / moments[0]).tolist()
    same_up_to, different_up_to = (counted.cumsum()[:-1] / max(counted.sum(), 1e-300) for counted in (same, different))
    return PairShares(at, same_up_to, different_up_to, mean, float(np.sqrt(square - mean**2)), np.array(means))


def chance_of_pairs(pairs: Floats, distances: Floats, disorder_of_patient: Ints) -> Float64s:
    """The p-value of each distance: how often two controls with different disorders lie as close, with the +1 rule.

    Controls are sorted by disorder, and have one each.
    """
    order, closer, every = np.argsort(pairs), np.zeros(len(pairs), dtype=np.intp), 0
    for start, count in zip(*(part.tolist() for part in _blocks(disorder_of_patient)), strict=True):
        others = np.sort(distances[start : start + count, start + count :], axis=None)
        closer[order] += np.searchsorted(others, pairs[order] + ROUNDING, side="right")
        every += len(others)
    found: Float64s = (1 + closer) / (every + 1)
    return found


def close_clusters(distances: Floats, farthest: float) -> list[list[int]]:
    """Groups in which every two patients are at most so far apart (complete linkage); the largest first.

    >>> close_clusters(np.array([[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]]), 0.2)
    [[0, 1]]
    """
    joined = linkage(squareform(np.asarray(distances, np.float64), checks=False), "complete")
    cluster_of = fcluster(joined, farthest + ROUNDING, "distance")
    found = [np.flatnonzero(cluster_of == cluster).tolist() for cluster in np.unique(cluster_of)]
    return sorted((members for members in found if len(members) > 1), key=lambda members: (-len(members), members))

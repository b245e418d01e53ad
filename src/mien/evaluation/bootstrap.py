"""The paired two-stage cluster bootstrap: disorders are drawn, then patients within each drawn disorder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float64s, Ints

RESAMPLES = 4000
DECIMALS = 12


class Interval(NamedTuple):
    """Of a difference; nothing where none was drawn."""

    low: float | None = None
    high: float | None = None
    p_value: float | None = None


def bootstrap_means(
    values: Float64s,
    weights: Ints,
    disorder_of_patient: Ints,
    *,
    rng: np.random.Generator,
    weight_of_disorder: Float64s | None = None,
    resamples: int = RESAMPLES,
) -> Float64s:
    """Mean per disorder of `values` (measures, patients) in each resample, as (measures, resamples).

    As many disorders are drawn as there are; each time, as many of its patients as it has, with probabilities in
    proportion to their weights. All measures are of the same draws: to compare two methods, give the difference of
    their outcomes. Disorders count the same, or by `weight_of_disorder`: where folds differ in their disorders, the
    mean over folds weighs them so.
    """
    disorders = int(disorder_of_patient.max()) + 1
    times_drawn = rng.multinomial(disorders, np.full(disorders, 1 / disorders), size=resamples)
    weight = np.ones(disorders) if weight_of_disorder is None else weight_of_disorder
    means = np.zeros((len(values), resamples))
    for disorder in range(disorders):
        patients = np.flatnonzero(disorder_of_patient == disorder)
        resample_of_draw = np.repeat(np.arange(resamples), times_drawn[:, disorder])
        share = weights[patients] / weights[patients].sum()
        counts = rng.multinomial(len(patients), share, size=len(resample_of_draw))  # (draws, patients)
        mean_of_draw = values[:, patients] @ counts.T / len(patients)
        for measure, of_draw in enumerate(mean_of_draw):
            means[measure] += weight[disorder] * np.bincount(resample_of_draw, weights=of_draw, minlength=resamples)
    return (means / (times_drawn @ weight)).round(DECIMALS)  # so that no difference is no difference


def interval_95(drawn: Float64s) -> tuple[float, float]:
    """The middle 95 % of drawn values."""
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return low, high


def interval_of(differences: Float64s) -> Interval:
    """95 % interval and two-sided p-value of bootstrapped differences.

    >>> interval_of(np.full(3999, 2.0))
    Interval(low=2.0, high=2.0, p_value=0.0005)
    """
    fewer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return Interval(*interval_95(differences), min(1.0, 2 * (1 + int(fewer)) / (len(differences) + 1)))

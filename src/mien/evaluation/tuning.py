"""Chooses the score and its parameters that fit a gallery, on its own patients, each left out in turn.

The gain that is reported is of patients whom the choice has not seen: it is made anew without each part of them.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Float64s, Ints
from mien.core.cohort import Cohort
from mien.core.method import FULL, Method
from mien.core.progress import Progress, silent
from mien.core.ranking import AnyGallery, searcher_of
from mien.evaluation.accuracy import TOPS
from mien.evaluation.bootstrap import bootstrap_means
from mien.evaluation.evidence_model import PARTS
from mien.evaluation.experiments.lambda_selection import IMPORTANCE
from mien.evaluation.known_patients import KnownPatients, index_of, known_evidence
from mien.evaluation.outcomes import mean_per_disorder, true_ranks

Objective = Literal["accuracy", "likelihood"]

LAMBDAS = (0.25, 0.5, 0.75, 1.0)
OFFSETS = (0.0, 0.01, 0.02, 0.03, 0.04)
CANDIDATES = (
    FULL,
    *(
        Method("embedding", "size-aware", centroid_weight=weight, offset=offset)
        for weight, offset in product(LAMBDAS, OFFSETS)
        if (weight, offset) != (FULL.parameters["lambda"], 0.0)
    ),
)
SHARPNESSES = np.geomspace(2, 200, 25)  # of a softmax of distances


class TunedMethod(NamedTuple):
    """What was chosen, and what it gains over `full` on patients whom the choice has not seen."""

    method: Method
    objective: Objective
    patients: int
    gain: float  # in points of the objective, or in nats
    gain_low: float  # 95 % interval
    gain_high: float
    top1_gain: float  # points
    top1_low: float
    top1_high: float


def tune(
    gallery: AnyGallery,
    *,
    objective: Objective = "accuracy",
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    seed: int = 1,
    progress: Progress = silent,
) -> TunedMethod:
    """Chooses among `CANDIDATES`; `full`, unless another is better by more than its standard error."""
    searcher = searcher_of(gallery)
    evidence = known_evidence(
        searcher, index_of(gallery), FULL, cohort=cohort, trained=trained, seed=seed, progress=progress
    )
    values, top1 = [], []
    for method in CANDIDATES:
        known = evidence.by(method)
        seen = known.only(known.present)
        ranks = true_ranks(seen.distances, seen.disorder)
        top1.append(100.0 * (ranks == 1))
        values.append(_objective(ranks) if objective == "accuracy" else log_likelihoods(seen))
    return chosen(np.array(values), np.array(top1), seen.disorder, objective=objective, seed=seed)


def chosen(values: Float64s, top1: Float64s, disorder: Ints, *, objective: Objective, seed: int) -> TunedMethod:
    """The choice by values (candidates, patients), and its gain over the first candidate."""
    rng = np.random.default_rng([seed, 3])
    part = rng.permutation(np.arange(len(disorder)) % PARTS)
    gain, of_top1 = np.zeros((2, len(disorder)))
    for number in range(PARTS):
        inside = part == number
        best = best_candidate(values[:, ~inside], disorder[~inside])
        gain[inside], of_top1[inside] = (of[best, inside] - of[0, inside] for of in (values, top1))
    _, place = np.unique(disorder, return_inverse=True)
    both = np.stack([gain, of_top1])
    drawn = bootstrap_means(both, np.ones(len(disorder), np.intp), place, rng=rng)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
    means = [mean_per_disorder(of, disorder) for of in both]
    best = best_candidate(values, disorder)
    figures = np.stack([means, low, high], axis=1).ravel().tolist()
    return TunedMethod(CANDIDATES[best], objective, len(disorder), *figures)


def best_candidate(values: Float64s, disorder: Ints) -> int:
    """The best by mean over disorders; the first one, unless the best is better by more than its standard error."""
    best = int(np.argmax([mean_per_disorder(of, disorder) for of in values]))
    gain = values[best] - values[0]
    _, place, counts = np.unique(disorder, return_inverse=True, return_counts=True)
    means = np.bincount(place, gain) / counts
    variance = np.bincount(place, (gain - means[place]) ** 2) / np.maximum(counts - 1, 1) / counts
    error = np.sqrt(variance.sum()) / len(counts)
    return best if means.mean() > error else 0


def log_likelihoods(known: KnownPatients) -> Float64s:
    """Of the true disorders, by a softmax of the distances whose sharpness fits best."""
    rows = np.arange(len(known.disorder))
    best, most = np.zeros(len(rows)), -np.inf
    for sharpness in SHARPNESSES:
        logits = -sharpness * known.distances
        logits -= logits.max(axis=1, keepdims=True)
        values = logits[rows, known.disorder] - np.log(np.exp(logits).sum(axis=1))
        if (mean := mean_per_disorder(values, known.disorder)) > most:
            best, most = values, mean
    return best


def _objective(ranks: Ints) -> Float64s:
    """The paper's objective of each patient, in percent."""
    weights = np.array(list(IMPORTANCE.values()))
    values: Float64s = 100 * (ranks[:, np.newaxis] <= np.array(TOPS)) @ weights
    return values

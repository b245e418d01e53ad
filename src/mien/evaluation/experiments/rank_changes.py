"""Figure 4: whose rank improves, whose worsens, as one component after the other is added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float64s, Ints
from mien.core.method import BASELINE, FULL, Method
from mien.evaluation.comparison import Ranks, SetName
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.outcomes import MISSED

CENSORED_AT = 30  # nobody reads further
# The order of the paper's text: "disorder-level gallery aggregation alone", then "adding hybrid scoring and
# patient-level aggregation". Its caption also speaks of an embedding-level fusion that leaves many ranks unchanged
# because most patients have one image: that is fusion alone, for the centroid moves these patients too. It is no step
# of the way (the next one would take it back), so it stands beside it, and no flow goes there.
STAGES = {
    "baseline": BASELINE,
    "patient-weighted centroid": Method("none", "patient-centroid"),
    "hybrid": Method("none", "hybrid"),
    "full": FULL,
}
BESIDE = {"embedding-level fusion alone": Method("embedding", "nearest")}
STATES = {-1: "improved", 0: "unchanged", 1: "worsened"}


class Change(NamedTuple):
    """Percentages of patients, against the baseline; median rank of the true disorder."""

    set: SetName
    stage: str
    improved: float
    unchanged: float
    worsened: float
    improved_uncensored: float
    worsened_uncensored: float
    median_rank: float | None  # none where most disorders are not in the gallery
    unchanged_with_one_image: float | None = None  # per cent of those unchanged


class Flow(NamedTuple):
    """Percentage of patients who go from one state at one stage to another at the next."""

    set: SetName
    from_stage: str
    to_stage: str
    from_state: str
    to_state: str
    percent: float


def run(context: ExperimentContext) -> Tables:
    """Unified gallery; a patient counts once per fold."""
    changes: list[Change] = []
    flows: list[Flow] = []
    for test_set in context.sets:
        folds_of = {stage: context.ranks(test_set, method) for stage, method in (STAGES | BESIDE).items()}
        states = {}
        for stage, folds in folds_of.items():
            states[stage], line = _compare(test_set, stage, folds, folds_of["baseline"])
            changes.append(line)
        for (before, after), state, next_state in product(pairwise(STAGES), STATES, STATES):
            both = (states[before] == state) & (states[after] == next_state)
            flows.append(Flow(test_set, before, after, STATES[state], STATES[next_state], _percent(both)))
    return {"rank_changes": changes, "rank_flows": flows}


def mean_ranks(folds: Sequence[Ranks], *, censored_at: int | None = None) -> Float64s:
    """Mean rank of each patient of each fold over their rankings, ranks censored first."""
    means = []
    for fold in folds:
        ranks = fold.ranks if censored_at is None else np.minimum(fold.ranks, censored_at)
        means.append(np.bincount(fold.patient_of_ranking, weights=ranks) / np.bincount(fold.patient_of_ranking))
    return np.concatenate(means)


def _compare(test_set: SetName, stage: str, folds: list[Ranks], baseline: list[Ranks]) -> tuple[Ints, Change]:
    median = float(np.median(mean_ranks(folds)))
    censored, uncensored = (  # -1 where a patient ranks better than with the baseline, 1 where worse
        np.sign(mean_ranks(folds, censored_at=most) - mean_ranks(baseline, censored_at=most)).astype(np.intp)
        for most in (CENSORED_AT, None)
    )
    has_one_image = np.array([len(patient.images) == 1 for fold in folds for patient in fold.patients])
    return censored, Change(
        test_set,
        stage,
        improved=_percent(censored == -1),
        unchanged=_percent(censored == 0),
        worsened=_percent(censored == 1),
        improved_uncensored=_percent(uncensored == -1),
        worsened_uncensored=_percent(uncensored == 1),
        median_rank=None if median >= MISSED else median,
        unchanged_with_one_image=_percent(has_one_image[censored == 0]) if (censored == 0).any() else None,
    )


def _percent(which: Bools) -> float:
    return 100 * float(which.mean())

"""Figure 4: whose rank improves, whose worsens, as one component after the other is added."""

from __future__ import annotations

from itertools import pairwise
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
        for before, after in pairwise(STAGES):
            for state, name in STATES.items():
                for next_state, next_name in STATES.items():
                    both = (states[before] == state) & (states[after] == next_state)
                    flows.append(Flow(test_set, before, after, name, next_name, _percent(both)))
    return {"rank_changes": changes, "rank_flows": flows}


def mean_ranks(fold: Ranks, *, censored_at: int | None = None) -> Float64s:
    """Mean rank of each case over its rankings, ranks censored first."""
    ranks = fold.ranks if censored_at is None else np.minimum(fold.ranks, censored_at)
    means: Float64s = np.bincount(fold.case_of_ranking, weights=ranks) / np.bincount(fold.case_of_ranking)
    return means


def _compare(test_set: SetName, stage: str, folds: list[Ranks], baseline: list[Ranks]) -> tuple[Ints, Change]:
    median = float(np.median(_mean_ranks_of(folds, None)))
    censored, uncensored = (_signs(folds, baseline, censored_at) for censored_at in (CENSORED_AT, None))
    has_one_image = np.array([len(case.images) == 1 for fold in folds for case in fold.cases])
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


def _signs(folds: list[Ranks], baseline: list[Ranks], censored_at: int | None) -> Ints:
    """-1 where a case ranks better than with the baseline, 1 where worse."""
    signs = np.sign(_mean_ranks_of(folds, censored_at) - _mean_ranks_of(baseline, censored_at))
    return signs.astype(np.intp)


def _mean_ranks_of(folds: list[Ranks], censored_at: int | None) -> Float64s:
    return np.concatenate([mean_ranks(fold, censored_at=censored_at) for fold in folds])


def _percent(which: Bools) -> float:
    return 100 * float(which.mean())

"""What a cohort analysis finds: the rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from mien.evaluation.experiment_context import Tables


class GroupResult(NamedTuple):
    """What is found of one group; without numbers where it has one patient."""

    group: str
    patients: int
    mean_distance: float | None = None
    random_mean: float | None = None  # mean distance of two gallery patients with different disorders
    p_value: float | None = None  # how often are as many random gallery patients as close
    p_holm: float | None = None
    effect: float | None = None  # standard deviations of random pairs
    ci_low: float | None = None
    ci_high: float | None = None
    p_matched: float | None = None  # random patients of the same sex and age
    matched_patients: int | None = None
    between_distance: float | None = None  # to the cohort's other patients
    p_between: float | None = None
    p_between_holm: float | None = None
    between_exact: bool | None = None
    p_without_one: float | None = None  # the largest, without one patient
    hangs_on: str | None = None  # who that is, where the result is gone without them
    same_disorder_share: float | None = None  # pairs of one disorder that are as close
    different_disorder_share: float | None = None
    less_alike_disorders: int | None = None
    compared_disorders: int | None = None
    median_rank: float | None = None  # of one of them in the list of another
    no_known_disorder_close: bool | None = None


class WithoutOne(NamedTuple):
    """A group without one of its patients."""

    group: str
    patient_id: str
    mean_distance: float
    p_value: float


class CohortPair(NamedTuple):
    """Two patients: their distance, the rank of each among everybody as seen from the other, and what chance gives."""

    patient_id: str
    other_id: str
    distance: float
    rank: int  # of the other one, among the cohort and all controls
    rank_back: int
    p_value: float
    q_value: float  # false discovery rate


class CohortPatient(NamedTuple):
    """One patient of the cohort, and the known disorder that is nearest."""

    patient_id: str
    group: str | None
    photos: int
    nearest_disorder_id: str
    nearest_disorder_name: str | None
    distance: float
    none_of_these: float | None  # probability, where the gallery is calibrated


class NearDisorder(NamedTuple):
    """A known disorder near the mean of a group's patients."""

    group: str
    rank: int
    disorder_id: str
    disorder_name: str | None
    distance: float
    centroid_distance: float
    nearest_distance: float
    gallery_patients: int
    patients_with_it: int | None  # in whose prediction set it is
    p_value: float | None  # of so few, if it were the group's disorder
    within_distance: float | None = None  # mean distance of two patients of the group, by one photo of each
    between_distance: float | None = None  # to a gallery patient with it, by one photo of each
    p_between: float | None = None  # that the two are as far apart, if the group had it, too
    p_between_holm: float | None = None
    between_exact: bool | None = None


class Cluster(NamedTuple):
    """Patients of whom every two are closer than chance."""

    cluster: int
    patients: int
    patient_ids: tuple[str, ...]
    mean_distance: float
    largest_q: float
    nearest_disorders: tuple[str, ...]


class ThresholdPoint(NamedTuple):
    """How many pairs of gallery patients lie as close."""

    distance: float
    same_disorder: float
    different_disorder: float


class RandomMean(NamedTuple):
    """How many groups of gallery patients, as large as a group, have a mean distance of about this."""

    group: str
    disorders: Literal["one", "different"]
    distance: float
    draws: int


class MapPoint(NamedTuple):
    """A patient on the map; those of the gallery are not named, because a report may be given to others."""

    patient_id: str | None
    group: str | None  # of the cohort's patients
    disorder_id: str | None  # of the gallery's
    disorder_name: str | None
    x: float
    y: float


class CohortAnalysis(NamedTuple):
    """All tables, and what stands behind them."""

    tables: Tables
    facts: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<CohortAnalysis of {self.facts['patients']} patients in {len(self.tables['groups'])} groups>"


def strongest_first(groups: Sequence[GroupResult]) -> list[GroupResult]:
    """Groups by how sure it is that they are alike, then by how much; those without a test last."""
    return sorted(groups, key=lambda group: (group.p_holm is None, group.p_holm or 0, -(group.effect or 0)))

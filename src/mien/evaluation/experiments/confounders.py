"""S9: what goes with the gain from fusing a patient's photos. Preliminary, as the paper says of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata, spearmanr

from mien.core.arrays import Float64s
from mien.core.embeddings import embedding_lengths
from mien.core.method import BASELINE, Method
from mien.core.roster import Label
from mien.core.study import ImageFacts, Study
from mien.evaluation.bootstrap import interval_95
from mien.evaluation.comparison import SetName
from mien.evaluation.evaluated_patients import EvaluatedPatient
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments.rank_changes import CENSORED_AT, mean_ranks

FUSED = Method("embedding", "nearest")
RESAMPLES = 2000
LEAST_PATIENTS = 10  # fewer say nothing
MALE = {"male": 1.0, "female": 0.0}
VARIABLES = (
    *("images", "age spread", "age gap to gallery", "mean age", "sex (male)", "gallery images of disorder"),
    "embedding length",
)
MADE_OF = {"age spread": "ages", "age gap to gallery": "ages", "mean age": "ages", "sex (male)": "sexes"}


class Correlation(NamedTuple):
    """Spearman's rho with the gain in rank, its 95 % bootstrap interval over patients, its uncorrected p-value."""

    set: SetName
    variable: str
    rho: float
    ci_low: float
    ci_high: float
    p_value: float
    patients: int


class MissingVariable(NamedTuple):
    """A variable that the study cannot say anything about, and why."""

    set: SetName
    variable: str
    reason: str


def run(context: ExperimentContext) -> Tables:
    """Multi-image patients, nearest image, unified gallery; what the study does not hold is named beside it."""
    lines: list[Correlation] = []
    missing: list[MissingVariable] = []
    for test_set in context.multi_image_patients:
        observations = _observations(context, test_set)
        for variable in VARIABLES:
            known = [(of["gain"], of[variable]) for of in observations if of[variable] is not None]
            pairs = np.array(known, dtype=np.float64).reshape(-1, 2)
            if reason := _why_missing(context.study, variable, pairs):
                missing.append(MissingVariable(test_set, variable, reason))
            else:
                lines.append(_correlation(test_set, variable, pairs, context.rng(f"confounders {test_set} {variable}")))
    return {"confounders": lines, "confounders_missing": missing}


def _why_missing(study: Study, variable: str, pairs: Float64s) -> str | None:
    """What keeps a variable from being correlated with the gain, or None."""
    if variable in MADE_OF and not len(pairs):
        return f"no {MADE_OF[variable]}: image_metadata_<version>.tsv is missing, or says nothing about them"
    if variable == "embedding length" and study.encodings.normalised:
        return "embeddings are normalised: all have length 1"
    if len(pairs) < LEAST_PATIENTS:
        return f"fewer than {LEAST_PATIENTS} patients: {len(pairs)}"
    if len(np.unique(pairs[:, 1])) == 1:
        return "it is the same for all patients"
    return "the gain is the same for all patients" if len(np.unique(pairs[:, 0])) == 1 else None


def _observations(context: ExperimentContext, test_set: SetName) -> list[dict[str, float | None]]:
    """Mean gain and mean variables of each patient, over folds and, of two, disorders."""
    found: dict[str, list[dict[str, float | None]]] = {}
    for before, after in zip(context.ranks(test_set, BASELINE), context.ranks(test_set, FUSED), strict=True):
        gallery: dict[str, list[Label]] = {}
        for label in before.fold.unified_gallery:
            gallery.setdefault(label.disorder_id, []).append(label)
        gains = mean_ranks([before], censored_at=CENSORED_AT) - mean_ranks([after], censored_at=CENSORED_AT)
        for patient, gain in zip(before.patients, gains.tolist(), strict=True):
            variables = _variables(context.study, patient, gallery.get(patient.disorder_id, []))
            found.setdefault(patient.patient_id, []).append({"gain": gain, **variables})
    return [{name: _mean(one[name] for one in each) for name in ("gain", *VARIABLES)} for each in found.values()]


def _variables(study: Study, patient: EvaluatedPatient, gallery: list[Label]) -> dict[str, float | None]:
    facts = [study.facts_of_image.get(study.encodings.image_ids[row], ImageFacts()) for row in patient.images]
    ages = [fact.age_years for fact in facts if fact.age_years is not None]
    gallery_facts = (study.facts_of_image.get(label.image_id, ImageFacts()) for label in gallery)
    gallery_ages = [fact.age_years for fact in gallery_facts if fact.age_years is not None]
    gaps = [abs(age - other) for age in ages for other in gallery_ages]
    sexes = {fact.sex for fact in facts if fact.sex}
    lengths = embedding_lengths(study.encodings.embeddings[list(patient.images)])
    return {
        "images": float(len(patient.images)),
        "age spread": max(ages) - min(ages) if len(ages) > 1 else None,
        "age gap to gallery": min(gaps, default=None),
        "mean age": _mean(ages),
        "sex (male)": MALE.get(sexes.pop()) if len(sexes) == 1 else None,
        "gallery images of disorder": float(len(gallery)),
        "embedding length": float(lengths.mean()),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _correlation(test_set: SetName, variable: str, pairs: Float64s, rng: np.random.Generator) -> Correlation:
    found = spearmanr(pairs[:, 0], pairs[:, 1])
    draws = pairs[rng.integers(len(pairs), size=(RESAMPLES, len(pairs)))]  # (resamples, patients, 2)
    ranks = rankdata(draws, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    covariance = (ranks[..., 0] * ranks[..., 1]).sum(axis=1)
    spread = np.sqrt((ranks**2).sum(axis=1).prod(axis=1))
    interval = interval_95(covariance[spread > 0] / spread[spread > 0])
    return Correlation(test_set, variable, float(found.statistic), *interval, float(found.pvalue), len(pairs))

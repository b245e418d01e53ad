"""What distances mean in a gallery: likelihood ratios, probabilities, "none of these", prediction sets.

A calibration is learned from patients whose disorder is known (`evaluation/calibrating.py`). This file applies it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from mien.core.arrays import Bools, Float64s, Floats, Ints
from mien.core.embeddings import Encoder
from mien.core.method import Method
from mien.errors import InvalidCalibrationError, shown_ids

NONE_OF_THESE = "none of these"  # the disorder that is not in the gallery, in tables of priors
PRIOR_OF_NONE = 0.05  # a choice, not a finding: whoever asks knows better how often it is none
COVERAGE = 0.9
FEWEST_DISORDERS = 4  # the three closest are compared with all
LARGEST_EXPONENT = 50.0


class PatientFeatures(NamedTuple):
    """What a likelihood ratio is made of, in arrays that broadcast to (queries, disorders)."""

    there: Bools  # whether the disorder has an image to compare with
    closeness: Float64s  # minus the distance
    closeness_by_size: Float64s  # the same, times the logarithm of the disorder's patients
    size: Float64s  # the logarithm of the disorder's patients
    lead: Float64s  # how much closer than the closest other disorder
    first: Float64s  # minus the smallest distance of the query
    second: Float64s
    third: Float64s
    mean: Float64s  # over all disorders
    spread: Float64s  # standard deviation over all disorders
    photos: Float64s  # the logarithm of their number


WEIGHTS = ("constant", *PatientFeatures._fields[1:])
# so that of two disorders with as many patients, the closer one is never less likely
NEVER_NEGATIVE = ("closeness", "closeness_by_size", "lead", "first", "second", "third")


def patient_features(distances: Floats, gallery_patients: Ints, photos: Ints) -> PatientFeatures:
    """Features of distances (queries, disorders), infinite where a disorder is not there."""
    there = np.isfinite(distances)
    known = np.where(there, distances, 0.0)
    count = there.sum(axis=1, keepdims=True)
    mean = known.sum(axis=1, keepdims=True) / count
    spread = np.sqrt((np.where(there, known - mean, 0) ** 2).sum(axis=1, keepdims=True) / count)
    farthest = known.max(axis=1, keepdims=True)  # stands for disorders that are not there
    three = np.minimum(np.partition(distances, [0, 1, 2], axis=1)[:, :3], farthest)
    first, second, third = (three[:, [place]].astype(np.float64) for place in range(3))
    size = np.log(np.maximum(gallery_patients, 1))
    closest_other = np.where(known <= first, second, first)
    lead = np.where(there, closest_other - known, 0)
    return PatientFeatures(
        there, -known, -known * size, size, lead, -first, -second, -third, mean, spread, np.log(photos)[:, np.newaxis]
    )


def typical_ratios(features: PatientFeatures, weights: Floats) -> Float64s:
    """How much likelier distances are for a typical patient of a disorder than of one that is not there (eq:ratio)."""
    exponent = weights[0] + sum(weight * feature for weight, feature in zip(weights[1:], features[1:], strict=True))
    return np.where(features.there, np.exp(np.minimum(exponent, LARGEST_EXPONENT)), 0.0)


def posterior(ratios: Floats, prior: Floats, prior_of_none: float, atypical: float) -> tuple[Float64s, Float64s]:
    """Probabilities (queries, disorders) and of "none of these" (queries), by Bayes' rule (eq:posterior).

    Of a share of patients, the atypical ones, distances say nothing: the prior stays.

    >>> probabilities, none = posterior(np.array([[9.0, 1.0]]), np.array([0.45, 0.45]), 0.1, atypical=0.0)
    >>> probabilities.round(3).tolist(), none.round(3).tolist()
    ([[0.88, 0.098]], [0.022])
    """
    joint = ratios * prior
    evidence = prior_of_none + joint.sum(axis=1, keepdims=True)
    of_none = (1 - atypical) * prior_of_none / evidence[:, 0] + atypical * prior_of_none
    return (1 - atypical) * joint / evidence + atypical * np.where(ratios > 0, prior, 0), of_none


def likelihood_ratios(probabilities: Floats, of_none: Floats, prior: Floats, prior_of_none: float) -> Float64s:
    """By how much an answer moves the odds of each disorder against "none of these" (eq:likelihood-ratio)."""
    ratios: Float64s = probabilities / prior * (prior_of_none / of_none)[:, np.newaxis]
    return ratios


class SizeClass(NamedTuple):
    """Disorders with so many gallery patients or more, up to the next class.

    `thresholds` are for coverages from 0 to 1 in equal steps: a disorder at least as probable as this is in the set.
    """

    fewest_patients: int
    thresholds: tuple[float, ...]


def prediction_set(
    probabilities: Floats, gallery_patients: Ints, classes: Sequence[SizeClass], coverage: float
) -> Bools:
    """Which disorders are in the shortest list that holds the truth so often (eq:prediction-set)."""
    if not 0 < coverage < 1:
        raise InvalidCalibrationError(f"a coverage of {coverage}: it must be above 0 and below 1")
    steps = np.linspace(0, 1, len(classes[0].thresholds))
    thresholds = np.array([np.interp(coverage, steps, each.thresholds) for each in classes])
    of_disorder = np.searchsorted([each.fewest_patients for each in classes], gallery_patients, side="right") - 1
    chosen: Bools = (probabilities >= thresholds[np.maximum(of_disorder, 0)]) & (probabilities > 0)
    return chosen


class ReliabilityBin(NamedTuple):
    """Left-out patients whose first disorder was about as probable: how many, and how many had it."""

    most: float  # probability up to which an answer belongs here
    patients: int
    right: int


class Sureness(NamedTuple):
    """How sure an answer is, of one query; arrays in the order of the gallery's disorders."""

    probabilities: Float64s
    log10_ratios: Float64s
    none_of_these: float
    in_set: Bools
    coverage: float


@dataclass(frozen=True)
class Calibration:
    """What was learned from the patients of one gallery, by one method."""

    method: Mapping[str, str | float]  # as_dict of it
    encoder: Encoder
    generation: int  # of the gallery
    fingerprint: str
    patients: int  # that it was learned from
    from_cohort: int  # of these, so many are not in the gallery
    weights: Mapping[str, float]
    atypical: float
    prior_of_none: float
    prior: Mapping[str, float] | None  # by disorder id; None: all the same
    classes: tuple[SizeClass, ...]
    reliability: tuple[ReliabilityBin, ...]
    caution: str = ""  # what is to be said beside every answer
    behaviour: str = ""  # of the method: calibrations of older versions do not know it

    @property
    def largest_log10_ratio(self) -> float:
        """Where ratios are capped: so many patients cannot show more."""
        return float(np.log10(self.patients))

    def require(self, method: Method, encoder: Encoder) -> None:
        """Refuses another method or encoder than it was made for."""
        asked = method.as_dict()
        if asked != dict(self.method):
            raise InvalidCalibrationError(
                f"the calibration is for {_words(self.method)}, not for {_words(asked)}: run mien calibrate for it"
            )
        if self.behaviour not in {"", method.behaviour}:
            raise InvalidCalibrationError(f"the score {method.score} has changed: run mien calibrate again")
        self.encoder.require_same(encoder, here="the calibration", there="the gallery")

    def priors(self, disorder_ids: Sequence[str]) -> Float64s:
        """Of each disorder. One that came into the gallery later has the mean of the others."""
        if self.prior is None:
            return np.full(len(disorder_ids), (1 - self.prior_of_none) / len(disorder_ids))
        usual = sum(self.prior.values()) / len(self.prior)
        given: Float64s = np.array([self.prior.get(disorder_id, usual) for disorder_id in disorder_ids])
        given *= (1 - self.prior_of_none) / given.sum()
        return given

    def sureness(
        self, distances: Floats, gallery_patients: Ints, photos: Ints, disorder_ids: Sequence[str], coverage: float
    ) -> list[Sureness]:
        """Of queries, from their distances (queries, disorders) to all disorders of the gallery."""
        features = patient_features(distances, gallery_patients, photos)
        prior, of_none = self.priors(disorder_ids), self.prior_of_none
        typical = typical_ratios(features, np.array([self.weights[name] for name in WEIGHTS]))
        probabilities, none = posterior(typical, prior, of_none, self.atypical)
        inside = prediction_set(probabilities, gallery_patients, self.classes, coverage)
        with np.errstate(divide="ignore"):
            log10_ratios = np.log10(likelihood_ratios(probabilities, none, prior, of_none))
        limit = self.largest_log10_ratio
        return [
            Sureness(*of_query, coverage)
            for of_query in zip(probabilities, log10_ratios.clip(-limit, limit), none.tolist(), inside, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {**self.__dict__, "method": dict(self.method), "encoder": self.encoder.as_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The calibration that `as_dict` wrote."""
        try:
            parts = {
                "encoder": Encoder.from_dict(values["encoder"]),
                "classes": tuple(SizeClass(fewest, tuple(limits)) for fewest, limits in values["classes"]),
                "reliability": tuple(ReliabilityBin(*each) for each in values["reliability"]),
            }
            return cls(**{**values, **parts})
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidCalibrationError(f"no calibration that this version can read ({error})") from error


def checked_prior(given: Mapping[str, float], disorder_ids: Sequence[str]) -> tuple[float, dict[str, float]]:
    """The prior of "none of these" and of each disorder, from a table that names all of them; they add up to one."""
    if missing := [each for each in (*disorder_ids, NONE_OF_THESE) if each not in given]:
        raise InvalidCalibrationError(f"the prior misses {len(missing)} disorders: {shown_ids(missing)}: add them")
    if invented := [each for each in given if each not in {*disorder_ids, NONE_OF_THESE}]:
        raise InvalidCalibrationError(
            f"the prior names {len(invented)} disorders that the gallery lacks: {shown_ids(invented)}"
        )
    if wrong := [each for each, value in given.items() if not (np.isfinite(value) and value > 0)]:
        raise InvalidCalibrationError(f"the prior of {shown_ids(wrong)} is not above zero: give positive numbers")
    total = sum(given.values())
    shares = {each: value / total for each, value in given.items()}
    return shares.pop(NONE_OF_THESE), shares


def _words(method: Mapping[str, str | float]) -> str:
    return " ".join(str(value) for value in method.values())

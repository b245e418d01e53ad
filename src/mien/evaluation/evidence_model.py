"""Fits the model that makes likelihood ratios of distances.

Each patient is shown to it twice: as they are, and as if the gallery did not have their disorder at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from mien.answers.calibration import (
    NEVER_NEGATIVE,
    WEIGHTS,
    PatientFeatures,
    patient_features,
    posterior,
    typical_ratios,
)
from mien.core.arrays import Bools, Float64s, Ints
from mien.evaluation.known_patients import PARTS, KnownPatients

RIDGE = 0.07  # over the number of patients
CONSTANT = 1e-6  # a feature with a smaller standard deviation is the same for all
ATYPICAL_LOGITS = (-6.0, 0.0)  # at most half of all patients
ITERATIONS = 300
OF_DISORDER = ("closeness", "closeness_by_size", "size", "lead")  # the other features are the query's
TRUST = (0.1, 3.0)


class EvidenceModel(NamedTuple):
    """Makes likelihood ratios."""

    weights: Float64s  # in the order of WEIGHTS
    atypical: float


def fitted(known: KnownPatients, start: EvidenceModel | None = None) -> EvidenceModel:
    """The weights under which the true answers are likeliest. Each patient counts with the disorder and without it.

    Every disorder counts the same, weights are drawn towards zero, and closer is never less likely.
    """
    sides = [_Side.of(known.only(known.present)), _Side.of_absent(known)]
    scales = np.sqrt(np.mean([side.variances() for side in sides], axis=0))
    scales = np.where(scales > CONSTANT, scales, np.inf)  # a constant feature says nothing: its weight is zero
    people = len(np.unique(known.person))

    def loss(scaled: Float64s) -> tuple[float, Float64s]:
        model = EvidenceModel(scaled[:-1] / scales, _share(scaled[-1]))
        value, slope = RIDGE / people * float(scaled[1:-1] @ scaled[1:-1]), np.zeros_like(scaled)
        slope[1:-1] = 2 * RIDGE / people * scaled[1:-1]
        for side in sides:
            of_side, of_weights, of_logit = side.loss(model)
            value += of_side / 2
            slope[:-1] += of_weights / scales / 2
            slope[-1] += of_logit / 2
        return value, slope

    first = np.append(np.zeros(len(WEIGHTS)), -2.0)
    if start is not None:
        scaled = np.where(np.isfinite(scales), start.weights * np.where(np.isfinite(scales), scales, 0), 0)
        first = np.append(scaled, np.log(start.atypical / (1 - start.atypical)))
    bounds = [(0, None) if name in NEVER_NEGATIVE else (None, None) for name in WEIGHTS]
    found = minimize(
        loss, first, jac=True, method="L-BFGS-B", bounds=[*bounds, ATYPICAL_LOGITS], options={"maxiter": ITERATIONS}
    )
    return EvidenceModel(found.x[:-1] / scales, _share(found.x[-1]))


class _Side(NamedTuple):
    """Patients with their disorder, or as if it were not there."""

    features: PatientFeatures
    disorder: Ints  # column; -1: not there
    share: Float64s  # of the patients, together one

    @classmethod
    def of(cls, known: KnownPatients) -> _Side:
        features = patient_features(known.distances, known.gallery_patients, known.photos)
        return cls(features, known.disorder, disorder_shares(known.disorder))

    @classmethod
    def of_absent(cls, known: KnownPatients) -> _Side:
        features = patient_features(known.as_absent(), known.gallery_patients, known.photos)
        return cls(features, np.full(len(known.disorder), -1), disorder_shares(known.disorder))

    def variances(self) -> Float64s:
        """Of each feature, over the disorders that are there."""
        there = self.features.there
        return np.array([1.0, *(np.broadcast_to(of, there.shape)[there].var() for of in self.features[1:])])

    def loss(self, model: EvidenceModel) -> tuple[float, Float64s, float]:
        """Minus the mean log-likelihood, and its slopes by the weights and by the logit of the atypical share."""
        prior = np.where(self.features.there, 0.5 / self.features.there.sum(axis=1, keepdims=True), 0)
        ratios = typical_ratios(self.features, model.weights)
        probabilities, of_none = posterior(ratios, prior, 0.5, atypical=0.0)
        rows, column = np.arange(len(self.disorder)), np.maximum(self.disorder, 0)
        absent = self.disorder < 0
        typical = np.where(absent, of_none, probabilities[rows, column])
        unknown = np.where(absent, 0.5, prior[rows, column])
        mixed = (1 - model.atypical) * typical + model.atypical * unknown
        pull = self.share * (1 - model.atypical) * typical / mixed
        slope = pull[:, np.newaxis] * probabilities  # of the exponents
        slope[rows[~absent], column[~absent]] -= pull[~absent]
        of_patient = slope.sum(axis=1)
        by_weights = [
            float(np.vdot(slope, feature) if feature.shape == slope.shape else of_patient @ feature[:, 0])
            for feature in (np.ones((len(slope), 1)), *self.features[1:])
        ]
        by_logit = -float(self.share @ ((unknown - typical) / mixed)) * model.atypical * (1 - model.atypical)
        return -float(self.share @ np.log(mixed)), np.array(by_weights), by_logit


def fitted_to_others(
    known: KnownPatients, model: EvidenceModel, rng: np.random.Generator, one_done: Callable[[], None] = lambda: None
) -> list[tuple[Bools, EvidenceModel]]:
    """Parts of the patients, each with a model that was fitted to the others."""
    part, found = known.random_parts(rng), []
    for number in range(PARTS):
        found.append((part == number, fitted(known.only(part != number), start=model)))
        one_done()
    return found


def trust_in(known: KnownPatients, others: Sequence[tuple[Bools, EvidenceModel]]) -> Float64s:
    """By how much each weight is to be multiplied so that patients whom they were not fitted to are likeliest.

    Weights that were fitted to few patients promise too much. One factor for all that tells one disorder from another,
    and one for what tells whether it is any of them.
    """
    sides = [
        (side, model)
        for chosen, model in others
        for side in (_Side.of(known.only(chosen & known.present)), _Side.of_absent(known.only(chosen)))
    ]
    of_disorder = np.array([name in OF_DISORDER for name in WEIGHTS])

    def loss(factors: Float64s) -> tuple[float, Float64s]:
        trust = np.where(of_disorder, factors[0], factors[1])
        value, slope = 0.0, np.zeros(2)
        for side, model in sides:
            of_side, of_weights, _ = side.loss(EvidenceModel(trust * model.weights, model.atypical))
            value += of_side
            pulls = of_weights * model.weights
            slope += pulls[of_disorder].sum(), pulls[~of_disorder].sum()
        return value, slope

    factors = minimize(loss, np.ones(2), jac=True, method="L-BFGS-B", bounds=[TRUST] * 2).x
    trust: Float64s = np.where(of_disorder, factors[0], factors[1])
    return trust


def disorder_shares(disorder: Ints) -> Float64s:
    """The share of each patient in a mean in which every disorder counts the same; -1 is one that is not there.

    >>> disorder_shares(np.array([0, 0, 1])).tolist()
    [0.25, 0.25, 0.5]
    """
    shares = 1 / np.bincount(disorder + 1)[disorder + 1]
    normed: Float64s = shares / shares.sum()
    return normed


def _share(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))

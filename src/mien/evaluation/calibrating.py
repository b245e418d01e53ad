"""Learns what distances mean in a gallery, from patients whose disorder is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from mien.answers.calibration import (
    PRIOR_OF_NONE,
    WEIGHTS,
    Calibration,
    ReliabilityBin,
    SizeClass,
    checked_prior,
    patient_features,
    posterior,
    typical_ratios,
)
from mien.answers.ranking import AnyGallery, searcher_of
from mien.core.arrays import Bools, Float64s, Ints
from mien.core.cohort import Cohort
from mien.core.method import Method
from mien.errors import InvalidCalibrationError
from mien.evaluation.evidence_model import fitted, fitted_to_others, trust_in
from mien.evaluation.known_patients import PARTS, index_of, known_patients, require_enough
from mien.progress import Progress, silent

FEWEST_OF_A_CLASS = 40
SIZES = (1, 3, 7, 21)  # gallery patients where a class of disorders begins; above six, the paper calls them frequent
BINS = (0.2, 0.4, 0.6, 0.8, 1.0)
COVERAGE_STEPS = 100
STEPS = PARTS + 3  # of progress: asking, one fit of all, one for each part, the trust in them


def calibrate(
    gallery: AnyGallery,
    method: Method,
    *,
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    prior: Mapping[str, float] | None = None,
    prior_of_none: float = PRIOR_OF_NONE,
    caution: str = "",
    seed: int = 1,
    progress: Progress = silent,
) -> Calibration:
    """Learns from a gallery's own patients, or from a cohort's for the disorders that those have.

    `trained`: ids of gallery patients whom the encoder was trained on. It knows them too well to learn from them.
    `prior` names every disorder and "none of these"; without it, all disorders are as likely.
    """
    if not 0 < prior_of_none < 1:
        raise InvalidCalibrationError(f"a prior of {prior_of_none} for none of these: it must be above 0 and below 1")
    searcher = searcher_of(gallery)
    ids = [disorder.disorder_id for disorder in searcher.gallery.disorders]
    of_none, of_disorders = (prior_of_none, None) if prior is None else checked_prior(prior, ids)
    steps = iter(range(1, STEPS + 1))

    def step_done() -> None:
        progress(next(steps), STEPS)

    known = known_patients(
        searcher,
        index_of(gallery),
        method,
        rng=np.random.default_rng([seed, 0]),
        cohort=cohort,
        trained=trained,
        progress=lambda done, total: progress(done, STEPS * total),
    )
    require_enough(disorders=len(ids), patients=len(np.unique(known.person[known.present])))
    step_done()
    model = fitted(known)
    step_done()
    others = fitted_to_others(known, model, np.random.default_rng([seed, 1]), step_done)
    trust = trust_in(known, others)
    step_done()
    calibration = Calibration(
        method=method.as_dict(),
        encoder=searcher.encoder,
        generation=getattr(gallery, "generation", 0),
        fingerprint=getattr(gallery, "fingerprint", ""),
        patients=len(np.unique(known.person)),
        from_cohort=len(np.unique(known.person[known.of_cohort])),
        weights=dict(zip(WEIGHTS, (trust * model.weights).tolist(), strict=True)),
        atypical=model.atypical,
        prior_of_none=of_none,
        prior=of_disorders,
        classes=(),
        reliability=(),
        caution=caution,
        behaviour=method.behaviour,
    )
    of_true, sizes, of_first, right = [], [], [], []
    for chosen, learned in others:  # each part of the patients, by the model that was fitted to the other parts
        seen = known.only(chosen & known.present)
        features = patient_features(seen.distances, seen.gallery_patients, seen.photos)
        ratios = typical_ratios(features, trust * learned.weights)
        probabilities, _ = posterior(ratios, calibration.priors(ids), of_none, learned.atypical)
        rows, first = np.arange(len(probabilities)), np.argmin(seen.distances, axis=1)
        of_true.append(probabilities[rows, seen.disorder])
        sizes.append(seen.gallery_patients[rows, seen.disorder])
        of_first.append(probabilities[rows, first])
        right.append(first == seen.disorder)
    return replace(
        calibration,
        classes=size_classes(np.concatenate(of_true), np.concatenate(sizes)),
        reliability=reliability_bins(np.concatenate(of_first), np.concatenate(right)),
    )


def size_classes(of_true: Float64s, sizes: Ints) -> tuple[SizeClass, ...]:
    """Thresholds of prediction sets from the probabilities of true disorders, by class of gallery size."""
    starts = [size for size in SIZES if size <= sizes.max()]
    class_of = np.searchsorted(starts, sizes, side="right") - 1
    while len(starts) > 1 and (counts := np.bincount(class_of, minlength=len(starts))).min() < FEWEST_OF_A_CLASS:
        joined = max(1, int(np.argmin(counts)))  # with the class before
        del starts[joined]
        class_of = np.searchsorted(starts, sizes, side="right") - 1
    coverages = np.linspace(0, 1, COVERAGE_STEPS + 1)
    classes = []
    for number, start in enumerate(starts):
        ordered = np.append(0.0, np.sort(of_true[class_of == number]))
        places = len(ordered) * (1 - coverages)  # the conformal rank: one more than there are patients
        thresholds = np.interp(places, np.arange(len(ordered)), ordered)
        classes.append(SizeClass(1 if number == 0 else start, tuple(thresholds.tolist())))
    return tuple(classes)


def reliability_bins(probabilities: Float64s, right: Bools) -> tuple[ReliabilityBin, ...]:
    """How often the first disorder was right, by its probability.

    >>> reliability_bins(np.array([0.1, 0.9, 0.95]), np.array([False, True, False]))[-1]
    ReliabilityBin(most=1.0, patients=2, right=1)
    """
    bin_of = np.searchsorted(BINS, probabilities)
    patients, hits = (np.bincount(of, minlength=len(BINS)).tolist() for of in (bin_of, bin_of[right]))
    return tuple(ReliabilityBin(*each) for each in zip(BINS, patients, hits, strict=True))

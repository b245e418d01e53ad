"""Learns what distances mean, from patients whose disorder is known: each is left out of the gallery in turn.

Each patient is shown to the model twice: as they are, and as if the gallery did not have their disorder at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float64s, Ints
from mien.core.calibration import (
    FEWEST_DISORDERS,
    NEVER_NEGATIVE,
    PRIOR_OF_NONE,
    WEIGHTS,
    Calibration,
    PatientFeatures,
    ReliabilityBin,
    SizeClass,
    checked_prior,
    patient_features,
    posterior,
    typical_ratios,
)
from mien.core.cohort import Cohort, Query
from mien.core.errors import InvalidCalibrationError
from mien.core.index import GalleryIndex
from mien.core.method import Method
from mien.core.progress import Progress, silent
from mien.core.ranking import AnyGallery, searcher_of
from mien.core.roster import Label
from mien.core.searcher import Estimates, Searcher

MOST_PATIENTS = 4000
MOST_OF_A_DISORDER = 20  # where there are more: a disorder counts as much as any other, and patients the less
FEWEST_PATIENTS = 40  # who still have others of their disorder when they are left out
FEWEST_OF_A_CLASS = 40
SIZES = (1, 3, 7, 21)  # gallery patients where a class of disorders begins; above six, the paper calls them frequent
RIDGE = 0.07  # over the number of patients
PARTS = 5  # of the patients: what is said of one part was learned from the others
BINS = (0.2, 0.4, 0.6, 0.8, 1.0)
COVERAGE_STEPS = 100
SAME = 1e-6  # standard deviation of a feature
QUERIES_PER_STEP = 128  # between two reports of progress
ATYPICAL_LOGITS = (-6.0, 0.0)  # at most half of all patients
ITERATIONS = 300
OF_DISORDER = ("closeness", "closeness_by_size", "size", "lead")  # the other features are the query's
TRUST = (0.1, 3.0)


class KnownPatients(NamedTuple):
    """Patients with a known disorder, or single photos of them, and their distances to a gallery without them."""

    distances: Float64s  # (patients, disorders), infinite where a disorder has nobody else
    gallery_patients: Ints  # (patients, disorders)
    photos: Ints
    disorder: Ints  # its column; -1 where the gallery does not have it
    person: Ints  # who is on it; those of a cohort come first
    from_cohort: int  # so many

    @property
    def present(self) -> Bools:
        """Whose disorder is in the gallery without them."""
        rows = np.arange(len(self.disorder))
        there = np.isfinite(self.distances[rows, np.maximum(self.disorder, 0)])
        return (self.disorder >= 0) & there

    def only(self, chosen: Bools) -> KnownPatients:
        """Some of them."""
        distances, gallery_patients, photos, disorder, person, from_cohort = self
        return KnownPatients(
            distances[chosen], gallery_patients[chosen], photos[chosen], disorder[chosen], person[chosen], from_cohort
        )

    def as_absent(self) -> Float64s:
        """Their distances, if the gallery did not have their disorder."""
        distances = self.distances.copy()
        rows = np.flatnonzero(self.disorder >= 0)
        distances[rows, self.disorder[rows]] = np.inf
        return distances


class KnownEvidence(NamedTuple):
    """The same before a score made distances of it: any method with the same fusion can."""

    estimates: Sequence[Estimates]
    disorder: Ints
    person: Ints
    from_cohort: int

    @classmethod
    def of(
        cls, searcher: Searcher, estimates: Sequence[Estimates], disorder: Ints, person: Ints, from_cohort: int
    ) -> KnownEvidence:
        """Every disorder has one patient less for those who are left out of the gallery.

        Their own really has. If the others kept theirs, the true disorder would be known by its missing patient.
        """
        sizes, start, even = searcher.gallery.patients_of_disorder, 0, []
        for each in estimates:
            left_out = person[start : start + len(each.first_probe)] >= from_cohort
            of_probe = np.searchsorted(each.first_probe, np.arange(len(each.evidence.nearest)), side="right") - 1
            patients = np.maximum(sizes - left_out[of_probe, np.newaxis], 1)
            even.append(each._replace(evidence=each.evidence._replace(gallery_patients=patients)))
            start += len(each.first_probe)
        return cls(even, disorder, person, from_cohort)

    def by(self, method: Method) -> KnownPatients:
        """Distances by a method."""
        return KnownPatients(
            np.concatenate([each.distances(method) for each in self.estimates]),
            np.concatenate([each.gallery_patients for each in self.estimates]),
            np.concatenate([each.photos for each in self.estimates]),
            *self[1:],
        )


class EvidenceModel(NamedTuple):
    """Makes likelihood ratios."""

    weights: Float64s  # in the order of WEIGHTS
    atypical: float


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
    known = known_evidence(
        searcher, index_of(gallery), method, cohort=cohort, trained=trained, seed=seed, progress=progress
    ).by(method)
    model = fitted(known)
    others = fitted_to_others(known, model, np.random.default_rng([seed, 1]))
    trust = trust_in(known, others)
    calibration = Calibration(
        method=method.as_dict(),
        encoder=searcher.encoder,
        generation=getattr(gallery, "generation", 0),
        fingerprint=getattr(gallery, "fingerprint", ""),
        patients=len(np.unique(known.person)),
        from_cohort=known.from_cohort,
        weights=dict(zip(WEIGHTS, (trust * model.weights).tolist(), strict=True)),
        atypical=model.atypical,
        prior_of_none=of_none,
        prior=of_disorders,
        classes=(),
        reliability=(),
        caution=caution,
    )
    of_true, sizes, of_first, right = [], [], [], []
    for chosen, learned in others:
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


def index_of(gallery: AnyGallery) -> GalleryIndex:
    """The one index of a gallery; several parts have none."""
    index = gallery if isinstance(gallery, GalleryIndex) else getattr(gallery, "index", None)
    if not isinstance(index, GalleryIndex):
        raise InvalidCalibrationError("several galleries in one cannot be calibrated: build one gallery of them")
    return index


def known_evidence(
    searcher: Searcher,
    index: GalleryIndex,
    method: Method,
    *,
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    seed: int = 1,
    progress: Progress = silent,
) -> KnownEvidence:
    """Patients to learn from: a cohort's, and of disorders that it lacks the gallery's own. Who has two is left out."""
    rng = np.random.default_rng([seed, 0])
    column_of = index.roster.disorder_of_id
    most = max(MOST_OF_A_DISORDER, MOST_PATIENTS // max(1, len(column_of)))
    if len(column_of) < FEWEST_DISORDERS:
        raise InvalidCalibrationError(
            f"the gallery has {len(column_of)} disorders: {FEWEST_DISORDERS} are needed to tell how sure a rank is"
        )
    chosen = _drawn(cohort.roster.labels(), most, rng) if cohort else {}
    own = _drawn([label for label in index.roster.labels() if label.patient_id not in trained], most, rng)
    in_cohort = set(chosen.values())
    queries = [_cohort_query(cohort, patient_id) for patient_id in chosen] if cohort else []
    disorders = list(chosen.values())
    for patient_id, disorder_id in own.items():
        if disorder_id not in in_cohort and patient_id not in chosen:
            queries.append(_gallery_query(index, patient_id))
            disorders.append(disorder_id)
    asked = searcher.asked(queries, method.fusion)
    times = [len(query.encodings.image_ids) if method.fusion == "none" else 1 for query in queries]
    columns = np.repeat([column_of.get(disorder_id, -1) for disorder_id in disorders], times)
    found: list[Estimates] = []
    for start in range(0, len(asked), QUERIES_PER_STEP):
        progress(start, len(asked))
        found += searcher.estimates(asked[start : start + QUERIES_PER_STEP], method)
    progress(len(asked), len(asked))
    evidence = KnownEvidence.of(searcher, found, columns, np.arange(len(queries)).repeat(times), len(chosen))
    known = evidence.by(method)
    if (learnable := len(np.unique(known.person[known.present]))) < FEWEST_PATIENTS:
        raise InvalidCalibrationError(
            f"{learnable} patients have somebody else with their disorder in the gallery: {FEWEST_PATIENTS} are needed"
            " to tell how sure a rank is"
        )
    return evidence


def fitted(known: KnownPatients, start: EvidenceModel | None = None) -> EvidenceModel:
    """The weights under which the true answers are likeliest; half of the patients have a disorder that is not there.

    Every disorder counts the same, weights are drawn towards zero, and closer is never less likely.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 heavy

    sides = [_Side.of(known.only(known.present)), _Side.of_absent(known)]
    scales = np.sqrt(np.mean([side.variances() for side in sides], axis=0))
    scales = np.where(scales > SAME, scales, np.inf)  # what is the same for all says nothing: its weight is zero
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
        return cls(features, known.disorder, _shares(known.disorder))

    @classmethod
    def of_absent(cls, known: KnownPatients) -> _Side:
        features = patient_features(known.as_absent(), known.gallery_patients, known.photos)
        return cls(features, np.full(len(known.disorder), -1), _shares(known.disorder))

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
    known: KnownPatients, model: EvidenceModel, rng: np.random.Generator
) -> list[tuple[Bools, EvidenceModel]]:
    """Parts of the patients, each with a model that was fitted to the others."""
    people, place = np.unique(known.person, return_inverse=True)
    part = rng.permutation(np.arange(len(people)) % PARTS)[place]
    return [(part == number, fitted(known.only(part != number), start=model)) for number in range(PARTS)]


def trust_in(known: KnownPatients, others: Sequence[tuple[Bools, EvidenceModel]]) -> Float64s:
    """By how much each weight is to be multiplied so that patients whom they were not fitted to are likeliest.

    Weights that were fitted to few patients promise too much. One factor for all that tells one disorder from another,
    and one for what tells whether it is any of them.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 heavy

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


def _drawn(labels: Sequence[Label], most: int, rng: np.random.Generator) -> dict[str, str]:
    """The disorder of each patient who has one only, at most so many of a disorder."""
    disorders_of: dict[str, set[str]] = {}
    for _, patient_id, disorder_id in labels:
        disorders_of.setdefault(patient_id, set()).add(disorder_id)
    patients_of: dict[str, list[str]] = {}
    for patient_id, disorders in sorted(disorders_of.items()):
        if len(disorders) == 1:
            patients_of.setdefault(min(disorders), []).append(patient_id)
    return {
        patient_id: disorder_id
        for disorder_id, patients in sorted(patients_of.items())
        for patient_id in (rng.permutation(patients)[:most].tolist() if len(patients) > most else patients)
    }


def _gallery_query(index: GalleryIndex, patient_id: str) -> Query:
    images = np.flatnonzero(index.roster.patient_of_image == index.roster.patient_of_id[patient_id])
    ids = [index.roster.image_ids[image] for image in images.tolist()]
    return Query.of(index.raw_embeddings(images), ids, patient_id)


def _cohort_query(cohort: Cohort, patient_id: str) -> Query:
    images = np.flatnonzero(cohort.roster.patient_of_image == cohort.roster.patient_of_id[patient_id])
    return Query(cohort.encodings.only(images.tolist()), patient_id)


def _shares(disorder: Ints) -> Float64s:
    """Every disorder counts the same."""
    shares = 1 / np.bincount(disorder + 1)[disorder + 1]
    normed: Float64s = shares / shares.sum()
    return normed


def _share(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))

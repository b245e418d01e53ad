"""Fits the size-aware score to a gallery: learns how distances depend on the number of patients.

The gallery is thinned at random, many times; whoever is not in the thinned one is asked about. So each disorder is seen
with many numbers of patients. The gain that is reported is of patients whom the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from mien.answers.ranking import AnyGallery, searcher_of
from mien.core.arrays import Float64s, Ints
from mien.core.cohort import Cohort, Encodings
from mien.core.method import FULL, Method
from mien.core.scores.size_aware import size_aware_distance
from mien.evaluation.bootstrap import bootstrap_means, interval_95
from mien.evaluation.evidence_model import disorder_shares
from mien.evaluation.folds import thinned
from mien.evaluation.known_patients import MOST_PATIENTS, PARTS, KnownPatients, index_of, known_patients, require_enough
from mien.evaluation.outcomes import MEASURES, mean_per_disorder, rank_measures, true_ranks
from mien.progress import Progress, silent

GALLERIES = 30  # thinned ones at most, until enough patients were asked about
RIDGE = 4.0  # over the number of patients
BOUNDS = [(0.05, None), (None, None), (0, None)]  # of the weights: closer is never less likely
DECIMALS = 4


class SizeTerms(NamedTuple):
    """What the size-aware score adds for each ln n, and for each ln n and unit of distance."""

    offset: float
    slope: float

    def ranks(self, known: KnownPatients) -> Ints:
        """Of the true disorders."""
        distances = size_aware_distance(known.distances, known.gallery_patients, offset=self.offset, slope=self.slope)
        return true_ranks(distances, known.disorder)


class Gain(NamedTuple):
    """Over `full`, in points, with its 95 % interval."""

    measure: str
    difference: float
    low: float
    high: float


class TunedMethod(NamedTuple):
    """What was fitted, and its gain on patients whom the fit has not seen, in thinned galleries."""

    method: Method
    patients: int
    gains: tuple[Gain, ...]


def tune(
    gallery: AnyGallery,
    *,
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    seed: int = 1,
    progress: Progress = silent,
) -> TunedMethod:
    """The size-aware score whose terms fit a gallery, and its gain."""
    rng = np.random.default_rng([seed, 3])
    known, group = known_patients_of_thinned(gallery, cohort=cohort, trained=trained, rng=rng, progress=progress)
    people, first, place = np.unique(known.person, return_index=True, return_inverse=True)
    part = known.random_parts(rng)
    gains = -rank_measures(true_ranks(known.distances, known.disorder))
    for number in range(PARTS):
        inside = part == number
        terms = size_terms(known.only(~inside), group[~inside])
        gains[:, inside] += rank_measures(terms.ranks(known.only(inside)))
    shares = disorder_shares(group)
    of_person = np.array([np.bincount(place, shares * gain) / np.bincount(place, shares) for gain in gains])
    _, disorder = np.unique(known.disorder[first], return_inverse=True)
    drawn = bootstrap_means(of_person, np.ones(len(people), np.intp), disorder, rng=rng)
    found = [
        Gain(measure, mean_per_disorder(gain, disorder), *interval_95(draws))
        for measure, gain, draws in zip(MEASURES, of_person, drawn, strict=True)
    ]
    method = Method(FULL.fusion, "size-aware", **size_terms(known, group)._asdict())
    return TunedMethod(method, len(people), tuple(found))


def known_patients_of_thinned(
    gallery: AnyGallery,
    *,
    rng: np.random.Generator,
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    progress: Progress = silent,
) -> tuple[KnownPatients, Ints]:
    """Patients with their `full` distances to thinned galleries, and a number for each gallery and disorder.

    A thinned gallery has this one's numbers of patients, dealt anew among the disorders. But every disorder loses one
    patient at least: or the number of patients would give away which disorder the asked patient is missing from. So a
    disorder with one patient is not in it.
    """
    index = index_of(gallery)
    roster, sizes = index.roster, index.roster.patients_of_disorder
    embeddings = index.raw_embeddings(np.arange(len(roster.image_ids))).astype(np.float32)
    encodings, labels = Encodings(roster.image_ids, embeddings, index.encoder), roster.labels()
    found: list[KnownPatients] = []
    while len(found) < GALLERIES and sum(len(known.disorder) for known in found) < MOST_PATIENTS and sizes.max() > 1:
        progress(len(found), GALLERIES)
        kept = thinned(labels, np.minimum(rng.permutation(sizes), sizes - 1).tolist(), rng=rng)
        inside = {*trained, *(label.patient_id for label in kept)}
        searcher = searcher_of(Cohort.join(encodings, kept))
        found.append(known_patients(searcher, index, FULL, rng=rng, cohort=cohort, trained=inside))
    progress(GALLERIES, GALLERIES)
    known = [each.only(each.present) for each in found]
    people = {person for each in known for person in each.person.tolist()}
    require_enough(disorders=int((sizes > 1).sum()), patients=len(people))
    groups = [each.disorder + number * len(sizes) for number, each in enumerate(known)]
    return KnownPatients.joined(known), np.concatenate(groups)


def size_terms(known: KnownPatients, group: Ints) -> SizeTerms:
    """The terms under which the true disorders are likeliest, in a softmax of the distances (eq:size-terms).

    Every group of patients counts the same, and terms are drawn towards zero.
    """
    there, rows, share = np.isfinite(known.distances), np.arange(len(group)), disorder_shares(group)
    middle, spread = known.distances[there].mean(), known.distances[there].std()
    closeness = np.where(there, middle - known.distances, 0) / max(spread, 1e-9)
    logs = np.log(np.maximum(known.gallery_patients, 1))
    features = np.stack([closeness, -logs, closeness * logs], axis=-1)
    ridge = RIDGE / len(np.unique(known.person)) * np.array([0, 1, 1])

    def loss(weights: Float64s) -> tuple[float, Float64s]:
        logits = np.where(there, features @ weights, -np.inf)
        logits -= logits.max(axis=1, keepdims=True)
        sums = np.exp(logits).sum(axis=1)
        of_true = logits[rows, known.disorder] - np.log(sums)
        expected = np.einsum("pd,pdf->pf", np.exp(logits) / sums[:, np.newaxis], features)
        slope = ridge * weights - share @ (features[rows, known.disorder] - expected)
        return float(ridge @ weights**2) / 2 - float(share @ of_true), slope

    sharpness, of_size, of_both = minimize(loss, [1.0, 0.0, 0.0], jac=True, method="L-BFGS-B", bounds=BOUNDS).x
    terms = (of_size * spread - of_both * middle) / sharpness, of_both / sharpness
    return SizeTerms(*(round(float(term), DECIMALS) for term in terms))

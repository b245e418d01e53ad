"""S2: distances within disorders and between them, over disorder-balanced pairs of gallery images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.stats import mannwhitneyu

from mien.core.arrays import Float64s, Ints
from mien.core.roster import Label, Roster
from mien.core.study import Study
from mien.evaluation.experiment_context import ExperimentContext, Tables

PAIRS_OF_DISORDER = 100
BINS = np.linspace(0.0, 2.0, 201)
SMOOTHING = 2.0  # bins
PAIRS_PER_BLOCK = 256  # they stay in the cache


class Group(NamedTuple):
    """One distribution; the last three compare it with the inter-disorder one."""

    group: str  # intra-freq, intra-rare, inter
    pairs: int
    distinct_pairs: int
    same_patient_percent: float
    mean: float
    sd: float
    median: float
    auc: float | None = None
    cohens_d: float | None = None
    overlap_percent: float | None = None


class Density(NamedTuple):
    """One point of a smoothed histogram."""

    group: str
    distance: float
    density: float


def run(context: ExperimentContext) -> Tables:
    """Both cohorts and the pooled pairs of different disorders, in the unified gallery of the first fold."""
    return distance_distributions(context.study, context.rng("distances"))


def distance_distributions(study: Study, rng: np.random.Generator) -> Tables:
    """The summary and the densities."""
    frequent, rare = study.folds[0]
    groups: list[Group] = []
    densities: list[Density] = []
    inter_pairs = _inter_pairs(Roster.of_labels((*frequent.gallery, *rare.gallery)), rng)
    if not inter_pairs:
        return {"distances": [], "distance_densities": []}
    inter = _distances(study, inter_pairs)
    for name, gallery in (("intra-freq", frequent.gallery), ("intra-rare", rare.gallery)):
        if pairs := _intra_pairs(gallery, rng):
            intra = _distances(study, pairs)
            overlap = 100 * float(np.minimum(_density(intra), _density(inter)).sum() * (BINS[1] - BINS[0]))
            auc = float(mannwhitneyu(inter, intra).statistic) / (len(inter) * len(intra))
            groups.append(
                _group(name, pairs, intra)._replace(auc=auc, cohens_d=cohens_d(intra, inter), overlap_percent=overlap)
            )
            densities += _points(name, intra)
    groups.append(_group("inter", inter_pairs, inter))
    return {"distances": groups, "distance_densities": [*densities, *_points("inter", inter)]}


def cohens_d(lower: Float64s, upper: Float64s) -> float:
    """Difference of means over the pooled standard deviation.

    >>> cohens_d(np.array([0.0, 2.0]), np.array([3.0, 5.0])).__round__(3)
    2.121
    """
    sizes = np.array([len(lower), len(upper)])
    variances = np.array([lower.var(ddof=1), upper.var(ddof=1)])
    pooled = np.sqrt(((sizes - 1) * variances).sum() / (sizes.sum() - 2))
    return float((upper.mean() - lower.mean()) / pooled)


def _intra_pairs(gallery: Sequence[Label], rng: np.random.Generator) -> list[tuple[Label, Label]]:
    of_disorder: dict[str, list[Label]] = {}
    for label in sorted(gallery, key=lambda label: (label.disorder_id, label.patient_id, label.image_id)):
        of_disorder.setdefault(label.disorder_id, []).append(label)
    pairs = []
    for labels in of_disorder.values():
        if len(labels) > 1:
            first = rng.integers(len(labels), size=PAIRS_OF_DISORDER)
            second = (first + rng.integers(1, len(labels), size=PAIRS_OF_DISORDER)) % len(labels)
            pairs += [(labels[a], labels[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    return pairs


def _inter_pairs(roster: Roster, rng: np.random.Generator) -> list[tuple[Label, Label]]:
    labels, disorders = roster.labels(), len(roster.disorders)
    if disorders < 2:
        return []
    first = rng.integers(disorders, size=PAIRS_OF_DISORDER * disorders // 2)  # a pair counts for two disorders
    second = (first + rng.integers(1, disorders, size=len(first))) % disorders

    def one_of(disorder: Ints) -> Ints:
        images = roster.images_of_disorder[disorder]
        chosen: Ints = roster.first_label[disorder] + (rng.random(len(disorder)) * images).astype(np.intp)
        return chosen

    return [(labels[a], labels[b]) for a, b in zip(one_of(first).tolist(), one_of(second).tolist(), strict=True)]


def _distances(study: Study, pairs: Sequence[tuple[Label, Label]]) -> Float64s:
    """From products of raw embeddings and their lengths: unit rows of every pair would be most of the work."""
    rows = np.array([[study.row_of_image[label.image_id] for label in pair] for pair in pairs], dtype=np.intp)
    embeddings = study.encodings.embeddings
    lengths = np.sqrt(np.vecdot(embeddings, embeddings))  # (images, representations)
    blocks = [rows[start : start + PAIRS_PER_BLOCK].T for start in range(0, len(rows), PAIRS_PER_BLOCK)]
    cosines = [np.vecdot(embeddings[a], embeddings[b]) / (lengths[a] * lengths[b]) for a, b in blocks]
    distances: Float64s = 1 - np.concatenate(cosines).mean(axis=1, dtype=np.float64)
    return distances


def _group(name: str, pairs: Sequence[tuple[Label, Label]], distances: Float64s) -> Group:
    distinct = {frozenset((a.image_id, b.image_id)) for a, b in pairs}
    same_patient = np.mean([a.patient_id == b.patient_id for a, b in pairs])
    mean, sd, median = distances.mean(), distances.std(ddof=1), np.median(distances)
    return Group(name, len(pairs), len(distinct), 100 * float(same_patient), float(mean), float(sd), float(median))


def _density(distances: Float64s) -> Float64s:
    counts, _ = np.histogram(distances, bins=BINS, density=True)
    smooth: Float64s = gaussian_filter1d(counts, SMOOTHING)
    return smooth


def _points(name: str, distances: Float64s) -> list[Density]:
    centres = (BINS[:-1] + BINS[1:]) / 2
    return [Density(name, float(x), float(y)) for x, y in zip(centres, _density(distances), strict=True)]

"""Measures what answers give away: from how many photos, and in how many hours, an embedding can be reconstructed.

The attacker knows the embeddings of the photos that are sent, and reads the distance or the rank of a disorder in each
answer. The reconstruction is the vector that fits these best, by least squares with a penalty: the best of several
penalties counts, which favours the attacker. Photos are as different as random vectors, which real
faces are not.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from scipy.special import ndtri

from mien import Cohort, Encoder, Query, rank
from mien.report.rankings import COARSE_LISTED, as_plain_values, coarse_document, rounded_document
from mien.service.budget import usual_embeddings

DISORDERS = 300
SIZES = {"a photo, the only one of its disorder": 1, "the average of twelve patients": 12}
TARGETS = 10  # disorders of each size that are reconstructed; the median counts
GOALS = (0.5, 0.63, 0.9, 0.99)
PENALTIES = (1e-7, 1e-2, 1e-1, 1.0, 10.0)
ENCODERS = {"GM-Arc": 512, "the default one": 128}
BEYOND = -ndtri((np.arange(COARSE_LISTED, DISORDERS) + 0.5) / DISORDERS).mean()  # what is expected of the others
TOLD = {
    "all digits": lambda document: document,
    "three digits; two of small disorders": rounded_document,
    "ranks of all disorders": lambda document: document,
    f"coarse: ranks of the first {COARSE_LISTED}": coarse_document,
}


def giveaway(most, seed):
    """Rows of a table: encoder, what is told, of whom, and how many photos and hours it takes for each similarity."""
    counts = [round(32 * 1.1**step) for step in range(99) if 32 * 1.1**step <= most]
    for encoder, numbers in ENCODERS.items():
        rng = np.random.default_rng(seed)
        gallery, truths, size_of = _gallery(numbers, rng)
        photos = _unit(rng.standard_normal((counts[-1], numbers)))
        targets = {whose: np.flatnonzero(size_of == size)[:TARGETS] for whose, size in SIZES.items()}
        read = _read(gallery, photos, targets)
        budget = usual_embeddings(Encoder(1, numbers))
        for (told, whose), values in read.items():
            found = {count: _similarity(photos[:count], values[:count], truths[targets[whose]]) for count in counts}
            sys.stderr.write(f"{encoder}, {told}, {whose}: {found[counts[-1]]:.3f} after {counts[-1]:,}\n")
            needed = [next((n for n, cosine in found.items() if cosine >= goal), None) for goal in GOALS]
            yield [encoder, told, whose, *(_cell(count, budget, most) for count in needed)]


def _cell(count, budget, most):
    return f"more than {most:,}" if count is None else f"{count:,} ({math.ceil(count / budget)} h)"


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _gallery(numbers, rng):
    """Disorders of one photo, and of as many as the other size; their averages; how many photos each has."""
    size_of = np.resize(list(SIZES.values()), DISORDERS)
    disorder_of = np.repeat(np.arange(DISORDERS), size_of)
    faces = rng.standard_normal((DISORDERS, numbers))
    rows = _unit(faces[disorder_of] + rng.standard_normal((len(disorder_of), numbers)))
    ids = [str(number) for number in range(len(rows))]
    cohort = Cohort.of(rows, image_ids=ids, patient_ids=ids, disorder_ids=[str(each) for each in disorder_of])
    return cohort, _unit(np.stack([rows[disorder_of == each].mean(axis=0) for each in range(DISORDERS)])), size_of


def _read(gallery, photos, targets, at_a_time=100):
    """By what is told and of whom, (photos, targets): similarities, or what ranks let one expect of them."""
    found = {(told, whose): [] for told in TOLD for whose in targets}
    for start in range(0, len(photos), at_a_time):
        queries = [Query.of(photo[None]) for photo in photos[start : start + at_a_time]]
        answers = {"queries": [as_plain_values(ranking) for ranking in rank(gallery, queries, top=None)]}
        for told, rewritten in TOLD.items():
            for query in rewritten(answers)["queries"]:
                line_of = {line["disorder_id"]: line for line in query["disorders"]}
                for whose, disorders in targets.items():
                    values = [_told(line_of.get(str(each)), by_rank="ranks" in told) for each in disorders]
                    found[told, whose].append(values)
    return {key: np.array(values) for key, values in found.items()}


def _told(line, *, by_rank):
    if line is None:  # it is not among the first
        return BEYOND
    if by_rank:
        return -ndtri((line["rank"] - 0.5) / DISORDERS)
    part = line["centroid_distance"]
    return 1 - (line["distance"] if part is None else part)


def _similarity(photos, read, truths):
    """The median cosine between reconstructions and truths, with the best penalty."""
    values, axes = np.linalg.eigh(photos.T @ photos)
    turned = axes.T @ (photos.T @ (read - read.mean(axis=0)))
    best = 0.0
    for penalty in PENALTIES:
        found = _unit(1e-12 + (axes @ (turned / (values.clip(0) + penalty)[:, None])).T)
        best = max(best, float(np.median((found * truths).sum(axis=1))))
    return best

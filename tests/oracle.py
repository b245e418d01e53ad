"""The paper's equations as plain loops over Python floats: slow, obvious, and independent of the package."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache


class PlainEmbedding(list):
    """Vectors as lists of floats. It is equal to itself only: distances and means of it are worked out once."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def plain(embeddings):
    """Arrays (images, representations, dimensions) as embeddings for the oracle."""
    return [PlainEmbedding(embedding) for embedding in embeddings.astype(float).tolist()]


def cosine_distance(u, v):
    dot = math.fsum(a * b for a, b in zip(u, v, strict=True))
    length = math.sqrt(math.fsum(a * a for a in u)) * math.sqrt(math.fsum(b * b for b in v))
    return 1 - dot / length


def distance(a, b):
    """Mean over representations; a and b are lists of vectors."""
    return math.fsum(cosine_distance(u, v) for u, v in zip(a, b, strict=True)) / len(a)


def mean(embeddings):
    representations, dimensions = len(embeddings[0]), len(embeddings[0][0])
    return [
        [math.fsum(e[r][k] for e in embeddings) / len(embeddings) for k in range(dimensions)]
        for r in range(representations)
    ]


known_distance = lru_cache(maxsize=200_000)(distance)


@lru_cache(maxsize=10_000)
def known_mean(*embeddings):
    return PlainEmbedding(mean(embeddings))


def disorder_distance(probe, images, method, photos):
    """Distance of an embedding to a disorder [(patient_id, embedding), ...]; its query has so many photos."""

    def nearest(k=1):
        return math.fsum(sorted(known_distance(probe, embedding) for _, embedding in images)[:k]) / k

    def patients():
        by_patient = {}
        for patient_id, embedding in images:
            by_patient.setdefault(patient_id, []).append(embedding)
        return by_patient.values()

    def proportional():
        return nearest(math.ceil(Decimal(str(method.parameters["alpha"])) * len(images)))

    def centroid():
        return known_distance(probe, known_mean(*(known_mean(*embeddings) for embeddings in patients())))

    def mixed(of_images):
        return method.parameters["lambda"] * centroid() + (1 - method.parameters["lambda"]) * of_images

    def sized():
        hybrid = mixed(nearest())
        added = method.parameters["offset"] + method.parameters["slope"] * hybrid
        return hybrid + added * math.log(len(patients()))

    def by_size():  # of scores.py beside this file
        trust = len(patients()) / (len(patients()) + method.parameters["strength"])
        both = trust * nearest((len(images) + 3) // 4) + (1 - trust) * centroid()
        return both + 0.05 / len(images) + 0.02 / photos

    return {
        "nearest": nearest,
        "image-centroid": lambda: known_distance(probe, known_mean(*(embedding for _, embedding in images))),
        "patient-centroid": centroid,
        "hybrid": lambda: mixed(nearest()),
        "proportional": proportional,
        "proportional-hybrid": lambda: mixed(proportional()),
        "size-aware": sized,
        "test-by-size": by_size,
    }[method.score]()


def ranking(query_embeddings, gallery, method):
    """[(distance, disorder_id), ...] in order; gallery is {disorder_id: [(patient_id, embedding), ...]}.

    All embeddings are plain ones: `plain` makes them.
    """
    probes = [known_mean(*query_embeddings)] if method.fusion == "embedding" else query_embeddings
    return sorted(
        (
            math.fsum(disorder_distance(probe, images, method, len(query_embeddings)) for probe in probes)
            / len(probes),
            disorder_id,
        )
        for disorder_id, images in gallery.items()
    )


def gene_lines(order, genes_of_disorder):
    """{gene or ("no gene", disorder_id): (rank, distance, nearest disorder, its disorders)}.

    `order` is [(distance, disorder_id), ...], `genes_of_disorder` {disorder_id: [gene, ...]}, without those that
    are not described.
    """
    found = {}
    for distance, disorder_id in order:
        if disorder_id not in genes_of_disorder:
            continue
        for gene in genes_of_disorder[disorder_id] or [("no gene", disorder_id)]:
            found.setdefault(gene, []).append((distance, disorder_id))
    lines = {}
    for gene, disorders in found.items():
        nearest = min(disorders)
        rank = 1
        for others in found.values():
            if min(others)[0] < nearest[0]:
                rank += 1
        lines[gene] = (rank, *nearest, sorted(disorder_id for _, disorder_id in disorders))
    return lines


def true_rank(order, disorder_id):
    """Place of the true disorder in [(distance, disorder_id), ...]; it loses ties; None where it is missing."""
    own = [distance for distance, candidate in order if candidate == disorder_id]
    if not own:
        return None
    return sum(1 for distance, _ in order if round(distance, 9) <= round(own[0], 9))


@lru_cache(maxsize=2)
def embeddings_of(study):
    """{image_id: embedding} of a whole study."""
    return dict(zip(study.encodings.image_ids, plain(study.encodings.embeddings), strict=True))


def fold_ranks(study, fold, test_set, gallery_name, method, *, leave_out=True):
    """{(patient_id, disorder_id): [rank, ...]} of one fold; a patient's own images are left out of the gallery."""
    embedding_of = embeddings_of(study)
    own = fold.frequent if test_set.endswith("freq") else fold.rare
    labels = [*fold.frequent.gallery, *fold.rare.gallery] if gallery_name == "unified" else own.gallery
    cases = {}
    for image_id, patient_id, disorder_id in own.test:
        cases.setdefault((patient_id, disorder_id), []).append(embedding_of[image_id])
    ranks = {}
    for (patient_id, disorder_id), images in cases.items():
        if test_set.startswith("multi") and len(images) < 2:
            continue
        gallery = {}
        for image_id, gallery_patient, gallery_disorder in labels:
            if gallery_patient != patient_id or not leave_out:
                gallery.setdefault(gallery_disorder, []).append((gallery_patient, embedding_of[image_id]))
        queries = [[image] for image in images] if method.fusion == "none" else [images]
        ranks[patient_id, disorder_id] = [true_rank(ranking(q, gallery, method), disorder_id) for q in queries]
    return ranks


def study_accuracy(study, test_set, gallery_name, method, top, *, per_image=False, leave_out=True):
    """The mean per-disorder accuracy in per cent, over the folds that have cases."""
    folds = []
    for fold in study.folds:
        of_disorder = {}
        for (_, disorder_id), ranks in fold_ranks(
            study, fold, test_set, gallery_name, method, leave_out=leave_out
        ).items():
            hits = [1.0 if rank is not None and rank <= top else 0.0 for rank in ranks]
            of_disorder.setdefault(disorder_id, []).extend(hits if per_image else [sum(hits) / len(hits)])
        if of_disorder:
            folds.append(sum(sum(hits) / len(hits) for hits in of_disorder.values()) / len(of_disorder))
    return 100 * sum(folds) / len(folds)


def composite(crops_of_patient):
    """The mean face as exact fractions, pixel by pixel; {patient_id: [crop as nested lists, ...]}."""
    first = next(iter(crops_of_patient.values()))[0]
    height, width, colours = len(first), len(first[0]), len(first[0][0])
    mean = [[[Fraction(0)] * colours for _ in range(width)] for _ in range(height)]
    for crops in crops_of_patient.values():
        for crop in crops:
            for row in range(height):
                for column in range(width):
                    for colour in range(colours):
                        share = Fraction(crop[row][column][colour], len(crops) * len(crops_of_patient))
                        mean[row][column][colour] += share
    return mean

"""The paper's equations as plain loops over Python floats: slow, obvious, and independent of the package."""

from __future__ import annotations

import math
from decimal import Decimal


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


def disorder_distance(probe, images, method):
    """Distance of one embedding to a disorder given as [(patient_id, embedding), ...]."""
    by_patient = {}
    for patient_id, embedding in images:
        by_patient.setdefault(patient_id, []).append(embedding)
    nearest = min(distance(probe, embedding) for _, embedding in images)
    patient_centroid = distance(probe, mean([mean(embeddings) for embeddings in by_patient.values()]))
    if method.score == "nearest":
        return nearest
    if method.score == "image-centroid":
        return distance(probe, mean([embedding for _, embedding in images]))
    if method.score == "patient-centroid":
        return patient_centroid
    if method.score == "hybrid":
        return method.centroid_weight * patient_centroid + (1 - method.centroid_weight) * nearest
    k = math.ceil(Decimal(str(method.alpha)) * len(images))
    return math.fsum(sorted(distance(probe, embedding) for _, embedding in images)[:k]) / k


def ranking(query_embeddings, gallery, method):
    """[(distance, disorder_id), ...] in order; gallery is {disorder_id: [(patient_id, embedding), ...]}."""
    probes = [mean(query_embeddings)] if method.fusion == "embedding" else query_embeddings
    return sorted(
        (math.fsum(disorder_distance(probe, images, method) for probe in probes) / len(probes), disorder_id)
        for disorder_id, images in gallery.items()
    )

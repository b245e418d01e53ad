"""Random cohorts with everything that is easy to get wrong in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mien import Cohort, Disorder, Encodings, Label

from oracle import plain


def random_cohort(
    rng,
    *,
    representations=3,
    dimensions=8,
    disorders=6,
    most_patients=4,
    most_images=4,
    two_disorder_patients=2,
    prefix="",
):
    """Uneven patients, single images, patients with two disorders, embeddings of very different lengths."""
    labels = []
    image_ids = []
    for disorder in range(disorders):
        for patient in range(rng.integers(1, most_patients + 1)):
            patient_id = f"{prefix}p{disorder}-{patient}"
            for _ in range(rng.integers(1, most_images + 1)):
                image_ids.append(f"{prefix}i{len(image_ids)}")
                labels.append(Label(image_ids[-1], patient_id, f"d{disorder}"))
    patient_ids = sorted({label.patient_id for label in labels})
    for patient_id in rng.choice(patient_ids, size=min(two_disorder_patients, len(patient_ids)), replace=False):
        second = f"d{rng.integers(disorders)}"
        labels += [Label(label.image_id, patient_id, second) for label in labels if label.patient_id == patient_id]
    shape = (len(image_ids), representations, dimensions)
    lengths = 10.0 ** rng.uniform(-3, 3, size=(len(image_ids), 1, 1))
    embeddings = (rng.standard_normal(shape) * lengths).astype(np.float32)
    order = rng.permutation(len(labels))
    names = {f"d{d}": Disorder(f"d{d}", f"Disorder {d}", f"OMIM:{100000 + d}") for d in range(disorders)}
    return Cohort.join(Encodings.of(image_ids, embeddings), [labels[i] for i in order], names)


def with_views(cohort, rng, noise):
    """Four representations, much like each other, in place of each."""
    views = cohort.embeddings.repeat(4, axis=1)
    scale = noise * np.linalg.norm(views, axis=2, keepdims=True) / np.sqrt(views.shape[2])
    views = views + scale * rng.standard_normal(views.shape)
    return replace(cohort, encodings=Encodings.of(cohort.roster.image_ids, views.astype(np.float32)))


def random_query_arrays(rng, cohort, images):
    """Raw embeddings of one query, near to some images of the cohort so that distances differ."""
    chosen = cohort.embeddings[rng.integers(len(cohort.embeddings), size=images)]
    lengths = 10.0 ** rng.uniform(-3, 3, size=(images, 1, 1))
    noise = rng.standard_normal(chosen.shape) * np.linalg.norm(chosen, axis=2, keepdims=True) / np.sqrt(chosen.shape[2])
    return ((chosen + noise) * lengths).astype(np.float32)


def as_plain_gallery(cohort, without=()):
    """{disorder_id: [(patient_id, embedding), ...]} for the oracle."""
    embedding_of = dict(zip(cohort.roster.image_ids, plain(cohort.embeddings), strict=True))
    gallery = {}
    for image_id, patient_id, disorder_id in cohort.roster.labels():
        if patient_id not in without:
            gallery.setdefault(disorder_id, []).append((patient_id, embedding_of[image_id]))
    return gallery


def families(rng, *, disorders=6, patients=10, dimensions=24, noise=1.3, prefix="", seed=7):
    """Disorders whose patients look alike, more or less: one or two photos each. The same seed gives the same faces."""
    faces = np.random.default_rng(seed).standard_normal((disorders, 1, dimensions))
    labels, embeddings = [], []
    for disorder in range(disorders):
        for patient in range(patients):
            person = faces[disorder] + noise * rng.standard_normal((1, dimensions))
            for photo in range(1 + (patient % 3 == 0)):
                embeddings.append(person + 0.3 * rng.standard_normal((1, dimensions)))
                labels.append(
                    Label(f"{prefix}i{disorder}-{patient}-{photo}", f"{prefix}p{disorder}-{patient}", f"d{disorder}")
                )
    encodings = Encodings.of([label.image_id for label in labels], np.array(embeddings, np.float32))
    return Cohort.join(encodings, labels)

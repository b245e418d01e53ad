"""S3: how a database grew, from a list of its versions."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mien.core.study import Release
from mien.evaluation.lab import Lab, Tables

MOST_REPRESENTED = 100


class Growth(NamedTuple):
    """One version."""

    version: str
    released: str
    images: int
    patients: int
    multi_image_patients: int
    images_of_most_represented: float  # mean over the hundred patients with most images
    disorders: int
    images_per_disorder: float
    patients_per_disorder: float


def run(lab: Lab) -> Tables:
    """Nothing where no list of versions was given."""
    return {"growth": [_growth(release) for release in sorted(lab.releases, key=lambda release: release.released)]}


def _growth(release: Release) -> Growth:
    patient_of_image = {label.image_id: label.patient_id for label in release.labels}
    images_of_patient = Counter(patient_of_image.values())
    most = [images for _, images in images_of_patient.most_common(MOST_REPRESENTED)]
    disorders = {label.disorder_id for label in release.labels}
    images = {(label.image_id, label.disorder_id) for label in release.labels}
    patients = {(label.patient_id, label.disorder_id) for label in release.labels}
    return Growth(
        release.version,
        release.released.isoformat(),
        len(patient_of_image),
        len(images_of_patient),
        sum(images > 1 for images in images_of_patient.values()),
        sum(most) / len(most),
        len(disorders),
        len(images) / len(disorders),
        len(patients) / len(disorders),
    )

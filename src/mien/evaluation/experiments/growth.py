"""S3: how large the database is, and how it grew, from a list of its versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from mien.core.roster import Label
from mien.evaluation.experiment_context import ExperimentContext, Tables

MOST_REPRESENTED = 100


class Growth(NamedTuple):
    """One version, or the study itself."""

    version: str
    released: str  # nothing for the study itself
    images: int
    patients: int
    multi_image_patients: int
    images_of_most_represented: float  # mean over the hundred patients with most images
    disorders: int
    images_per_disorder: float
    patients_per_disorder: float


def run(context: ExperimentContext) -> Tables:
    """What the study's own tables hold, and each version of a list, where one was given."""
    here = {label for fold in context.study.folds for split in fold for part in split for label in part}
    releases = sorted(context.releases, key=lambda release: release.released)
    return {
        "database_size": [_growth(context.study.source, "", here)],
        "growth": [_growth(release.version, release.released.isoformat(), release.labels) for release in releases],
    }


def _growth(version: str, released: str, labels: Collection[Label]) -> Growth:
    patient_of_image = {label.image_id: label.patient_id for label in labels}
    images_of_patient = Counter(patient_of_image.values())
    most = [images for _, images in images_of_patient.most_common(MOST_REPRESENTED)]
    disorders = {label.disorder_id for label in labels}
    return Growth(
        version,
        released,
        len(patient_of_image),
        len(images_of_patient),
        sum(images > 1 for images in images_of_patient.values()),
        sum(most) / len(most),
        len(disorders),
        len({(label.image_id, label.disorder_id) for label in labels}) / len(disorders),
        len({(label.patient_id, label.disorder_id) for label in labels}) / len(disorders),
    )

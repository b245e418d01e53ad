"""A small cohort with the structure of a real one: disorders that share features, patients, photos, views."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Cohort, Encodings
from mien.core.encoder import Encoder
from mien.core.roster import Disorder, Label

DISORDER_LENGTH = 0.3  # share of a disorder's direction in an image, the rest being the patient and the photo
PATIENT_LENGTH = 0.5
SIMULATED_ENCODER = "simulated"


def simulated_cohort(
    rng: np.random.Generator,
    *,
    patients_of_disorder: list[int],
    images_of_patient: tuple[int, int] = (1, 4),
    representations: int = 12,
    dimensions: int = 32,
) -> Cohort:
    """Every image is its disorder's direction plus its patient's plus its own, of uneven length, seen by every view.

    >>> cohort = simulated_cohort(np.random.default_rng(1), patients_of_disorder=[2, 3])
    >>> len(cohort.roster.patient_ids), cohort.embeddings.shape[1:]
    (5, (12, 32))
    """
    labels: list[Label] = []
    embeddings: list[Float32s] = []
    for disorder, patients in enumerate(patients_of_disorder):
        face_of_disorder = _directions(rng, (representations, dimensions))
        for _ in range(patients):
            patient_id = f"patient-{len({label.patient_id for label in labels}) + 1:03}"
            face_of_patient = _directions(rng, (representations, dimensions))
            for _ in range(rng.integers(*images_of_patient, endpoint=True)):
                photo = _directions(rng, (representations, dimensions))
                face = DISORDER_LENGTH * face_of_disorder + PATIENT_LENGTH * face_of_patient + photo
                labels.append(Label(f"image-{len(labels) + 1:04}", patient_id, f"S{disorder + 1:02}"))
                embeddings.append((face * rng.uniform(10, 30)).astype(np.float32))
    names = {
        f"S{d + 1:02}": Disorder(f"S{d + 1:02}", f"Simulated disorder {d + 1}")
        for d in range(len(patients_of_disorder))
    }
    encoder = Encoder(representations, dimensions, name=SIMULATED_ENCODER)
    return Cohort.join(Encodings.of([label.image_id for label in labels], np.stack(embeddings), encoder), labels, names)


def _directions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    vectors = rng.standard_normal(shape)
    directions: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return directions

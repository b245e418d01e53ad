"""The simulated GMDB as a study."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mien.core.cohort import Encodings
from mien.core.encoder import Encoder
from mien.core.roster import Disorder, Label
from mien.core.study import Fold, ImageFacts, Split, Study
from mien.simulation.embeddings import GM_ARC, Layout, simulated_embeddings
from mien.simulation.parameters import PARAMETERS, Parameters
from mien.simulation.shape import FOLDS, FREQUENT_DISORDERS, RARE_DISORDERS, Patients, simulated_patients


def version(seed: int) -> str:
    """What stands where a version of GMDB would."""
    return f"v1.1.4-simulated-{seed}"


def simulated_gmdb(seed: int, parameters: Parameters = PARAMETERS, layout: Layout = GM_ARC) -> Study:
    """A study of GMDB's shape in which nobody is real; the same seed gives the same bits."""
    patients, labels_of_patient, row_of_image, facts = _people(seed)
    all_rows = simulated_embeddings(patients, parameters, rng=np.random.default_rng([seed, 2]), layout=layout)
    _, representations, dimensions = all_rows.shape
    encoder = Encoder(representations, dimensions, name="simulated")
    encodings = Encodings(tuple(row_of_image), all_rows[list(row_of_image.values())], encoder)

    def labels(roles: Iterable[str]) -> tuple[Label, ...]:
        chosen = set(roles)
        return tuple(
            label for role, own in zip(patients.role, labels_of_patient, strict=True) if role in chosen for label in own
        )

    frequent = Split(labels(["train", "validation"]), labels(["test"]))
    return Study(
        source=f"GMDB {version(seed)}",
        encodings=encodings,
        folds=tuple(Fold(frequent, _rare_split(patients, labels_of_patient, fold)) for fold in range(FOLDS)),
        train=labels(["train"]),
        validation=labels(["validation"]),
        disorders={disorder.disorder_id: disorder for disorder in _disorders()},
        facts_of_image=facts,
        simulated=True,
    )


class _People(NamedTuple):
    patients: Patients
    labels_of_patient: list[list[Label]]
    row_of_image: dict[str, int]
    facts: dict[str, ImageFacts]


@lru_cache(maxsize=4)  # the calibration asks for the same people again and again
def _people(seed: int) -> _People:
    patients = simulated_patients(np.random.default_rng([seed, 0]))
    labels_of_patient, row_of_image = _labels(patients)
    facts = _facts(patients, labels_of_patient, np.random.default_rng([seed, 1]))
    return _People(patients, labels_of_patient, row_of_image, facts)


def _labels(patients: Patients) -> tuple[list[list[Label]], dict[str, int]]:
    """The labels of every patient, and the row of each image: a person with two disorders has one set of photos."""
    labels: list[list[Label]] = []
    row_of_image: dict[str, int] = {}
    first_row = np.cumsum(patients.images) - patients.images
    for patient, (disorder, images) in enumerate(
        zip(patients.disorder.tolist(), patients.images.tolist(), strict=True)
    ):
        person = patients.same_person_as.get(patient, patient)
        rows = range(first_row[person], first_row[person] + images)
        labels.append([Label(str(row + 1), str(person + 1), str(disorder + 1)) for row in rows])
        row_of_image |= {str(row + 1): row for row in rows}
    return labels, row_of_image


def _rare_split(patients: Patients, labels_of_patient: list[list[Label]], fold: int) -> Split:
    rare = [patient for patient, role in enumerate(patients.role) if role == "rare"]
    gallery, test = (
        tuple(
            label
            for patient in rare
            if (fold in patients.folds[patient]) == tested
            for label in labels_of_patient[patient]
        )
        for tested in (False, True)
    )
    return Split(gallery, test)


def _disorders() -> Iterable[Disorder]:
    for number in range(FREQUENT_DISORDERS + RARE_DISORDERS):
        kind = "frequent" if number < FREQUENT_DISORDERS else "rare"
        yield Disorder(str(number + 1), f"Simulated {kind} disorder {number + 1}")


def _facts(patients: Patients, labels_of_patient: list[list[Label]], rng: np.random.Generator) -> dict[str, ImageFacts]:
    """Sex and ages, which have nothing to do with the embeddings; photos of one patient span some years."""
    facts: dict[str, ImageFacts] = {}
    for patient, labels in enumerate(labels_of_patient):
        sex, first_age = rng.choice(["female", "male"]), rng.gamma(1.5, 5.0)
        ages = first_age + np.append(0.0, rng.exponential(3.0, size=len(labels) - 1))
        if patient not in patients.same_person_as:
            facts |= {
                label.image_id: ImageFacts(round(age, 1), str(sex))
                for label, age in zip(labels, ages.tolist(), strict=True)
            }
    return facts

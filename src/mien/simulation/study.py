"""The simulated GMDB as a study."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mien.core.cohort import Encodings
from mien.core.embeddings import Encoder
from mien.core.roster import Disorder, Label
from mien.core.study import Fold, ImageFacts, Split, Study
from mien.simulation.embeddings import GM_ARC, MODELS, Layout, Space, simulated_embeddings
from mien.simulation.parameters import PARAMETERS, Parameters
from mien.simulation.patients import FOLDS, FREQUENT_DISORDERS, RARE_DISORDERS, Patients, simulated_patients

DISORDERS = FREQUENT_DISORDERS + RARE_DISORDERS


def version(seed: int, growth: int = 1) -> str:
    """The version of a simulated GMDB.

    >>> version(1), version(1, growth=10)
    ('v1.1.4-simulated-1', 'v1.1.4-simulated-1-x10')
    """
    return f"v1.1.4-simulated-{seed}" + (f"-x{growth}" if growth > 1 else "")


def simulated_gmdb(
    seed: int, parameters: Parameters = PARAMETERS, layout: Layout = GM_ARC, *, growth: int = 1
) -> Study:
    """A simulated study with the counts of GMDB; the same seed gives the same bits.

    With `growth` it has that many times the disorders, patients and images: those of several simulated databases,
    encoded by the same encoder.
    """
    copies = [_people(seed, copy) for copy in range(growth)]

    def labels(*roles: str, tested_in: int | None = None, not_in: int | None = None) -> tuple[Label, ...]:
        return tuple(
            label
            for people in copies
            for role, folds, own in zip(
                people.patients.role, people.patients.folds, people.labels_of_patient, strict=True
            )
            if role in roles and (tested_in is None or tested_in in folds) and not_in not in folds
            for label in own
        )

    frequent = Split(labels("train", "validation"), labels("test"))
    rare = [Split(labels("rare", not_in=fold), labels("rare", tested_in=fold)) for fold in range(FOLDS)]
    return Study(
        source=f"GMDB {version(seed, growth)}",
        encodings=_encodings(seed, copies, parameters, layout),
        folds=tuple(Fold(frequent, of_fold) for of_fold in rare),
        train=labels("train"),
        validation=labels("validation"),
        disorders={disorder.disorder_id: disorder for disorder in _disorders(growth)},
        facts_of_image={image_id: facts for people in copies for image_id, facts in people.facts.items()},
        simulated=True,
    )


class _People(NamedTuple):
    patients: Patients
    labels_of_patient: list[list[Label]]
    row_of_image: dict[str, int]
    facts: dict[str, ImageFacts]


@lru_cache(maxsize=4)  # the calibration needs the same people many times
def _people(seed: int, copy: int) -> _People:
    patients = simulated_patients(_rng(seed, 0, copy))
    labels_of_patient, row_of_image = _labels(patients, copy)
    facts = _facts(patients, labels_of_patient, _rng(seed, 1, copy))
    return _People(patients, labels_of_patient, row_of_image, facts)


def _rng(seed: int, purpose: int, copy: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose, copy] if copy else [seed, purpose])


def _encodings(seed: int, copies: list[_People], parameters: Parameters, layout: Layout) -> Encodings:
    """The embeddings of all copies, made one copy after the other, to save memory."""
    image_ids = [image_id for people in copies for image_id in people.row_of_image]
    encoder = Encoder(MODELS * layout.views, layout.dimensions or parameters.latent_dimensions, name="simulated")
    embeddings = np.empty((len(image_ids), encoder.representations, encoder.dimensions), dtype=np.float32)
    space: Space = {}
    start = 0
    for copy, people in enumerate(copies):
        rng, rows = _rng(seed, 2, copy), list(people.row_of_image.values())
        drawn = simulated_embeddings(people.patients, parameters, rng=rng, layout=layout, space=space)
        drawn.take(rows, axis=0, out=embeddings[start : start + len(rows)], mode="clip")  # "raise" takes a copy first
        start += len(rows)
    return Encodings(tuple(image_ids), embeddings, encoder)


def _labels(patients: Patients, copy: int) -> tuple[list[list[Label]], dict[str, int]]:
    """The labels of every patient, and the row of each image: a person with two disorders has one set of photos."""
    labels: list[list[Label]] = []
    row_of_image: dict[str, int] = {}
    first_row = np.cumsum(patients.images) - patients.images
    before = copy * int(patients.images.sum()), copy * len(patients.images), copy * DISORDERS  # of other copies
    for patient, (disorder, images) in enumerate(
        zip(patients.disorder.tolist(), patients.images.tolist(), strict=True)
    ):
        person = patients.same_person_as.get(patient, patient)
        rows = range(first_row[person], first_row[person] + images)
        image_ids = [str(before[0] + row + 1) for row in rows]
        ids = str(before[1] + person + 1), str(before[2] + disorder + 1)
        labels.append([Label(image_id, *ids) for image_id in image_ids])
        row_of_image |= dict(zip(image_ids, rows, strict=True))
    return labels, row_of_image


def _disorders(growth: int) -> Iterator[Disorder]:
    for number in range(growth * DISORDERS):
        kind = "frequent" if number % DISORDERS < FREQUENT_DISORDERS else "rare"
        yield Disorder(str(number + 1), f"Simulated {kind} disorder {number + 1}")


def _facts(patients: Patients, labels_of_patient: list[list[Label]], rng: np.random.Generator) -> dict[str, ImageFacts]:
    """Random sex and ages, independent of the embeddings. Photos of one patient span some years."""
    facts: dict[str, ImageFacts] = {}
    for patient, labels in enumerate(labels_of_patient):
        sex, first_age = rng.choice(["female", "male"]), rng.gamma(1.5, 5.0)
        ages = first_age + np.append(0.0, rng.exponential(3.0, size=len(labels) - 1))
        if patient not in patients.same_person_as:
            facts |= {
                label.image_id: ImageFacts(round(12 * age) / 12, str(sex))
                for label, age in zip(labels, ages.tolist(), strict=True)
            }
    return facts

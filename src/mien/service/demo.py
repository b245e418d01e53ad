"""Builds a simulated gallery, and simulated patients, for the demo page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mien.core.cohort import Cohort, Query
from mien.core.roster import Label
from mien.core.study import Study
from mien.service.patient_ranker import DemoPatient
from mien.simulation.embeddings import Layout
from mien.simulation.study import simulated_gmdb
from mien.storage.gallery import Gallery

SEED = 1
PATIENTS = 6  # with frequent disorders, and as many with rare ones
PHOTOS = (2, 5)  # of each patient: at least, at most


def build_demo(directory: Path) -> dict[str, DemoPatient]:
    """Writes the gallery of a simulated GMDB, and returns some of its test patients by id."""
    study = simulated_gmdb(SEED, layout=Layout(dimensions=None))  # the latent space: smaller than 512 dimensions
    fold = study.folds[0]
    labels = [*fold.frequent.gallery, *fold.rare.gallery]
    Gallery.build(directory, Cohort.join(study.encodings, labels, study.disorders))
    return {**_patients(study, fold.frequent.test), **_patients(study, fold.rare.test)}


def _patients(study: Study, test: Iterable[Label]) -> dict[str, DemoPatient]:
    """The first patients with several photos, one for each disorder."""
    labels_of: dict[str, list[Label]] = {}
    for label in test:
        labels_of.setdefault(label.patient_id, []).append(label)
    of_disorder: dict[str, list[Label]] = {}
    for labels in labels_of.values():
        if PHOTOS[0] <= len(labels) <= PHOTOS[1]:
            of_disorder.setdefault(labels[0].disorder_id, labels)
    patients = {}
    for disorder_id, labels in list(of_disorder.items())[:PATIENTS]:
        patient_id, rows = labels[0].patient_id, [study.row_of_image[label.image_id] for label in labels]
        query = Query(study.encodings.only(rows), patient_id)
        patients[patient_id] = DemoPatient(query, study.disorders[disorder_id])
    return patients

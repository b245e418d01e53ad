"""Patients with a known disorder, to learn from: each is compared with a gallery that does not have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from mien.answers.calibration import FEWEST_DISORDERS
from mien.answers.ranking import AnyGallery
from mien.core.arrays import Bools, Float64s, Ints
from mien.core.cohort import Cohort, Query
from mien.core.index import GalleryIndex
from mien.core.method import Method
from mien.core.roster import Label
from mien.core.searcher import AskedQuery, Estimates, Searcher
from mien.core.study import Study
from mien.errors import InvalidCalibrationError
from mien.evaluation.evaluated_patients import EvaluatedPatient, evaluated_patients
from mien.progress import Progress, silent

MOST_PATIENTS = 4000
MOST_OF_A_DISORDER = 20  # where there are more: a disorder counts as much as any other, and patients the less
FEWEST_PATIENTS = 40  # who still have others of their disorder when they are left out
PARTS = 5  # of the patients: what is said of one part was learned from the others
QUERIES_PER_STEP = 128  # between two reports of progress


class KnownPatients(NamedTuple):
    """Patients with a known disorder, or single photos of them, and their distances to a gallery without them."""

    distances: Float64s  # (patients, disorders), infinite where a disorder has nobody else
    gallery_patients: Ints  # (patients, disorders)
    photos: Ints  # of each patient
    disorder: Ints  # the column of the patient's disorder; -1 where the gallery does not have it
    person: Ints  # a number: single photos of one patient have the same
    of_cohort: Bools  # or of the gallery

    @property
    def present(self) -> Bools:
        """Whose disorder is in the gallery without them."""
        rows = np.arange(len(self.disorder))
        there = np.isfinite(self.distances[rows, np.maximum(self.disorder, 0)])
        return (self.disorder >= 0) & there

    def only(self, chosen: Bools) -> KnownPatients:
        """Some of them."""
        return KnownPatients._make(of_each[chosen] for of_each in self)

    def random_parts(self, rng: np.random.Generator) -> Ints:
        """The part of each of them: `PARTS` parts of as many people."""
        people, place = np.unique(self.person, return_inverse=True)
        parts: Ints = rng.permutation(np.arange(len(people)) % PARTS)[place]
        return parts

    @classmethod
    def joined(cls, several: Sequence[KnownPatients]) -> KnownPatients:
        """Those of several galleries that have the same disorders."""
        return cls._make(map(np.concatenate, zip(*several, strict=True)))

    def as_absent(self) -> Float64s:
        """Their distances, if the gallery did not have their disorder."""
        distances = self.distances.copy()
        rows = np.flatnonzero(self.disorder >= 0)
        distances[rows, self.disorder[rows]] = np.inf
        return distances


def index_of(gallery: AnyGallery) -> GalleryIndex:
    """The one index of a gallery; several parts have none."""
    index = gallery if isinstance(gallery, GalleryIndex) else getattr(gallery, "index", None)
    if not isinstance(index, GalleryIndex):
        raise InvalidCalibrationError(
            "several galleries are given, and this needs one: build one of all their patients"
        )
    return index


def unseen_by_encoder(study: Study) -> tuple[Cohort | None, set[str]]:
    """Other patients to learn from, and the ids of those whom a study's encoder was trained on.

    GMDB's was trained on the frequent gallery: the validation images stand for patients whom it has not seen.
    """
    others = Cohort.join(study.encodings, study.validation) if study.validation else None
    return others, {label.patient_id for label in study.train}


def estimates_of_tested(
    study: Study, labels: Iterable[Label], searcher: Searcher, method: Method
) -> Iterator[tuple[list[EvaluatedPatient], Ints, Estimates]]:
    """Asks a gallery about the test patients whose disorder it has, a few at a time.

    Gives the patients, the columns of their disorders and the estimates. Photos that are not fused have a row each.
    """
    column_of = {disorder.disorder_id: column for column, disorder in enumerate(searcher.gallery.disorders)}
    patients = [each for each in evaluated_patients(labels, study.row_of_image) if each.disorder_id in column_of]
    queries = [Query(study.encodings.only(patient.images), patient.patient_id) for patient in patients]
    rows = iter(patients if method.fusion != "none" else [patient for patient in patients for _ in patient.images])
    for estimates in searcher.estimates(searcher.asked(queries, method.fusion), method):
        some = list(islice(rows, len(estimates.first_probe)))
        yield some, np.array([column_of[patient.disorder_id] for patient in some]), estimates


def known_patients(
    searcher: Searcher,
    index: GalleryIndex,
    method: Method,
    *,
    rng: np.random.Generator,
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    progress: Progress = silent,
) -> KnownPatients:
    """Patients to learn from: those of a cohort, and gallery patients with disorders that the cohort lacks.

    Patients with two disorders are left out.
    """
    column_of = {disorder.disorder_id: column for column, disorder in enumerate(searcher.gallery.disorders)}
    most = max(MOST_OF_A_DISORDER, MOST_PATIENTS // max(1, len(column_of)))
    of_cohort = {query.patient_id: query for query in cohort.queries()} if cohort else {}
    number_of = {patient_id: number for number, patient_id in enumerate(of_cohort)}
    chosen = _drawn(cohort.roster.labels(), most, rng) if cohort else {}
    own = _drawn([label for label in index.roster.labels() if label.patient_id not in trained], most, rng)
    known = [(number_of[patient_id], disorder_id, of_cohort[patient_id]) for patient_id, disorder_id in chosen.items()]
    in_cohort = set(chosen.values())
    known += [
        (len(of_cohort) + index.roster.patient_of_id[patient_id], disorder_id, _gallery_query(index, patient_id))
        for patient_id, disorder_id in own.items()
        if disorder_id not in in_cohort and patient_id not in chosen
    ]
    if not known:
        require_enough(disorders=len(column_of), patients=0)
    people, disorders, queries = zip(*known, strict=True)
    asked = searcher.asked(queries, method.fusion)
    times = [len(query.encodings.image_ids) if method.fusion == "none" else 1 for query in queries]
    found: list[Estimates] = []
    for start in range(0, len(asked), QUERIES_PER_STEP):
        progress(start, len(asked))
        some = asked[start : start + QUERIES_PER_STEP]
        found += _evenly_left_out(searcher, some, searcher.estimates(some, method))
    progress(len(asked), len(asked))
    return KnownPatients(
        np.concatenate([each.distances(method) for each in found]),
        np.concatenate([each.gallery_patients for each in found]),
        np.concatenate([each.photos for each in found]),
        np.repeat([column_of.get(disorder_id, -1) for disorder_id in disorders], times),
        np.repeat(people, times),
        np.repeat(np.arange(len(queries)) < len(chosen), times),
    )


def require_enough(*, disorders: int, patients: int) -> None:
    """Refuses to learn from too few disorders or patients; only patients who share a disorder are counted."""
    if disorders < FEWEST_DISORDERS:
        raise InvalidCalibrationError(
            f"the gallery has {disorders} disorders: {FEWEST_DISORDERS} are needed to tell how sure a rank is"
        )
    if patients < FEWEST_PATIENTS:
        raise InvalidCalibrationError(
            f"{patients} patients have somebody else with their disorder in the gallery: {FEWEST_PATIENTS} are needed"
            " to tell how sure a rank is"
        )


def _evenly_left_out(
    searcher: Searcher, asked: Sequence[AskedQuery], estimates: Iterable[Estimates]
) -> Iterator[Estimates]:
    """Counts one patient less in every disorder, for queries whose own patient is left out of the gallery.

    Their own disorder really has one less. If the others did not, the missing patient would tell the true disorder.
    """
    left_out, start = np.array([len(query.own_patients) > 0 for query in asked]), 0
    for each in estimates:
        of_probe = np.searchsorted(each.first_probe, np.arange(len(each.evidence.nearest)), side="right") - 1 + start
        patients = np.maximum(searcher.gallery.patients_of_disorder - left_out[of_probe, np.newaxis], 1)
        yield each._replace(evidence=each.evidence._replace(gallery_patients=patients))
        start += len(each.first_probe)


def _drawn(labels: Sequence[Label], most: int, rng: np.random.Generator) -> dict[str, str]:
    """Patients with one disorder, at most so many of each, drawn; and the disorder of each patient."""
    disorders_of: dict[str, set[str]] = {}
    for _, patient_id, disorder_id in labels:
        disorders_of.setdefault(patient_id, set()).add(disorder_id)
    patients_of: dict[str, list[str]] = {}
    for patient_id, disorders in sorted(disorders_of.items()):
        if len(disorders) == 1:
            patients_of.setdefault(min(disorders), []).append(patient_id)
    return {
        patient_id: disorder_id
        for disorder_id, patients in sorted(patients_of.items())
        for patient_id in (rng.permutation(patients)[:most].tolist() if len(patients) > most else patients)
    }


def _gallery_query(index: GalleryIndex, patient_id: str) -> Query:
    images = np.flatnonzero(index.roster.patient_of_image == index.roster.patient_of_id[patient_id])
    ids = [index.roster.image_ids[image] for image in images.tolist()]
    return Query.of(index.raw_embeddings(images), ids, patient_id)

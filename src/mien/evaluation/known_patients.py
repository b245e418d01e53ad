"""Patients with a known disorder, to learn from: each is compared with a gallery that does not have them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float64s, Ints
from mien.core.calibration import FEWEST_DISORDERS
from mien.core.cohort import Cohort, Query
from mien.core.errors import InvalidCalibrationError
from mien.core.index import GalleryIndex
from mien.core.method import Method
from mien.core.progress import Progress, silent
from mien.core.ranking import AnyGallery
from mien.core.roster import Label
from mien.core.searcher import Estimates, Searcher

MOST_PATIENTS = 4000
MOST_OF_A_DISORDER = 20  # where there are more: a disorder counts as much as any other, and patients the less
FEWEST_PATIENTS = 40  # who still have others of their disorder when they are left out
QUERIES_PER_STEP = 128  # between two reports of progress


class KnownPatients(NamedTuple):
    """Patients with a known disorder, or single photos of them, and their distances to a gallery without them."""

    distances: Float64s  # (patients, disorders), infinite where a disorder has nobody else
    gallery_patients: Ints  # (patients, disorders)
    photos: Ints
    disorder: Ints  # its column; -1 where the gallery does not have it
    person: Ints  # who is on it; those of a cohort come first
    from_cohort: int  # so many

    @property
    def present(self) -> Bools:
        """Whose disorder is in the gallery without them."""
        rows = np.arange(len(self.disorder))
        there = np.isfinite(self.distances[rows, np.maximum(self.disorder, 0)])
        return (self.disorder >= 0) & there

    def only(self, chosen: Bools) -> KnownPatients:
        """Some of them."""
        distances, gallery_patients, photos, disorder, person, from_cohort = self
        return KnownPatients(
            distances[chosen], gallery_patients[chosen], photos[chosen], disorder[chosen], person[chosen], from_cohort
        )

    def as_absent(self) -> Float64s:
        """Their distances, if the gallery did not have their disorder."""
        distances = self.distances.copy()
        rows = np.flatnonzero(self.disorder >= 0)
        distances[rows, self.disorder[rows]] = np.inf
        return distances


class KnownEvidence(NamedTuple):
    """The same before a score made distances of it: any method with the same fusion can."""

    estimates: Sequence[Estimates]
    disorder: Ints
    person: Ints
    from_cohort: int

    @classmethod
    def of(
        cls, searcher: Searcher, estimates: Sequence[Estimates], disorder: Ints, person: Ints, from_cohort: int
    ) -> KnownEvidence:
        """Every disorder has one patient less for those who are left out of the gallery.

        Their own really has. If the others kept theirs, the true disorder would be known by its missing patient.
        """
        sizes, start, even = searcher.gallery.patients_of_disorder, 0, []
        for each in estimates:
            left_out = person[start : start + len(each.first_probe)] >= from_cohort
            of_probe = np.searchsorted(each.first_probe, np.arange(len(each.evidence.nearest)), side="right") - 1
            patients = np.maximum(sizes - left_out[of_probe, np.newaxis], 1)
            even.append(each._replace(evidence=each.evidence._replace(gallery_patients=patients)))
            start += len(each.first_probe)
        return cls(even, disorder, person, from_cohort)

    def by(self, method: Method) -> KnownPatients:
        """Distances by a method."""
        return KnownPatients(
            np.concatenate([each.distances(method) for each in self.estimates]),
            np.concatenate([each.gallery_patients for each in self.estimates]),
            np.concatenate([each.photos for each in self.estimates]),
            *self[1:],
        )


def index_of(gallery: AnyGallery) -> GalleryIndex:
    """The one index of a gallery; several parts have none."""
    index = gallery if isinstance(gallery, GalleryIndex) else getattr(gallery, "index", None)
    if not isinstance(index, GalleryIndex):
        raise InvalidCalibrationError("several galleries in one cannot be calibrated: build one gallery of them")
    return index


def known_evidence(
    searcher: Searcher,
    index: GalleryIndex,
    method: Method,
    *,
    cohort: Cohort | None = None,
    trained: Collection[str] = (),
    seed: int = 1,
    progress: Progress = silent,
) -> KnownEvidence:
    """Patients to learn from: a cohort's, and of disorders that it lacks the gallery's own. Who has two is left out."""
    rng = np.random.default_rng([seed, 0])
    column_of = index.roster.disorder_of_id
    most = max(MOST_OF_A_DISORDER, MOST_PATIENTS // max(1, len(column_of)))
    if len(column_of) < FEWEST_DISORDERS:
        raise InvalidCalibrationError(
            f"the gallery has {len(column_of)} disorders: {FEWEST_DISORDERS} are needed to tell how sure a rank is"
        )
    chosen = _drawn(cohort.roster.labels(), most, rng) if cohort else {}
    of_cohort = {query.patient_id: query for query in cohort.queries()} if cohort else {}
    own = _drawn([label for label in index.roster.labels() if label.patient_id not in trained], most, rng)
    in_cohort = set(chosen.values())
    queries = [of_cohort[patient_id] for patient_id in chosen]
    disorders = list(chosen.values())
    for patient_id, disorder_id in own.items():
        if disorder_id not in in_cohort and patient_id not in chosen:
            queries.append(_gallery_query(index, patient_id))
            disorders.append(disorder_id)
    asked = searcher.asked(queries, method.fusion)
    times = [len(query.encodings.image_ids) if method.fusion == "none" else 1 for query in queries]
    columns = np.repeat([column_of.get(disorder_id, -1) for disorder_id in disorders], times)
    found: list[Estimates] = []
    for start in range(0, len(asked), QUERIES_PER_STEP):
        progress(start, len(asked))
        found += searcher.estimates(asked[start : start + QUERIES_PER_STEP], method)
    progress(len(asked), len(asked))
    evidence = KnownEvidence.of(searcher, found, columns, np.arange(len(queries)).repeat(times), len(chosen))
    known = evidence.by(method)
    if (learnable := len(np.unique(known.person[known.present]))) < FEWEST_PATIENTS:
        raise InvalidCalibrationError(
            f"{learnable} patients have somebody else with their disorder in the gallery: {FEWEST_PATIENTS} are needed"
            " to tell how sure a rank is"
        )
    return evidence


def _drawn(labels: Sequence[Label], most: int, rng: np.random.Generator) -> dict[str, str]:
    """The disorder of each patient who has one only, at most so many of a disorder."""
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

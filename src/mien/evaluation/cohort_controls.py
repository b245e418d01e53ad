"""The gallery's patients as controls of a cohort: one fused row each, and their distances."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Ints
from mien.core.centroids import group_means
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.index import GalleryIndex
from mien.core.study import ImageFacts
from mien.errors import InvalidCohortError
from mien.evaluation.fact_groups import FACTS
from mien.progress import Progress

PATIENTS_AT_A_TIME = 256
FEWEST_THAT_SUIT = 10


class Controls(NamedTuple):
    """Gallery patients with one disorder who are not in the cohort, sorted by disorder."""

    patients: Ints  # their places in the roster
    disorder_of_patient: Ints
    rows: Float32s
    distances: Float32s
    first_image: Ints  # of each, by image id: its place in the roster
    photos: int  # of all of them
    with_several_disorders: int  # left out

    @property
    def disorders(self) -> int:
        """How many they have."""
        return len(np.unique(self.disorder_of_patient))


def controls_of(index: GalleryIndex, left_out: Collection[str], progress: Progress) -> Controls:
    """Fuses the photos of each patient first."""
    roster = index.roster
    disorder_of_label = np.repeat(np.arange(len(roster.disorders)), roster.images_of_disorder)
    disorder, patient = np.unique(np.stack([disorder_of_label, roster.patient_of_label]), axis=1)
    single = np.bincount(patient, minlength=len(roster.patient_ids))[patient] == 1
    own = np.isin(patient, [roster.patient_of_id[patient_id] for patient_id in left_out])
    patients, disorders = patient[single & ~own], disorder[single & ~own]
    if len(np.unique(disorders)) < 2:
        raise InvalidCohortError("the gallery needs patients of two disorders or more beside the cohort: add some")
    images = np.argsort(roster.patient_of_image, kind="stable")
    first, last = (np.searchsorted(roster.patient_of_image[images], patients, side) for side in ("left", "right"))
    rows = np.empty((len(patients), index.encoder.representations * index.encoder.dimensions), np.float32)
    distances = np.empty((len(patients), len(patients)), np.float32)
    for start in range(0, len(patients), PATIENTS_AT_A_TIME):
        progress(start, len(patients))
        some = slice(start, min(start + PATIENTS_AT_A_TIME, len(patients)))
        of_some = [images[a:b] for a, b in zip(first[some], last[some], strict=True)]
        starts = np.cumsum([0, *map(len, of_some[:-1])])
        rows[some] = unit_rows(group_means(index.raw_embeddings(np.concatenate(of_some)), starts))
        distances[some, : some.stop] = mean_cosine_distance(rows[some], rows[: some.stop])
        distances[: some.stop, some] = distances[some, : some.stop].T
    np.fill_diagonal(distances, 0)
    photos = int((last - first).sum())
    return Controls(patients, disorders, rows, distances, images[first], photos, len(np.unique(patient[~single])))


def matching_controls(
    controls: Controls,
    index: GalleryIndex,
    images_of_member: Sequence[Sequence[str]],
    facts_of_image: Mapping[str, ImageFacts],
) -> tuple[Bools, int]:
    """Which controls have a member's sex and age group (members, controls), and how many members have both known.

    What is not known of a member is not asked for. Where too few suit, the age is given up, then the sex.
    """
    roster = index.roster
    images_of: list[list[str]] = [[] for _ in roster.patient_ids]
    for image_id, patient in zip(roster.image_ids, roster.patient_of_image.tolist(), strict=True):
        images_of[patient].append(image_id)
    known = [_facts(images_of[patient], facts_of_image) for patient in controls.patients.tolist()]
    of_control = {name: np.array([tell(facts) or "" for facts in known]) for name, tell in FACTS.items()}
    least, both = max(FEWEST_THAT_SUIT, len(images_of_member)), 0
    suits = np.ones((len(images_of_member), len(known)), dtype=np.bool_)
    for member, image_ids in enumerate(images_of_member):
        facts = _facts(image_ids, facts_of_image)
        asked = 0
        for name, tell in FACTS.items():
            value = tell(facts)
            fewer = suits[member] & (of_control[name] == value)
            if value is not None and fewer.sum() >= least:
                suits[member], asked = fewer, asked + 1
        both += asked == len(FACTS)
    return suits, both


def _facts(image_ids: Sequence[str], facts_of_image: Mapping[str, ImageFacts]) -> ImageFacts:
    """Of a patient: the sex of the first photo that tells one, the mean age."""
    known = [facts_of_image[image_id] for image_id in image_ids if image_id in facts_of_image]
    ages = [each.age_years for each in known if each.age_years is not None]
    sex = next((each.sex for each in known if each.sex), None)
    return ImageFacts(sum(ages) / len(ages) if ages else None, sex)

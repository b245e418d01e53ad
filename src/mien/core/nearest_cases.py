"""The gallery patients of a disorder that look most alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.embeddings import mean_cosine_distance
from mien.core.evidence import RankedDisorder, float32_error, pair_distances
from mien.core.index import GalleryIndex

CASES = 3  # nearest patients of a disorder that are named
IMAGES_PER_BLOCK = 4096


class Case(NamedTuple):
    """A gallery patient, by the photo that comes nearest to the query."""

    patient_id: str
    image_id: str
    distance: float


def nearest_cases(
    index: GalleryIndex, rows: Float32s, own: Collection[str], disorder_ids: Sequence[str]
) -> list[list[Case]]:
    """The nearest patients of each disorder, without the query's own: nearest to any of its unit rows."""
    own_patients = [index.roster.patient_of_id[who] for who in own if who in index.roster.patient_of_id]
    return [_nearest_cases(index, rows, own_patients, disorder_id) for disorder_id in disorder_ids]


def _nearest_cases(index: GalleryIndex, rows: Float32s, own_patients: list[int], disorder_id: str) -> list[Case]:
    roster = index.roster
    if disorder_id not in roster.disorder_of_id:
        return []
    images = roster.images_with(roster.disorder_of_id[disorder_id])
    if own_patients:
        images = images[~np.isin(roster.patient_of_image[images], own_patients)]
    patients, first_image = np.unique(roster.patient_of_image[images], return_index=True)
    first_look = _first_look(index, rows, images)
    if len(patients) > CASES:
        of_patients = np.minimum.reduceat(first_look, first_image)
        bound = np.partition(of_patients, CASES - 1)[CASES - 1] + float32_error(rows.shape[1])
        images = images[first_look <= bound]
    distances = _pair_distances(rows, index.image_rows[images])
    nearest: dict[int, Case] = {}
    for place in np.argsort(distances, kind="stable").tolist():  # stable: ties go to the first by (patient, image)
        patient = int(roster.patient_of_image[images[place]])
        case = Case(roster.patient_ids[patient], roster.image_ids[images[place]], float(distances[place]))
        nearest.setdefault(patient, case)
        if len(nearest) == CASES:
            break
    return list(nearest.values())


def _first_look(index: GalleryIndex, rows: Float32s, images: Ints) -> Floats:
    if not len(images):
        return np.empty(0, np.float32)
    together = bool((np.diff(images) == 1).all())  # mostly: no copy then
    blocks = [images[start : start + IMAGES_PER_BLOCK] for start in range(0, len(images), IMAGES_PER_BLOCK)]
    looks = [
        mean_cosine_distance(rows, index.image_rows[block[0] : block[-1] + 1] if together else index.image_rows[block])
        for block in blocks
    ]
    nearest: Floats = np.concatenate([look.min(axis=0) for look in looks])
    return nearest


def _pair_distances(rows: Float32s, others: Float32s) -> Float64s:
    nearest: Float64s = np.min([pair_distances(row, others) for row in rows], axis=0)
    return nearest


def cases_of(line: RankedDisorder, nearest: Sequence[Case]) -> tuple[Case, ...]:
    """The cases of a ranked disorder, the nearest of them as the ranking names it: ties are settled there."""
    # the nearest of all is as near as it: where more tie than are named, it may not be among them
    first = Case(line.nearest_patient_id, line.nearest_image_id, nearest[0].distance)
    others = [case for case in nearest if case.patient_id != first.patient_id]
    return first, *others[: CASES - 1]

"""A map of a cohort among the known disorders that are near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mien.core.arrays import Float32s
from mien.core.roster import Roster
from mien.evaluation.cohort_controls import Controls
from mien.evaluation.cohort_rows import MapPoint

MOST_DISORDERS = 10
MOST_PATIENTS = 25  # of a disorder


def cohort_map(
    roster: Roster,
    controls: Controls,
    rows_of_cohort: Mapping[tuple[str, str | None], Float32s],
    near: Sequence[str],
    *,
    rng: np.random.Generator,
) -> list[MapPoint]:
    """Gallery patients of the nearest disorders, then those of the cohort, by id and group.

    The axes are the two principal ones of these disorders' averages. The cohort has no part in them: axes fitted to its
    groups would show any group apart.
    """
    present = np.unique(controls.disorder_of_patient).tolist()
    wanted = [place for place in (roster.disorder_of_id[each] for each in near) if place in present]
    places = list(dict.fromkeys([*wanted, *present]))[:MOST_DISORDERS]
    patients_of = [np.flatnonzero(controls.disorder_of_patient == place) for place in places]
    averages = np.stack([controls.rows[patients].mean(axis=0, dtype=np.float64) for patients in patients_of])
    middle = averages.mean(axis=0)
    axes = np.linalg.svd(averages - middle, full_matrices=False)[2][:2].T
    points = []
    for place, patients in zip(places, patients_of, strict=True):
        disorder = roster.disorders[place]
        for patient in rng.permutation(patients)[:MOST_PATIENTS].tolist():
            x, y = ((controls.rows[patient] - middle) @ axes).tolist()
            points.append(MapPoint(None, None, disorder.disorder_id, disorder.name, x, y))
    for (patient_id, group), row in rows_of_cohort.items():
        points.append(MapPoint(patient_id, group, None, None, *((row - middle) @ axes).tolist()))
    return points

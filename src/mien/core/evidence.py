"""What an answer consists of: distances that do not depend on the company a query is in, order, evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.cohort import Query
from mien.core.fusion import fuse_distances
from mien.core.roster import Disorder


class RankedDisorder(NamedTuple):
    """One line of a ranking and its evidence.

    Where several photos of the query are compared one by one (fusion `distance`), the two parts are means over
    the photos, and the nearest image is the one that came closest to any of them.
    """

    rank: int
    disorder_id: str
    disorder_name: str | None
    omim: str | None
    distance: float
    nearest_distance: float
    centroid_distance: float  # to the image-weighted centroid where that is the score, else to the patient-weighted one
    nearest_image_id: str
    nearest_patient_id: str
    gallery_images: int
    gallery_patients: int


class Ranking(NamedTuple):
    """The answer to one query; `excluded_gallery_patients` are the query's own patient, left out of the gallery."""

    patient_id: str | None
    image_ids: tuple[str, ...]
    excluded_gallery_patients: tuple[str, ...]
    disorders: tuple[RankedDisorder, ...]


class Known(NamedTuple):
    """A query, and the gallery patients that are its own."""

    query: Query
    own_patients: tuple[str, ...]  # ids, sorted


class Entries(NamedTuple):
    """One disorder for one probe each, in the order (probe, disorder), with all that a ranking says of it."""

    probe: Ints
    disorder: Ints
    distance: Float64s  # by the method's score
    nearest: Float64s
    centroid: Float64s
    case: Ints  # the nearest image
    images: Ints  # of the disorder, without excluded patients
    patients: Ints


def float32_error(width: int) -> float:
    """The most by which a difference of two distances can change between the looks: four sums of `width` products."""
    return 4 * (width + 8) * 2.0**-24


def pair_distances(row: Float32s, others: Floats) -> Float64s:
    """Distances one pair at a time, so that each depends on its two rows alone: equal rows give equal distances."""
    products: Float64s = np.vecdot(others, row).astype(np.float64)
    return np.maximum(1 - products, 0)  # rounding must not make a photo closer than itself


def ranked(
    entries: Entries,
    query_of_probe: Ints,
    disorders: Sequence[Disorder],
    who: Callable[[int], tuple[str, str]],
    top: int | None,
) -> Iterator[tuple[RankedDisorder, ...]]:
    """Orders each query's entries by (distance, disorder id) and attaches the evidence.

    `who` is on a case's image: patient id and image id. Each query has an entry at least.
    """
    distances = np.stack([entries.distance, entries.nearest, entries.centroid], axis=1)
    cell_of_entry = query_of_probe[entries.probe] * len(disorders) + entries.disorder
    by_cell = np.argsort(cell_of_entry, kind="stable")
    cells, first_entry = np.unique(cell_of_entry[by_cell], return_index=True)  # one per query and disorder
    fused = fuse_distances(distances[by_cell], first_entry)
    closest = np.lexsort((entries.nearest, cell_of_entry))[first_entry]  # of each cell's entries

    query = cells // len(disorders)
    order = np.lexsort((cells, fused[:, 0], query))
    place = np.arange(len(order)) - np.searchsorted(query, query)
    order, place = (order, place) if top is None else (order[place < top], place[place < top])
    shown = closest[order]
    lines = zip(
        (place + 1).tolist(),
        (cells[order] % len(disorders)).tolist(),
        *fused[order].T.tolist(),
        entries.case[shown].tolist(),
        entries.images[shown].tolist(),
        entries.patients[shown].tolist(),
        strict=True,
    )

    def line(
        rank: int, place: int, distance: float, nearest: float, centroid: float, case: int, images: int, patients: int
    ) -> RankedDisorder:
        patient_id, image_id = who(case)
        return RankedDisorder(
            rank, *disorders[place], distance, nearest, centroid, image_id, patient_id, images, patients
        )

    made = (line(*fields) for fields in lines)
    for count in np.bincount(query[order]).tolist():
        yield tuple(islice(made, count))

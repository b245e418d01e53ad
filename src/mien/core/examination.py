"""A query seen from all sides: what each photo says alone, what the others say without it, who looks most alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Floats
from mien.core.cohort import Query
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.errors import InvalidMethodError
from mien.core.evidence import RankedDisorder, pair_distances
from mien.core.fusion import probe_embeddings
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method
from mien.core.ranking import HasIndex, Known, Ranking, own_patients, rank_known

CASES = 3  # nearest patients of a disorder that are named


class Standing(NamedTuple):
    """Where a disorder stands in a list made of other photos, and its distances there."""

    rank: int
    distance: float
    nearest_distance: float
    centroid_distance: float


class Case(NamedTuple):
    """A gallery patient, by the photo that comes nearest to the query."""

    patient_id: str
    image_id: str
    distance: float


class DisorderEvidence(NamedTuple):
    """What stands behind one line of a ranking."""

    nearest_cases: tuple[Case, ...]
    alone: tuple[Standing, ...]  # by each photo of the query alone
    without: tuple[Standing, ...]  # by all photos but this one; none for a query of one photo


class Examination(NamedTuple):
    """A ranking, and the evidence of each of its disorders."""

    ranking: Ranking
    evidence: tuple[DisorderEvidence, ...]


def examine(gallery: HasIndex, query: Query, method: Method = FULL, *, top: int | None = 10) -> Examination:
    """Ranks a query by all of its photos, by each alone and by all but each.

    The query's own patient is looked for once, with all photos, and left out of every list.

    >>> from mien import Cohort
    >>> gallery = Cohort.of(np.eye(3), image_ids=["1", "2", "3"], patient_ids=["p", "q", "r"],
    ...                     disorder_ids=["Noonan", "Kabuki", "Kabuki"])
    >>> answer = examine(gallery, Query.of(np.array([[0.9, 0.1, 0.0], [0.0, 1.0, 1.0]])))
    >>> [line.disorder_id for line in answer.ranking.disorders]
    ['Kabuki', 'Noonan']
    >>> [standing.rank for standing in answer.evidence[0].alone]  # the first photo says Noonan
    [2, 1]
    """
    if method.fusion == "none":
        raise InvalidMethodError("with fusion none each photo is a query of its own: examine them one by one")
    index = gallery.index
    query.encodings.encoder.require_same(index.encoder, here="the query", there="the gallery")
    own = own_patients(index, query)
    photos = len(query.encodings.image_ids)
    lists = [query, *query.per_image(), *(_without(query, photo) for photo in range(photos) if photos > 1)]
    whole, *others = rank_known(index, [Known(each, own) for each in lists], method, None)
    ranking = whole._replace(disorders=whole.disorders[:top])
    standings = [{line.disorder_id: _standing(line) for line in other.disorders} for other in others]
    evidence = tuple(
        DisorderEvidence(
            cases,
            alone=tuple(standing[line.disorder_id] for standing in standings[:photos]),
            without=tuple(standing[line.disorder_id] for standing in standings[photos:]),
        )
        for line, cases in zip(ranking.disorders, _nearest_cases(index, query, own, method, ranking), strict=True)
    )
    return Examination(ranking, evidence)


def _without(query: Query, photo: int) -> Query:
    others = [other for other in range(len(query.encodings.image_ids)) if other != photo]
    return replace(query, encodings=query.encodings.only(others))


def _standing(line: RankedDisorder) -> Standing:
    return Standing(line.rank, line.distance, line.nearest_distance, line.centroid_distance)


def _nearest_cases(
    index: GalleryIndex, query: Query, own: Sequence[int], method: Method, ranking: Ranking
) -> Iterator[tuple[Case, ...]]:
    """The nearest patients of each ranked disorder; where photos are compared one by one, nearest to any of them."""
    roster = index.roster
    rows = unit_rows(probe_embeddings(query.encodings.embeddings, method.fusion)).astype(np.float32)
    first_look = mean_cosine_distance(rows, index.image_rows).min(axis=0)
    first_look[np.isin(roster.patient_of_image, own)] = np.inf
    for line in ranking.disorders:
        images = roster.images_with(roster.disorder_of_id[line.disorder_id])
        nearest = images[np.argsort(first_look[images], kind="stable")].tolist()
        first = roster.image_of_id[line.nearest_image_id]  # ties are settled there
        image_of_patient = {roster.patient_of_image[first]: first}
        for image in nearest:
            if len(image_of_patient) == CASES or first_look[image] == np.inf:
                break
            image_of_patient.setdefault(roster.patient_of_image[image], image)
        cases = [
            Case(roster.patient_ids[patient], roster.image_ids[image], _distance(rows, index.image_rows[image]))
            for patient, image in image_of_patient.items()
        ]
        yield (cases[0], *sorted(cases[1:], key=lambda case: case.distance))


def _distance(rows: Floats, image_row: Floats) -> float:
    return min(float(pair_distances(row, image_row[np.newaxis])[0]) for row in rows)

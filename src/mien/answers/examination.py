"""A query seen from all sides: what each photo says alone, what the others say without it, who looks most alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from mien.answers.calibration import COVERAGE
from mien.answers.ranking import AnyGallery, RankedDisorder, Ranking, rank_asked, rank_plainly, searcher_of
from mien.core.cohort import Query
from mien.core.gallery_parts import PATIENTS_NAMED, NearestPatient
from mien.core.method import FULL, Method
from mien.core.searcher import AskedQuery, probe_rows
from mien.errors import InvalidMethodError


class Standing(NamedTuple):
    """Where a disorder stands in a list made of other photos, and its distances there."""

    rank: int
    distance: float
    nearest_distance: float
    centroid_distance: float


class DisorderEvidence(NamedTuple):
    """What stands behind one line of a ranking."""

    nearest_cases: tuple[NearestPatient, ...]
    alone: tuple[Standing, ...]  # by each photo of the query alone
    without: tuple[Standing, ...]  # by all photos but this one; none for a query of one photo


class Examination(NamedTuple):
    """A ranking, and the evidence of each of its disorders."""

    ranking: Ranking
    evidence: tuple[DisorderEvidence, ...]


def examine(
    gallery: AnyGallery, query: Query, method: Method = FULL, *, top: int | None = 10, coverage: float = COVERAGE
) -> Examination:
    """Ranks a query by all of its photos, by each alone and by all but each.

    The query's own patient is looked for once, with all photos, and left out of every list.

    >>> import numpy as np
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
    searcher = searcher_of(gallery)
    query.encodings.encoder.require_same(searcher.encoder, here="the query", there="the gallery")
    [own] = searcher.own_patients([query])
    photos = len(query.encodings.image_ids)
    [ranking] = rank_asked(gallery, searcher, [AskedQuery(query, own)], method, top, coverage=coverage)
    lists = [*query.per_image(), *(_without(query, photo) for photo in range(photos) if photos > 1)]
    others = rank_plainly(searcher, [AskedQuery(each, own) for each in lists], method, None)
    standings = [{line.disorder_id: _standing(line) for line in other.disorders} for other in others]
    rows, _ = probe_rows([query], method.fusion)
    nearest = searcher.nearest_patients(rows, own, [line.disorder_id for line in ranking.disorders])
    evidence = tuple(
        DisorderEvidence(
            patients_of(line, of_line),
            alone=tuple(standing[line.disorder_id] for standing in standings[:photos]),
            without=tuple(standing[line.disorder_id] for standing in standings[photos:]),
        )
        for line, of_line in zip(ranking.disorders, nearest, strict=True)
    )
    return Examination(ranking, evidence)


def _without(query: Query, photo: int) -> Query:
    others = [other for other in range(len(query.encodings.image_ids)) if other != photo]
    return replace(query, encodings=query.encodings.only(others))


def _standing(line: RankedDisorder) -> Standing:
    return Standing(line.rank, line.distance, line.nearest_distance, line.centroid_distance)


def patients_of(line: RankedDisorder, nearest: Sequence[NearestPatient]) -> tuple[NearestPatient, ...]:
    """The nearest patients of a ranked disorder, the first as the ranking names it: ties are settled there."""
    # the nearest of all is as near as it: where more tie than are named, it may not be among them
    first = NearestPatient(line.nearest_patient_id, line.nearest_image_id, nearest[0].distance)
    others = [each for each in nearest if each.patient_id != first.patient_id]
    return first, *others[: PATIENTS_NAMED - 1]

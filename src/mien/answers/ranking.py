"""From queries to ranked disorders with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from mien.answers.answer import CalibrationFacts, PredictionSet, Ranking, ranked
from mien.answers.calibration import COVERAGE, Calibration, Sureness
from mien.core.cohort import Query
from mien.core.gallery_parts import LocalParts
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method
from mien.core.searcher import AskedQuery, Searcher
from mien.errors import InvalidCalibrationError, InvalidMethodError, WrongArgumentError, require


class HasIndex(Protocol):
    """Anything in one part: a cohort, a stored gallery."""

    @property
    def index(self) -> GalleryIndex:
        """The unit rows."""


class HasSearcher(Protocol):
    """Anything in several parts."""

    @property
    def searcher(self) -> Searcher:
        """What asks the parts."""


AnyGallery = HasIndex | HasSearcher | GalleryIndex | Searcher


def searcher_of(gallery: AnyGallery) -> Searcher:
    """What ranks queries against a gallery."""
    found = gallery if isinstance(gallery, GalleryIndex | Searcher) else getattr(gallery, "searcher", None)
    found = found or getattr(gallery, "index", None)
    if not isinstance(found, GalleryIndex | Searcher):
        raise WrongArgumentError(f"{type(gallery).__name__} is no gallery: pass Gallery.open(directory) or a Cohort")
    return found if isinstance(found, Searcher) else Searcher.of(LocalParts([found]))


def as_queries(queries: Query | Iterable[Query]) -> list[Query]:
    """One query or several as a list; anything else is refused."""
    if isinstance(queries, Iterable):
        asked, name = list(queries), f"query, in a {type(queries).__name__}"
    else:
        asked, name = [queries], "query"
    for query in asked:
        require(query, Query, name, "Query.of(embeddings), or a list of them")
    return asked


def rank(
    gallery: AnyGallery,
    queries: Query | Iterable[Query],
    method: Method = FULL,
    *,
    top: int | None = 10,
    calibration: Calibration | None = None,
    coverage: float = COVERAGE,
) -> list[Ranking]:
    """Ranks the gallery's disorders for each query by (distance, disorder id), the closest first.

    With fusion `none` every image is a query of its own. `top=None` ranks all disorders. With a calibration, which a
    stored gallery may bring along, each answer says how sure it is; `coverage` is that of the prediction set.

    >>> import numpy as np
    >>> from mien import Cohort, Query
    >>> gallery = Cohort.of(np.eye(3), image_ids=["1", "2", "3"], patient_ids=["p", "q", "r"],
    ...                     disorder_ids=["Noonan", "Kabuki", "Kabuki"])
    >>> [answer] = rank(gallery, Query.of(np.array([[0.9, 0.1, 0.0], [0.8, 0.0, 0.1]])))
    >>> [(line.disorder_id, round(line.distance, 3)) for line in answer.disorders]
    [('Noonan', 0.003), ('Kabuki', 0.923)]
    """
    searcher = searcher_of(gallery)
    asked = as_queries(queries)
    require(method, Method, "method", "Method(...), BASELINE or FULL")
    require(top, int | None, "top", "how many disorders to list, or None for all")
    require(calibration, Calibration | None, "calibration", "what mien.calibrate(gallery) gave")
    if top is not None and top < 1:
        raise InvalidMethodError(f"top is {top}: rank at least one disorder")
    for encoder in {query.encodings.encoder for query in asked}:
        encoder.require_same(searcher.encoder, here="the query", there="the gallery")
    known = searcher.asked(asked, method.fusion)
    return rank_asked(gallery, searcher, known, method, top, calibration=calibration, coverage=coverage)


def rank_asked(
    gallery: AnyGallery,
    searcher: Searcher,
    queries: Sequence[AskedQuery],
    method: Method,
    top: int | None,
    *,
    calibration: Calibration | None = None,
    coverage: float = COVERAGE,
) -> list[Ranking]:
    """Ranks queries of whom it is known who they are in the gallery, with its calibration if it has one."""
    stored = getattr(gallery, "calibration_for", lambda _method: None)
    chosen = calibration or stored(method)
    if chosen is None:
        return rank_plainly(searcher, queries, method, top)
    chosen.require(method, searcher.encoder)
    stale = getattr(gallery, "fingerprint", "") != chosen.fingerprint
    if stale and calibration:
        raise InvalidCalibrationError(
            "the calibration is of another gallery, or another generation: calibrate this one"
        )
    every = searcher.gallery.disorders
    ids = [disorder.disorder_id for disorder in every]
    rankings = []
    for found in searcher.search(queries, method, top, estimate=True):
        assert found.estimates is not None
        of_all = found.estimates.distances(method), found.estimates.gallery_patients, found.estimates.photos
        sure = chosen.sureness(*of_all, ids, coverage)
        for ranking, of_query in zip(ranked(found, every, top), sure, strict=True):
            completed = _with_sureness(ranking, of_query, searcher.gallery.place_of_disorder)
            first = completed.disorders[0].probability or 0.0
            rankings.append(completed._replace(calibration=_facts(chosen, first, stale=stale)))
    return rankings


def rank_plainly(searcher: Searcher, queries: Sequence[AskedQuery], method: Method, top: int | None) -> list[Ranking]:
    """Ranks queries of whom it is known who they are in the gallery, and does not say how sure it is."""
    every = searcher.gallery.disorders
    return [ranking for found in searcher.search(queries, method, top) for ranking in ranked(found, every, top)]


def _with_sureness(ranking: Ranking, sure: Sureness, place_of_disorder: Mapping[str, int]) -> Ranking:
    places = [place_of_disorder[line.disorder_id] for line in ranking.disorders]
    ratios, probabilities = sure.log10_ratios[places].tolist(), sure.probabilities[places].tolist()
    lines = tuple(
        line._replace(probability=probability, log10_likelihood_ratio=ratio)
        for line, probability, ratio in zip(ranking.disorders, probabilities, ratios, strict=True)
    )
    ids, most_probable = list(place_of_disorder), np.argsort(-sure.probabilities, kind="stable")
    chosen = tuple(ids[place] for place in most_probable.tolist() if sure.in_set[place])
    return ranking._replace(
        disorders=lines, none_of_these=sure.none_of_these, prediction_set=PredictionSet(sure.coverage, chosen)
    )


def _facts(calibration: Calibration, first: float, *, stale: bool) -> CalibrationFacts:
    """What stands behind an answer whose first disorder is so probable."""
    alike = next(each for each in calibration.reliability if first <= each.most)
    return CalibrationFacts(
        patients=calibration.patients,
        generation=calibration.generation,
        stale=stale,
        prior_of_none=calibration.prior_of_none,
        largest_log10_likelihood_ratio=calibration.largest_log10_ratio,
        patients_with_such_an_answer=alike.patients,
        of_them_right=alike.right,
        caution=calibration.caution,
    )

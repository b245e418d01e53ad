"""From queries to ranked disorders with their evidence: the answer, how it is made, how sure it is in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from mien.answers.calibration import COVERAGE, Calibration, Sureness
from mien.core.cohort import Query
from mien.core.embeddings import Encoder
from mien.core.gallery_parts import LocalParts
from mien.core.index import GalleryIndex
from mien.core.method import FULL, Method, fuse_distances
from mien.core.roster import Disorder, places_in_runs
from mien.core.searcher import AskedQuery, Found, Searcher
from mien.errors import InvalidCalibrationError, InvalidMethodError, WrongArgumentError, require
from mien.extras import naming_the_missing_extra

NOTICE = "mien supports a clinician's judgement and never gives a diagnosis."
CAVEAT = "Sex, age and ancestry shape a face, too: patients who share them can look alike without sharing a disorder."
NEVER_SAW_SYNDROMES = "The encoder was trained to tell people apart and has never seen a syndrome: expect little of it."
NOT_ALWAYS = (
    *("probability", "log10_likelihood_ratio", "none_of_these", "prediction_set", "calibration"),
    *("genes", "not_described"),
)
FEWEST_TO_SAY = 10  # left-out patients with such an answer
LIKELY_NONE = 0.5
CLEAR = 0.2  # with a smaller probability, the first disorder is no clear match


def notice_for(encoder: Encoder | None) -> str:
    """What must be said beside every answer."""
    unfit = encoder is not None and encoder.trained_on_syndromes is False
    return " ".join([NOTICE, CAVEAT, *[NEVER_SAW_SYNDROMES] * unfit])


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
    probability: float | None = None  # this and the next: where there is a calibration
    log10_likelihood_ratio: float | None = None


class RankedGene(NamedTuple):
    """One line of a ranking by gene: the gene's nearest disorder, and the evidence for that one."""

    rank: int  # the same for all that are as far away
    gene_symbol: str | None  # None: a disorder without a gene
    entrez_id: str | None
    hgnc_id: str | None
    ensembl_id: str | None
    distance: float
    disorder_id: str
    disorder_name: str | None
    nearest_distance: float
    centroid_distance: float
    nearest_image_id: str
    nearest_patient_id: str
    gallery_images: int  # of the nearest disorder
    gallery_patients: int
    disorder_ids: tuple[str, ...]  # all disorders of this gene
    probability: float | None = None  # that it is one of them
    log10_likelihood_ratio: float | None = None


class PredictionSet(NamedTuple):
    """The shortest list that holds the true disorder of so many patients, where the gallery has it."""

    coverage: float
    disorder_ids: tuple[str, ...]  # the most probable first


class CalibrationFacts(NamedTuple):
    """What stands behind the probabilities of an answer."""

    patients: int
    generation: int  # of the gallery when it was made
    stale: bool  # the gallery has changed since
    prior_of_none: float
    largest_log10_likelihood_ratio: float  # where ratios are capped
    patients_with_such_an_answer: int  # left-out ones, whose first disorder was about as probable
    of_them_right: int
    caution: str


class Ranking(NamedTuple):
    """The answer to one query; `excluded_gallery_patients` are the query's own patient, left out of the gallery."""

    patient_id: str | None
    image_ids: tuple[str, ...]
    excluded_gallery_patients: tuple[str, ...]
    disorders: tuple[RankedDisorder, ...]
    none_of_these: float | None = None  # probability that the disorder is not in the gallery
    prediction_set: PredictionSet | None = None
    calibration: CalibrationFacts | None = None
    genes: tuple[RankedGene, ...] | None = None  # this and the next: where genes were asked for
    not_described: tuple[str, ...] | None = None  # disorders of which no table says what genes they have

    def __repr__(self) -> str:
        first = f", first {self.disorders[0].disorder_id}" if self.disorders else ""
        return f"<Ranking of {len(self.disorders):,} disorders by {len(self.image_ids):,} images{first}>"

    def to_arrow(self) -> Any:
        """The lines as a pyarrow Table: genes if these were asked for, else disorders."""
        import pyarrow as pa  # noqa: PLC0415 heavy

        lines = self.disorders if self.genes is None else self.genes
        return pa.Table.from_pylist([without_nothing(line) for line in lines])

    @naming_the_missing_extra("Ranking.to_pandas")
    def to_pandas(self) -> Any:
        """The lines as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """The lines as a notebook shows them."""
        lines = [("rank", "disorder", "distance", "nearest patient", "gallery patients")]
        for line in self.disorders:
            name, distance = line.disorder_name or line.disorder_id, f"{line.distance:.3f}"
            lines.append((str(line.rank), name, distance, line.nearest_patient_id, str(line.gallery_patients)))
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table><p>{NOTICE}</p>"


def without_nothing(of_answer: Ranking | RankedDisorder | RankedGene) -> dict[str, Any]:
    """Its fields by name, without those of a calibration and of genes where there is none."""
    return {name: value for name, value in of_answer._asdict().items() if value is not None or name not in NOT_ALWAYS}


def ranked(found: Found, disorders: Sequence[Disorder], top: int | None) -> Iterator[Ranking]:
    """Orders each query's disorders by (distance, disorder id), and attaches the evidence."""
    evidence = found.evidence
    distances = np.array([found.distance, evidence.nearest, evidence.centroid]).T
    cell_of_pair = found.query * len(disorders) + found.disorder
    by_cell = np.argsort(cell_of_pair, kind="stable")
    cells, first_pair = np.unique(cell_of_pair[by_cell], return_index=True)  # one per query and disorder
    fused = fuse_distances(distances[by_cell], first_pair)
    closest = np.lexsort((evidence.nearest, cell_of_pair))[first_pair]  # of each cell's pairs

    query = cells // len(disorders)
    order = np.lexsort((cells, fused[:, 0], query))
    place = places_in_runs(query)
    order, place = (order, place) if top is None else (order[place < top], place[place < top])
    shown = closest[order]
    lines = zip(
        (place + 1).tolist(),
        [disorders[place] for place in (cells[order] % len(disorders)).tolist()],
        map(tuple, fused[order].tolist()),
        [found.who[pair] for pair in shown.tolist()],
        evidence.gallery_images[shown].tolist(),
        evidence.gallery_patients[shown].tolist(),
        strict=True,
    )
    made = (
        RankedDisorder(rank, *names, *distances, image_id, patient_id, images, patients)  # type: ignore[call-arg]
        for rank, names, distances, (patient_id, image_id), images, patients in lines
    )
    for (asked, own), count in zip(found.asked, np.bincount(query[order]).tolist(), strict=True):
        yield Ranking(asked.patient_id, asked.encodings.image_ids, tuple(own), tuple(islice(made, count)))


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


def answer_in_words(ranking: Ranking, *, coarse: bool = False) -> list[str]:
    """Says what an answer is and how sure it is, the most important sentence first; a coarse answer only what it is."""
    facts, none, chosen = ranking.calibration, ranking.none_of_these, ranking.prediction_set
    first = ranking.disorders[0]
    name, probability = first.disorder_name or first.disorder_id, percent(first.probability or 0)
    if coarse:
        return [f"Most like {name}.", "This service does not say how sure that is."]
    if facts is None or none is None or chosen is None:
        unknown = "How sure that is, is not known: whoever runs this gallery can find out with 'mien calibrate'."
        return [f"Most like {name}.", unknown]
    if none > LIKELY_NONE:
        lines = [
            f"Possibly none of these: with {percent(none)}, the disorder is not in this gallery.",
            f"Its most similar one is {name}, with {probability}. {such_answers(facts)}",
        ]
    else:
        clear = (first.probability or 0) >= CLEAR
        match = f"Most like {name}, with" if clear else f"No clear match: the closest, {name}, has"
        lines = [
            f"{match} a probability of {probability}.",
            f"{such_answers(facts)} That the disorder is not in this gallery: {percent(none)}.",
        ]
    likeliest = max(ranking.disorders, key=lambda line: line.probability or 0)
    if percent(likeliest.probability or 0) != probability:
        other = likeliest.disorder_name or likeliest.disorder_id
        lines.append(f"More probable, for so many patients, is {other} at rank {likeliest.rank}.")
    count = len(chosen.disorder_ids)
    of_set = f"{count} disorder{'s' * (count > 1)}" if count else "no disorder: none is close enough"
    share = percent(chosen.coverage)
    lines.append(
        f"The {share} list, which holds the true disorder for {share} of patients whose disorder is in the gallery,"
        f" has {of_set}."
    )
    if facts.stale:
        lines.append(
            f"This was learned from generation {facts.generation} of the gallery, which has changed since: run"
            " 'mien calibrate' again."
        )
    return [*lines, facts.caution] if facts.caution else lines


def such_answers(facts: CalibrationFacts) -> str:
    """How often an answer as sure as this one was right.

    >>> such_answers(CalibrationFacts(90, 1, False, 0.05, 2.0, 77, 54, ""))
    'Of 77 patients of this gallery who were left out and got an answer as sure as this, rank 1 was right for 7 in 10.'
    """
    patients, right = facts.patients_with_such_an_answer, facts.of_them_right
    if patients < FEWEST_TO_SAY:
        return f"Only {patients} left-out patients got an answer as sure as this: too few to say how often it is right."
    share = round(10 * right / patients)
    words = {0: "hardly any", 10: "nearly all"}.get(share, f"{share} in 10")
    left_out = f"Of {patients:,} patients of this gallery who were left out and got an answer as sure as this"
    return f"{left_out}, rank 1 was right for {words}."


def percent(share: float) -> str:
    """A probability for people.

    >>> percent(0.714), percent(0.004), percent(0.999)
    ('71 %', 'less than 1 %', 'more than 99 %')
    """
    if share < 0.01:
        return "less than 1 %"
    return "more than 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def calibration_in_words(calibration: Calibration) -> list[str]:
    """What a calibration was learned from, and what it is worth."""
    own = calibration.patients - calibration.from_cohort
    sources = [f"{own:,} left-out gallery patients"] * (own > 0)
    sources += [f"{calibration.from_cohort:,} patients of the cohort"] * (calibration.from_cohort > 0)
    priors = "given for each disorder" if calibration.prior else "all disorders as likely"
    lines = [
        f"Learned from {' and '.join(sources)}, each asked about with and without their disorder in the gallery.",
        f"Prior of none of these: {percent(calibration.prior_of_none)} ({priors}).",
        f"Likelihood ratios are capped at {10**calibration.largest_log10_ratio:,.0f}, the number of patients.",
        "How often the first disorder was right, of patients whom the model had not seen:",
    ]
    before = 0.0
    for each in calibration.reliability:
        if each.patients:
            share = f"{each.right} of {each.patients} ({percent(each.right / each.patients)})"
            lines.append(f"  said {100 * before:.0f} to {100 * each.most:.0f} %: {share}")
        before = each.most
    return [*lines, calibration.caution] if calibration.caution else lines

"""Galleries in parts: the same answers as in one piece."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import chain, cycle, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien import BASELINE, Cohort, Encoder, Encodings, Label, Query, rank
from mien.answers.examination import examine
from mien.core import index as index_module
from mien.core.gallery_parts import LocalParts, scan_part
from mien.core.index import RoundedRows
from mien.core.searcher import FEW_PROBES, SOME_LEFT, Searcher
from mien.errors import EmptyGalleryError, EncoderMismatchError, InvalidCohortError

import oracle
from cohorts import as_plain_gallery, random_cohort, random_query_arrays, with_views
from scores import ALL_METHODS


def dealt(cohort, rng, parts):
    """The cohort's patients dealt over so many galleries, none of them empty."""
    patients = cohort.roster.patient_ids
    part_of = {patients[place]: number % parts for number, place in enumerate(rng.permutation(len(patients)))}
    labels = cohort.roster.labels()
    names = {disorder.disorder_id: disorder for disorder in cohort.roster.disorders}
    return [
        Cohort.join(cohort.encodings, [label for label in labels if part_of[label.patient_id] == part], names)
        for part in range(min(parts, len(patients)))
    ]


def searcher_of(cohorts):
    return Searcher.of(LocalParts([cohort.index for cohort in cohorts]))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    representations=st.integers(1, 3),
    dimensions=st.sampled_from([2, 5]),
    disorders=st.integers(1, 9),
    parts=st.integers(1, 4),
    rows_per_block=st.integers(1, 9),
    top=st.sampled_from([None, 1, 3]),
    whole_numbers=st.booleans(),
    alike=st.booleans(),
    some_left=st.sampled_from([0, SOME_LEFT]),
    first=st.integers(0, 2),
)
def test_parts_rank_as_one_gallery_does(
    seed, representations, dimensions, disorders, parts, rows_per_block, top, whole_numbers, alike, some_left, first
):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, representations=representations, dimensions=dimensions, disorders=disorders)
    if whole_numbers:  # ties, duplicates and embeddings that cancel out
        values = rng.integers(-1, 2, cohort.embeddings.shape)
        values[..., 0] += ~values.any(axis=2)  # of some length
        cohort = replace(cohort, encodings=Encodings.of(cohort.roster.image_ids, values))
    cohort = with_views(cohort, rng, noise=0.0 if whole_numbers else 0.2) if alike else cohort
    assert cohort.index.images.alike == ((4, dimensions) if alike else (1, 1))
    queries = [Query.of(random_query_arrays(rng, cohort, images)) for images in (1, 3)]
    own = cohort.queries()[0]  # its patient is left out
    by_photo = Query(replace(own.encodings, ids_are_file_names=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mien.core.index.BYTES_PER_BLOCK", rows_per_block * representations * dimensions)
        patch.setattr("mien.core.searcher.CENTROIDS_AT_A_TIME", 2)
        searcher = searcher_of(dealt(cohort, rng, parts))
        asked_in_turn = islice(cycle([queries, [own], [by_photo]]), first, None)  # each method, in another example
        for method, asked in zip(ALL_METHODS, asked_in_turn, strict=False):
            patch.setattr("mien.core.searcher.SOME_LEFT", some_left)
            mine = outcome(rank, searcher, asked, method, top=top)
            patch.setattr("mien.core.searcher.SOME_LEFT", math.inf)  # nobody is measured before others
            assert mine == outcome(rank, cohort, asked, method, top=top)  # to the last bit
        assert outcome(examine, searcher, by_photo, top=top) == outcome(examine, cohort, by_photo, top=top)


def outcome(answer, *asked, top):
    """An answer, or why there is none."""
    try:
        return answer(*asked, top=top)
    except (EmptyGalleryError, InvalidCohortError) as error:  # nobody else is there, or photos cancel out
        return str(error)


def test_parts_agree_with_plain_loops_where_the_own_patient_is_left_out(rng):
    cohort = random_cohort(rng, disorders=6)
    own = cohort.queries()[2]
    gallery = as_plain_gallery(cohort, without=[own.patient_id])
    photos = oracle.plain(own.encodings.embeddings)
    for parts in (1, 3):
        searcher = searcher_of(dealt(cohort, rng, parts))
        for method in (method for method in ALL_METHODS if method.fusion != "none"):
            [ranking] = rank(searcher, own, method, top=None)
            expected = oracle.ranking(photos, gallery, method)
            assert [line.disorder_id for line in ranking.disorders] == [disorder_id for _, disorder_id in expected]
            assert [line.distance for line in ranking.disorders] == pytest.approx([d for d, _ in expected], abs=1e-6)


def test_the_order_of_parts_does_not_matter(rng):
    cohort = random_cohort(rng, disorders=5)
    parts = dealt(cohort, rng, 4)
    queries = [cohort.queries()[0], Query.of(random_query_arrays(rng, cohort, 2))]
    for method in ALL_METHODS:
        assert rank(searcher_of(parts), queries, method) == rank(searcher_of(parts[::-1]), queries, method)


@pytest.mark.parametrize("limit", ["BOUNDS_AT_A_TIME", "EVIDENCE_AT_A_TIME"])
def test_a_batch_of_queries_is_asked_in_several_goes(rng, monkeypatch, limit):
    cohort = random_cohort(rng, disorders=5)
    queries = [Query.of(random_query_arrays(rng, cohort, 2)) for _ in range(7)]
    expected = rank(cohort, queries)
    searcher = searcher_of(dealt(cohort, rng, 2))
    goes = []
    monkeypatch.setattr("mien.core.searcher.scan_part", lambda *of, **how: goes.append(of) or scan_part(*of, **how))
    monkeypatch.setattr(f"mien.core.searcher.{limit}", 1)
    assert rank(searcher, queries) == expected
    assert len(goes) >= 2 * 7  # each query by itself, in two parts


def test_no_distance_of_an_answer_comes_from_the_scan(rng, monkeypatch):
    """Bounds that are far off, but right, change no answer: every printed distance was measured."""
    cohort = random_cohort(rng, disorders=30, dimensions=32)
    queries = [Query.of(random_query_arrays(rng, cohort, images)) for images in (1, 2)]
    expected = [rank(cohort, queries, method) for method in ALL_METHODS]
    measured = []

    def loose(scan):
        def loosely(*args, **named):
            lower, upper = scan(*args, **named)
            return np.stack([lower - 0.1, upper + 0.05])

        return loosely

    distances = RoundedRows.distances

    def counted(rows, places, *others):
        measured.append(len(places))
        return distances(rows, places, *others)

    monkeypatch.setattr("mien.core.gallery_parts.scan", loose(index_module.scan))
    monkeypatch.setattr("mien.core.searcher.scan", loose(index_module.scan))
    monkeypatch.setattr(RoundedRows, "distances", counted)
    for method, answers in zip(ALL_METHODS, expected, strict=True):
        measured.clear()
        found = rank(cohort, queries, method)
        assert found == answers
        assert sum(measured) >= sum(2 * len(ranking.disorders) for ranking in found)  # nearest image and centroid


def test_many_left_of_a_batch_are_scanned_finely(rng):
    """Random rows of many dimensions are all about as far away: bytes cannot tell them apart, exact rows can."""
    cohort = random_cohort(rng, disorders=60, dimensions=512, representations=4)
    queries = [Query.of(rng.standard_normal((1, 4, 512))) for _ in range(FEW_PROBES)]
    scanner = searcher_of([cohort])
    original = Searcher._scan

    def watched(self, question, method, *, fine=False, **how):
        seen.append(fine)
        return original(self, question, method, fine=fine, **how)

    for asked, scans in ((queries[:1], [False]), (queries, [False, True])):
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Searcher, "_scan", watched)
            rankings = rank(scanner, asked, BASELINE, top=3)
        assert seen == scans
        for query, ranking in zip(asked, rankings, strict=True):
            expected = oracle.ranking(oracle.plain(query.encodings.embeddings), as_plain_gallery(cohort), BASELINE)
            assert [line.disorder_id for line in ranking.disorders] == [disorder_id for _, disorder_id in expected[:3]]


def test_where_many_are_left_the_likely_ones_say_who_is_measured(rng, monkeypatch):
    """Views that are not much alike, scanned as one: bounds are wide, but what is measured first excludes most."""
    closeness = np.linspace(0.4, 0.8, 120)  # of disorders to the query, each a little closer than the one before
    rows = np.concatenate([closeness[:, np.newaxis], np.diag((1 - closeness**2) ** 0.5)], axis=1)
    ids = [str(number) for number in range(len(rows))]
    cohort = with_views(Cohort.of(rows, image_ids=ids, patient_ids=ids, disorder_ids=ids), rng, noise=0.2)
    assert cohort.index.images.alike == (4, 121)
    query = Query.of(np.eye(121)[np.newaxis, [0] * 4])
    measured, totals, answers = [], [], []
    distances = RoundedRows.distances

    def counted(rows, places, *others):
        measured.append(len(places))
        return distances(rows, places, *others)

    monkeypatch.setattr(RoundedRows, "distances", counted)
    for some_left in (math.inf, 0):
        measured.clear()
        monkeypatch.setattr("mien.core.searcher.SOME_LEFT", some_left)
        answers.append(rank(cohort, query, BASELINE, top=3))
        totals.append(sum(measured))
    assert answers[0] == answers[1]
    assert totals[1] < 0.8 * totals[0]


class WatchedRows:
    """Rows that note which of them were read together."""

    def __init__(self, rows):
        self.rows, self.shape, self.read = rows, rows.shape, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, some):
        self.read.append(np.arange(len(self))[some].tolist())
        return self.rows[some]


def test_a_large_gallery_is_scanned_in_small_blocks(rng, monkeypatch):
    cohort = random_cohort(rng, disorders=5)
    images = cohort.index.images
    codes = WatchedRows(images.codes)
    index = replace(cohort.index, images=replace(images, codes=codes))
    query = Query.of(random_query_arrays(rng, cohort, 2))
    expected = rank(cohort, query)
    monkeypatch.setattr("mien.core.index.BYTES_PER_BLOCK", 3 * codes.shape[1])
    assert rank(index, query) == expected
    assert sorted(chain.from_iterable(codes.read)) == list(range(len(images)))
    assert max(map(len, codes.read)) <= 3


def test_a_name_comes_from_whichever_part_has_it(rng):
    named = random_cohort(rng, disorders=2, prefix="a")
    labels = [Label(*label) for label in random_cohort(rng, disorders=2, prefix="b").roster.labels()]
    ids = sorted({label.image_id for label in labels})
    unnamed = Cohort.join(Encodings.of(ids, rng.standard_normal((len(ids), 3, 8))), labels)
    for parts in ([named, unnamed], [unnamed, named]):
        assert [disorder.name for disorder in searcher_of(parts).gallery.disorders] == ["Disorder 0", "Disorder 1"]


def test_parts_of_different_encoders_are_refused(rng):
    first = random_cohort(rng, prefix="a")
    second = random_cohort(rng, prefix="b")
    named = [
        replace(cohort, encodings=replace(cohort.encodings, encoder=Encoder(3, 8, name=name)))
        for cohort, name in ((first, "one"), (second, "two"))
    ]
    with pytest.raises(EncoderMismatchError, match="the gallery part 2 is encoded by two"):
        searcher_of(named)
    with pytest.raises(EncoderMismatchError, match="the query is encoded"):
        rank(searcher_of([first, second]), Query.of(np.ones((1, 1, 4))))


def test_nobody_but_the_own_patient_is_refused(rng):
    cohort = Cohort.of(np.eye(2), image_ids=["1", "2"], patient_ids=["p", "p"], disorder_ids=["A", "A"])
    with pytest.raises(EmptyGalleryError, match=r"every gallery image belongs to the own patient of the images '1'"):
        rank(searcher_of([cohort]), cohort.queries()[0], BASELINE)


def test_questions_and_answers_can_travel(rng):
    import pickle

    cohort = random_cohort(rng)
    parts = dealt(cohort, rng, 2)
    asked = []

    class Elsewhere(LocalParts):
        def ask_each(self, questions):
            asked.extend(questions)
            there = [pickle.loads(pickle.dumps(question)) for question in questions]
            return [
                pickle.loads(pickle.dumps(question(part))) for question, part in zip(there, self.parts, strict=True)
            ]

    queries = [*cohort.queries()[:2], Query.of(random_query_arrays(rng, cohort, 2))]
    searcher = Searcher.of(Elsewhere([part.index for part in parts]))
    assert rank(searcher, queries) == rank(cohort, queries)
    assert examine(searcher, queries[2]) == examine(cohort, queries[2])
    assert all(isinstance(ask, partial) or ask.__module__.startswith("mien.") for ask in asked)

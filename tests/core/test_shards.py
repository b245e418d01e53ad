"""Galleries in parts: the same answers as in one piece."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien import BASELINE, Cohort, Encoder, Encodings, Label, Method, Query, rank
from mien.core.errors import EmptyGalleryError, EncoderMismatchError, GalleryError, InvalidCohortError
from mien.core.examination import examine
from mien.core.method import TWELVE_METHODS
from mien.core.partial import Question, look, merged
from mien.core.parts import Here
from mien.core.shards import Shards

from cohorts import random_cohort, random_query_arrays

METHODS = [
    *TWELVE_METHODS,
    *[Method("embedding", "hybrid", centroid_weight=weight) for weight in (0.0, 1.0)],
    *[Method(fusion, "proportional", alpha=alpha) for fusion in ("distance", "embedding") for alpha in (0.1, 0.5, 1)],
    Method("embedding", "proportional-hybrid", 0.75, 0.5),
]


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


def shards_of(cohorts):
    return Shards.of(Here([cohort.index for cohort in cohorts]))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    representations=st.integers(1, 3),
    dimensions=st.sampled_from([2, 5]),
    disorders=st.integers(1, 9),
    parts=st.integers(1, 4),
    rows_per_block=st.integers(1, 9),
    top=st.sampled_from([None, 1, 3]),
    whole_numbers=st.booleans(),
)
def test_parts_rank_as_one_gallery_does(
    seed, representations, dimensions, disorders, parts, rows_per_block, top, whole_numbers
):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, representations=representations, dimensions=dimensions, disorders=disorders)
    if whole_numbers:  # ties, duplicates and embeddings that cancel out
        values = rng.integers(-1, 2, cohort.embeddings.shape)
        values[..., 0] += ~values.any(axis=2)  # of some length
        cohort = replace(cohort, encodings=Encodings.of(cohort.roster.image_ids, values))
    queries = [Query.of(random_query_arrays(rng, cohort, images)) for images in (1, 3)]
    own = cohort.queries()[0]  # its patient is left out
    by_photo = replace(own, patient_id=None, ids_are_file_names=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mien.core.partial.BYTES_PER_BLOCK", rows_per_block * representations * dimensions * 4)
        patch.setattr("mien.core.shards.CENTROIDS_PER_BLOCK", 2)
        shards = shards_of(dealt(cohort, rng, parts))
        for method in METHODS:
            for asked in (queries, [own], [by_photo]):
                mine, theirs = (outcome(rank, gallery, asked, method, top=top) for gallery in (shards, cohort))
                assert mine == theirs  # to the last bit
        assert outcome(examine, shards, by_photo, top=top) == outcome(examine, cohort, by_photo, top=top)


def outcome(answer, *asked, top):
    """An answer, or why there is none."""
    try:
        return answer(*asked, top=top)
    except (EmptyGalleryError, InvalidCohortError) as error:  # nobody else is there, or photos cancel out
        return str(error)


def test_merging_does_not_depend_on_the_order_of_parts(rng):
    cohort = random_cohort(rng, disorders=5)
    query = cohort.queries()[0]
    rows = cohort.index.image_rows[:3]
    question = Question(rows, np.array([0, 0, 1]), ((query.patient_id,), ()), ((0, "d0"), (0, "d1")), None, "patient")
    answers = [look(part.index, question) for part in dealt(cohort, rng, 4)]
    whole = look(cohort.index, question)
    for orders in range(5):
        together = merged([answers[place] for place in np.random.default_rng(orders).permutation(4)])
        one_by_one = reduce(lambda one, other: merged([one, other]), answers)
        for answer in (together, one_by_one):
            assert (answer.disorder_ids, answer.cases) == (whole.disorder_ids, whole.cases)
            for mine, theirs in zip(answer.near, whole.near, strict=True):
                np.testing.assert_array_equal(mine, theirs)
            assert answer.left.keys() == whole.left.keys()
            for of, left in answer.left.items():
                assert left[:2] == whole.left[of][:2]
                np.testing.assert_array_equal(left.sums.means, whole.left[of].sums.means)


def test_a_batch_of_queries_is_asked_in_several_goes(rng, monkeypatch):
    cohort = random_cohort(rng, disorders=5)
    queries = [Query.of(random_query_arrays(rng, cohort, 2)) for _ in range(7)]
    expected = rank(cohort, queries)
    shards = shards_of(dealt(cohort, rng, 2))
    goes = []
    monkeypatch.setattr("mien.core.shards.merged", lambda parts: goes.append(len(parts)) or merged(parts))
    for limit, most in (("ENTRIES_PER_BATCH", 10), ("DISTANCES_PER_BLOCK", 1)):
        goes.clear()
        with monkeypatch.context() as patch:
            patch.setattr(f"mien.core.shards.{limit}", most)
            assert rank(shards, queries) == expected
        assert goes == [2] * 7  # each query by itself, with two images


def test_a_large_gallery_is_read_in_blocks_that_are_let_go(rng, monkeypatch):
    cohort = random_cohort(rng, disorders=5)
    released = []
    index = replace(cohort.index, let_go=lambda start, end: released.append((start, end)))
    query = Query.of(random_query_arrays(rng, cohort, 2))
    expected = rank(index, query)
    assert released == []
    width = index.image_rows.shape[1]
    monkeypatch.setattr("mien.core.ranking.LARGEST_WHOLE", index.image_rows.nbytes - 1)
    monkeypatch.setattr("mien.core.partial.BYTES_PER_BLOCK", 3 * width * 4)
    assert rank(index, query) == expected
    assert released == [(start, start + 3) for start in range(0, len(index.image_rows), 3)]


def test_a_name_comes_from_whichever_part_has_it(rng):
    named = random_cohort(rng, disorders=2, prefix="a")
    labels = [Label(*label) for label in random_cohort(rng, disorders=2, prefix="b").roster.labels()]
    ids = sorted({label.image_id for label in labels})
    unnamed = Cohort.join(Encodings.of(ids, rng.standard_normal((len(ids), 3, 8))), labels)
    for parts in ([named, unnamed], [unnamed, named]):
        assert [disorder.name for disorder in shards_of(parts).disorders] == ["Disorder 0", "Disorder 1"]


def test_one_patient_in_two_parts_is_refused(rng):
    cohort = random_cohort(rng)
    with pytest.raises(
        GalleryError, match=r"patients are in two of the galleries: 'p0-0', .* in part 1 and in part 2: each"
    ):
        shards_of([cohort, cohort])


def test_one_image_in_two_parts_is_refused():
    parts = [
        Cohort.of(np.eye(1), image_ids=["same"], patient_ids=[patient], disorder_ids=["A"]) for patient in ("p", "q")
    ]
    with pytest.raises(GalleryError, match=r"1 images are in two of the galleries: 'same'"):
        shards_of(parts)


def test_parts_of_different_encoders_are_refused(rng):
    first = random_cohort(rng, prefix="a")
    second = random_cohort(rng, prefix="b")
    named = [
        replace(cohort, encodings=replace(cohort.encodings, encoder=Encoder(3, 8, name=name)))
        for cohort, name in ((first, "one"), (second, "two"))
    ]
    with pytest.raises(EncoderMismatchError, match="the gallery part 2 is encoded by two"):
        shards_of(named)
    with pytest.raises(EncoderMismatchError, match="the query is encoded"):
        rank(shards_of([first, second]), Query.of(np.ones((1, 1, 4))))


def test_nobody_but_the_own_patient_is_refused(rng):
    cohort = Cohort.of(np.eye(2), image_ids=["1", "2"], patient_ids=["p", "p"], disorder_ids=["A", "A"])
    with pytest.raises(EmptyGalleryError, match=r"every gallery image belongs to the own patient of the images '1'"):
        rank(shards_of([cohort]), cohort.queries()[0], BASELINE)


def test_questions_and_answers_can_travel(rng):
    import pickle

    cohort = random_cohort(rng)
    parts = dealt(cohort, rng, 2)
    asked = []

    class Elsewhere(Here):
        def __call__(self, ask):
            asked.append(ask)
            there = pickle.loads(pickle.dumps(ask))
            return [pickle.loads(pickle.dumps(there(part))) for part in self.parts]

    queries = [*cohort.queries()[:2], Query.of(random_query_arrays(rng, cohort, 2))]
    shards = Shards.of(Elsewhere([part.index for part in parts]))
    assert rank(shards, queries) == rank(cohort, queries)
    assert examine(shards, queries[2]) == examine(cohort, queries[2])
    assert all(isinstance(ask, partial) or ask.__module__.startswith("mien.") for ask in asked)

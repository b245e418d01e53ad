from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from mien import BASELINE, FULL, Cohort, Encoder, Encodings, Label, Method, Query, rank
from mien.core.index import _threads
from mien.core.method import FUSIONS
from mien.core.scores import known_scores
from mien.errors import EmptyGalleryError, EncoderMismatchError, InvalidCohortError, InvalidMethodError

import oracle
from cohorts import as_plain_gallery, random_cohort, random_query_arrays
from scores import ALL_METHODS, SIZE_AWARE


def assert_agrees(ranking, expected):
    assert [line.disorder_id for line in ranking.disorders] == [disorder_id for _, disorder_id in expected]
    assert [line.distance for line in ranking.disorders] == pytest.approx([d for d, _ in expected], abs=1e-6)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    representations=st.integers(1, 12),
    dimensions=st.sampled_from([2, 5, 16]),
    disorders=st.integers(1, 7),
    query_images=st.integers(1, 4),
)
def test_every_method_agrees_with_plain_loops(seed, representations, dimensions, disorders, query_images):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, representations=representations, dimensions=dimensions, disorders=disorders)
    query = random_query_arrays(rng, cohort, query_images)
    gallery, plain_query = as_plain_gallery(cohort), oracle.plain(query)
    for method in ALL_METHODS:
        rankings = rank(cohort, Query.of(query), method, top=None)
        if method.fusion == "none":
            for ranking, image in zip(rankings, plain_query, strict=True):
                assert_agrees(ranking, oracle.ranking([image], gallery, method))
        else:
            assert_agrees(*rankings, oracle.ranking(plain_query, gallery, method))


@pytest.fixture(scope="module")
def many_disorders():
    """A cohort, and queries of one to three photos."""
    rng = np.random.default_rng(20_26)
    cohort = random_cohort(rng, disorders=40, dimensions=16)
    return cohort, [Query.of(random_query_arrays(rng, cohort, images)) for images in (1, 3, 2)]


@pytest.mark.parametrize("method", ALL_METHODS, ids=str)
def test_the_first_lines_are_those_of_the_whole_list(many_disorders, method):
    cohort, queries = many_disorders
    for short, whole in zip(rank(cohort, queries, method, top=5), rank(cohort, queries, method, top=None), strict=True):
        assert short.disorders == whole.disorders[:5]


@pytest.fixture(scope="module")
def batch():
    """A cohort, and a batch of queries."""
    rng = np.random.default_rng(20_26)
    cohort = random_cohort(rng, disorders=25, dimensions=64, representations=4)
    return cohort, [Query.of(random_query_arrays(rng, cohort, 1 + i % 3), patient_id=f"q{i}") for i in range(20)]


@pytest.mark.parametrize("top", [3, None])
def test_an_answer_does_not_depend_on_threads(batch, monkeypatch, top):
    cohort, queries = batch
    monkeypatch.setattr("mien.core.index.BYTES_PER_BLOCK", 16 * 4 * 64)  # so that there is work for several
    answers = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("mien.core.index._cores", lambda cores=cores: cores)
        monkeypatch.setattr("mien.core.index._threads", cache(_threads.__wrapped__))
        with threadpool_limits(cores, user_api="blas"):
            assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {cores}
            answers.append([rank(cohort, queries, method, top=top) for method in ALL_METHODS])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("method", ALL_METHODS, ids=str)
def test_an_answer_does_not_depend_on_the_batch(batch, method, monkeypatch):
    cohort, queries = batch
    together = rank(cohort, queries, method)
    assert together == [ranking for query in queries for ranking in rank(cohort, query, method)]
    monkeypatch.setattr("mien.core.searcher.BOUNDS_AT_A_TIME", 1)
    assert together == rank(cohort, queries, method)


@pytest.mark.parametrize("fusion", ["none", "distance", "embedding"])
def test_lambda_zero_is_nearest_and_one_is_centroid_exactly(rng, fusion):
    cohort = random_cohort(rng, disorders=12)
    query = Query.of(random_query_arrays(rng, cohort, 3))
    for weight, score in ((0.0, "nearest"), (1.0, "patient-centroid")):
        assert rank(cohort, query, Method(fusion, "hybrid", centroid_weight=weight)) == rank(
            cohort, query, Method(fusion, score)
        )


@pytest.mark.parametrize("score", [*known_scores(), SIZE_AWARE], ids=str)
def test_one_photo_is_the_same_under_every_fusion(rng, score):
    cohort = random_cohort(rng)
    query = Query.of(random_query_arrays(rng, cohort, 1))
    none, distance, embedding = (rank(cohort, query, Method(fusion, score)) for fusion in FUSIONS)
    assert none == distance == embedding


def test_evidence_is_what_the_gallery_holds(rng):
    cohort = random_cohort(rng, disorders=8)
    query = random_query_arrays(rng, cohort, 2)
    fused = oracle.mean(query.astype(float).tolist())
    for line in rank(cohort, Query.of(query), FULL, top=None)[0].disorders:
        images = as_plain_gallery(cohort)[line.disorder_id]
        patient_means = [
            oracle.mean([e for p, e in images if p == patient]) for patient in sorted({p for p, _ in images})
        ]
        assert line.nearest_distance == pytest.approx(min(oracle.distance(fused, e) for _, e in images), abs=1e-6)
        assert line.centroid_distance == pytest.approx(oracle.distance(fused, oracle.mean(patient_means)), abs=1e-6)
        assert line.distance == pytest.approx(0.75 * line.centroid_distance + 0.25 * line.nearest_distance, abs=1e-12)
        nearest = cohort.roster.image_of_id[line.nearest_image_id]
        assert oracle.distance(fused, cohort.embeddings[nearest].tolist()) == pytest.approx(
            line.nearest_distance, abs=1e-6
        )
        assert cohort.roster.patient_ids[cohort.roster.patient_of_image[nearest]] == line.nearest_patient_id
        assert (line.gallery_images, line.gallery_patients) == (len(images), len(patient_means))
        assert line.disorder_name == f"Disorder {line.disorder_id[1:]}"


def test_ties_are_ordered_by_disorder_id():
    same = np.ones((1, 2, 3))
    labels = [Label("i", "p", disorder_id) for disorder_id in ("10", "9", "a", "B")]
    cohort = Cohort.join(Encodings.of(["i"], same), labels)
    for method in ALL_METHODS:
        [ranking] = rank(cohort, Query.of(same * 7), method)
        assert [line.disorder_id for line in ranking.disorders] == ["10", "9", "B", "a"]
        assert {line.distance for line in ranking.disorders} == {ranking.disorders[0].distance}


def test_disorders_that_share_all_their_patients_tie_in_a_large_gallery(rng):
    embeddings = rng.standard_normal((301, 4, 32))
    labels = [Label(str(i), f"p{i // 3}", f"d{i // 7:03}") for i in range(301)]
    labels += [Label(str(i), f"p{i // 3}", f"x{i // 7:03}") for i in range(301)]  # every disorder twice
    cohort = Cohort.join(Encodings.of([str(i) for i in range(301)], embeddings), labels)
    for method in ALL_METHODS:
        for ranking in rank(cohort, [Query.of(rng.standard_normal((2, 4, 32))) for _ in range(3)], method, top=None):
            ids = [line.disorder_id for line in ranking.disorders]
            assert [f"x{this[1:]}" for this in ids[::2]] == ids[1::2]


@pytest.fixture(scope="module")
def own_patients():
    """A cohort; each of its patients as a query, with plain photos and the plain gallery of all others."""
    cohort = random_cohort(np.random.default_rng(20_26), disorders=9, two_disorder_patients=3)
    return cohort, [
        (query, oracle.plain(query.encodings.embeddings), as_plain_gallery(cohort, without={query.patient_id}))
        for query in cohort.queries()
    ]


@pytest.mark.parametrize("method", ALL_METHODS, ids=str)
def test_the_querys_own_patient_is_left_out_as_if_it_had_never_been_there(own_patients, method):
    cohort, queries = own_patients
    for query, photos, expected_gallery in queries:
        rankings = rank(cohort, query, method, top=None)
        for ranking, images in zip(
            rankings, [[photo] for photo in photos] if method.fusion == "none" else [photos], strict=True
        ):
            assert ranking.excluded_gallery_patients == (query.patient_id,)
            assert_agrees(ranking, oracle.ranking(images, expected_gallery, method))
            for line in ranking.disorders:
                images_left = expected_gallery[line.disorder_id]
                assert line.gallery_images == len(images_left)
                assert line.gallery_patients == len({patient for patient, _ in images_left})
        assert rank(cohort, query, method, top=2) == [
            type(r)(r.patient_id, r.image_ids, r.excluded_gallery_patients, r.disorders[:2]) for r in rankings
        ]


def test_a_query_without_patient_id_is_known_by_its_images(rng):
    cohort = random_cohort(rng)
    [query] = [q for q in cohort.queries() if q.patient_id == "p0-0"]
    anonymous = Query(query.encodings)
    assert rank(cohort, anonymous)[0].excluded_gallery_patients == ("p0-0",)
    for single in rank(cohort, anonymous, BASELINE):
        assert single.excluded_gallery_patients == ("p0-0",)


def test_the_name_of_a_photo_file_says_nothing_about_its_patient(rng):
    cohort = random_cohort(rng)
    query = next(query for query in cohort.queries() if query.patient_id == "p0-0")
    names = [f"IMG_{n}.jpg" for n in range(len(query.encodings.image_ids))]
    renamed = Encodings.of(names, query.encodings.embeddings, ids_are_file_names=True)
    assert rank(cohort, Query(renamed))[0].excluded_gallery_patients == ("p0-0",)
    stranger = Encodings.of(query.encodings.image_ids, rng.standard_normal(query.encodings.embeddings.shape))
    assert rank(cohort, Query(replace(stranger, ids_are_file_names=True)))[0].excluded_gallery_patients == ()
    assert rank(cohort, Query(stranger))[0].excluded_gallery_patients == ("p0-0",)


def test_a_known_photo_under_another_patient_id_is_recognised_by_its_embedding(rng):
    cohort = random_cohort(rng)
    [query] = [q for q in cohort.queries() if q.patient_id == "p0-0"]
    assert rank(cohort, Query(query.encodings, "somebody else"))[0].excluded_gallery_patients == ("p0-0",)
    other = Encodings.of(query.encodings.image_ids, rng.standard_normal(query.encodings.embeddings.shape))
    assert rank(cohort, Query(other, "somebody else"))[0].excluded_gallery_patients == ()


def test_one_new_photo_beside_a_known_one_is_not_ranked_against_its_own_patient(rng):
    cohort = random_cohort(rng)
    known = cohort.embeddings[cohort.roster.image_of_id["i0"]]
    query = Query.of(np.stack([known, known * 1.1 + 0.01]), ["i0", "a new photo"])
    for ranking in rank(cohort, query, BASELINE):
        assert ranking.excluded_gallery_patients == ("p0-0",)


def test_a_disorder_whose_images_cancel_out_lies_at_right_angles_to_everything():
    opposite = np.array([[1.0, 2.0], [-1.0, -2.0], [1.0, 1.0]])
    cohort = Cohort.of(opposite, image_ids=["1", "2", "3"], patient_ids=["p", "q", "r"], disorder_ids=["A", "A", "B"])
    lines = {line.disorder_id: line for line in rank(cohort, Query.of(np.array([[1.0, 2.0]])))[0].disorders}
    assert lines["A"].centroid_distance == 1
    assert lines["A"].nearest_distance == pytest.approx(0, abs=1e-7)


def test_no_line_or_fewer_cannot_be_asked_for(rng):
    cohort = random_cohort(rng)
    for top in (0, -1):
        with pytest.raises(InvalidMethodError, match="at least one disorder"):
            rank(cohort, cohort.queries(), top=top)


def test_a_gallery_of_the_querys_patient_alone_cannot_rank():
    cohort = Cohort.of(np.eye(2), image_ids=["1", "2"], patient_ids=["p", "p"], disorder_ids=["A", "B"])
    with pytest.raises(EmptyGalleryError, match="own patient"):
        rank(cohort, cohort.queries())


def test_an_empty_gallery_is_an_error_and_not_an_empty_ranking():
    with pytest.raises(EmptyGalleryError, match="holds no images"):
        rank(Cohort.of(np.empty((0, 1, 3)), image_ids=[], patient_ids=[], disorder_ids=[]), Query.of(np.ones((1, 3))))


def test_another_encoder_is_refused_by_name(rng):
    cohort = random_cohort(rng)
    named = Encodings(cohort.roster.image_ids, cohort.embeddings, Encoder(3, 8, name="gm-arc"))
    cohort = Cohort(cohort.roster, named)
    stranger = Encodings.of(["q"], np.ones((1, 3, 8)), Encoder(3, 8, name="mobilefacenet"))
    with pytest.raises(EncoderMismatchError, match=r"mobilefacenet \(3 x 8\).*gm-arc \(3 x 8\)"):
        rank(cohort, Query(stranger))
    with pytest.raises(EncoderMismatchError, match="1 x 8"):
        rank(cohort, Query.of(np.ones((1, 8))))


def test_photos_that_cancel_out_are_refused_by_name(rng):
    cohort = random_cohort(rng)
    photo = rng.standard_normal((1, 3, 8)).astype(np.float32)
    with pytest.raises(InvalidCohortError, match=r"left.*right.*cancel out"):
        rank(cohort, Query.of(np.concatenate([photo, -photo]), ["left", "right"]))


def test_with_fusion_none_every_image_is_a_query(rng):
    cohort = random_cohort(rng)
    rankings = rank(cohort, Query.of(random_query_arrays(rng, cohort, 3), ["a", "b", "c"], "me"), BASELINE)
    assert [(r.patient_id, r.image_ids) for r in rankings] == [("me", ("a",)), ("me", ("b",)), ("me", ("c",))]

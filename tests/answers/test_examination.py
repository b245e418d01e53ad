from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien import BASELINE, FULL, Cohort, Encodings, Method, Query, rank
from mien.answers.examination import examine
from mien.core.gallery_parts import PATIENTS_NAMED
from mien.errors import InvalidMethodError

import oracle
from cohorts import as_plain_gallery, random_cohort, random_query_arrays

METHODS = [FULL, Method("distance", "nearest"), Method("embedding", "image-centroid"), Method("distance", "hybrid")]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), photos=st.integers(1, 4), method=st.sampled_from(METHODS))
def test_every_list_agrees_with_plain_loops(seed, photos, method):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng)
    arrays = random_query_arrays(rng, cohort, photos)
    gallery, plain = as_plain_gallery(cohort), oracle.plain(arrays)
    answer = examine(cohort, Query.of(arrays), method, top=None)
    assert answer.ranking == rank(cohort, Query.of(arrays), method, top=None)[0]
    for photo in range(photos):
        assert_stands(answer, lambda of: of.alone, photo, oracle.ranking([plain[photo]], gallery, method))
        others = plain[:photo] + plain[photo + 1 :]
        if others:
            assert_stands(answer, lambda of: of.without, photo, oracle.ranking(others, gallery, method))
    assert all(len(of.without) == (photos if photos > 1 else 0) for of in answer.evidence)


def assert_stands(answer, side, photo, expected):
    place = {disorder_id: (rank, distance) for rank, (distance, disorder_id) in enumerate(expected, start=1)}
    for line, evidence in zip(answer.ranking.disorders, answer.evidence, strict=True):
        rank, distance = place[line.disorder_id]
        assert side(evidence)[photo].rank == rank
        assert side(evidence)[photo].distance == pytest.approx(distance, abs=1e-5)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), photos=st.integers(1, 3))
def test_nearest_cases_are_the_nearest_patients(seed, photos):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng)
    arrays = random_query_arrays(rng, cohort, photos)
    probe, gallery = oracle.mean(arrays.astype(float).tolist()), as_plain_gallery(cohort)
    answer = examine(cohort, Query.of(arrays), top=None)
    for line, evidence in zip(answer.ranking.disorders, answer.evidence, strict=True):
        nearest_of = {}
        for patient_id, embedding in gallery[line.disorder_id]:
            distance = oracle.distance(probe, embedding)
            nearest_of[patient_id] = min(distance, nearest_of.get(patient_id, distance))
        expected = sorted((distance, patient_id) for patient_id, distance in nearest_of.items())[:PATIENTS_NAMED]
        assert [case.patient_id for case in evidence.nearest_cases] == [patient_id for _, patient_id in expected]
        assert [case.distance for case in evidence.nearest_cases] == pytest.approx([d for d, _ in expected], abs=1e-5)
        first = evidence.nearest_cases[0]
        assert (first.patient_id, first.image_id) == (line.nearest_patient_id, line.nearest_image_id)
        assert first.distance == line.nearest_distance


def test_the_own_patient_is_left_out_of_every_list(rng):
    """Known by one photo; without that photo the patient would otherwise come back."""
    cohort = random_cohort(rng, disorders=4, two_disorder_patients=0)
    own = cohort.roster.patient_ids[0]
    image = int(np.flatnonzero(cohort.roster.patient_of_image == 0)[0])
    arrays = np.stack([cohort.embeddings[image], cohort.embeddings[image] + rng.standard_normal((3, 8))])
    query = Query(Encodings.of(["a.jpg", "b.jpg"], arrays, ids_are_file_names=True))
    answer = examine(cohort, query, top=None)
    assert answer.ranking.excluded_gallery_patients == (own,)
    assert own not in {case.patient_id for of in answer.evidence for case in of.nearest_cases}
    gallery = as_plain_gallery(cohort, without=[own])
    second = oracle.ranking(oracle.plain(arrays[1:].astype(np.float32)), gallery, FULL)
    assert_stands(answer, lambda of: of.without, 0, second)
    assert_stands(answer, lambda of: of.alone, 1, second)


def test_the_first_lines_are_those_of_the_whole_examination(rng):
    cohort = random_cohort(rng, disorders=30)
    query = Query.of(random_query_arrays(rng, cohort, 3))
    short, whole = examine(cohort, query, top=4), examine(cohort, query, top=None)
    assert short.ranking.disorders == whole.ranking.disorders[:4]
    assert short.evidence == whole.evidence[:4]


def test_equal_photos_of_several_patients_are_named_in_the_order_of_ids():
    same = np.ones((5, 4))
    cohort = Cohort.of(same, image_ids=list("edcba"), patient_ids=list("vwxyz"), disorder_ids=["D"] * 5)
    [evidence] = examine(cohort, Query.of(same[:2])).evidence
    assert [(case.patient_id, case.image_id) for case in evidence.nearest_cases] == [("v", "e"), ("w", "d"), ("x", "c")]


def test_without_fusion_there_is_nothing_to_compare_with(rng):
    cohort = random_cohort(rng)
    with pytest.raises(InvalidMethodError, match="one by one"):
        examine(cohort, Query.of(random_query_arrays(rng, cohort, 2)), BASELINE)


def test_the_nearest_case_is_named_though_more_than_are_shown_tie():
    near, far = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    cohort = Cohort.of(
        np.array([near, far, far, far]), image_ids=list("1234"), patient_ids=list("wabc"), disorder_ids=["A"] * 4
    )
    [evidence] = examine(cohort, Query.of(np.array([near, far])), Method("distance", "nearest")).evidence
    assert [(case.patient_id, case.distance) for case in evidence.nearest_cases] == [("w", 0), ("a", 0), ("b", 0)]

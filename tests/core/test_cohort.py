from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien import Cohort, Encoder, Encodings, Label, Method, Query, Roster
from mien.errors import EncoderMismatchError, InvalidCohortError, InvalidMethodError

from cohorts import random_cohort


def test_a_roster_depends_on_its_labels_and_not_on_their_order(rng):
    labels = random_cohort(rng, disorders=9).roster.labels()
    first = Roster.of_labels(labels)
    for _ in range(5):
        other = Roster.of_labels([labels[i] for i in rng.permutation(len(labels))] + labels[:3])
        assert (other.image_ids, other.patient_ids, other.labels()) == (
            first.image_ids,
            first.patient_ids,
            first.labels(),
        )


def test_counts_of_a_roster():
    labels = [
        Label("1", "p", "A"),
        Label("2", "p", "A"),
        Label("3", "q", "A"),
        Label("2", "p", "B"),
        Label("1", "p", "B"),
    ]
    roster = Roster.of_labels(labels)
    assert roster.images_of_disorder.tolist() == [3, 2]
    assert roster.patients_of_disorder.tolist() == [2, 1]
    assert roster.disorder_ids_of_image == [["A", "B"], ["A", "B"], ["A"]]


def test_one_image_of_two_patients_is_refused():
    with pytest.raises(InvalidCohortError, match="image '1' belongs to two patients, 'p' and 'q'"):
        Roster.of_labels([Label("1", "p", "A"), Label("1", "q", "B")])


@pytest.mark.parametrize(
    ("bad", "what"), [(np.nan, "not a finite number"), (np.inf, "not a finite number"), (1e39, "not a finite number")]
)
def test_a_value_that_is_no_number_is_refused_by_name(bad, what):
    embeddings = np.ones((3, 2, 4))
    embeddings[1, 1, 2] = bad
    with pytest.raises(InvalidCohortError, match=f"{what}.*image 'b', representation 2"):
        Encodings.of(["a", "b", "c"], embeddings)


def test_lengths_from_tiny_to_huge_are_fine_and_zero_is_not():
    embeddings = np.ones((3, 1, 4))
    embeddings[0] *= 1e-30
    embeddings[1] *= 1e30
    Encodings.of(["tiny", "huge", "one"], embeddings)
    embeddings[2] = 0
    with pytest.raises(InvalidCohortError, match=r"length zero of image 'one', representation 1"):
        Encodings.of(["tiny", "huge", "one"], embeddings)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(InvalidCohortError, match="'a' is there twice"):
        Encodings.of(["a", "a"], np.ones((2, 3)))
    with pytest.raises(InvalidCohortError, match=r"shape \(2, 1, 3\) for 1 images"):
        Encodings.of(["a"], np.ones((2, 3)))
    with pytest.raises(EncoderMismatchError, match="dimensions differ"):
        Encodings.of(["a"], np.ones((1, 3)), Encoder(1, 4))
    with pytest.raises(InvalidCohortError, match="without images"):
        Query.of(np.ones((0, 3)))
    with pytest.raises(InvalidCohortError, match="1 labelled images without an encoding: 'b'"):
        Cohort.join(Encodings.of(["a"], np.ones((1, 3))), [Label("a", "p", "A"), Label("b", "p", "A")])
    one = Encodings.of(["a"], np.ones((1, 3)))
    with pytest.raises(InvalidCohortError, match="not of the same images"):
        Cohort(Roster.of_labels([Label("b", "p", "A")]), one)


def test_a_cohort_gives_back_its_patients_as_queries(rng):
    cohort = random_cohort(rng)
    queries = cohort.queries()
    assert [query.patient_id for query in queries] == list(cohort.roster.patient_ids)
    assert sum(len(query.encodings.image_ids) for query in queries) == len(cohort.roster.image_ids)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fusion": "sum"},
        {"score": "mean"},
        {"centroid_weight": -0.1},
        {"alpha": 0.0},
        {"alpha": 1.1},
        {"alpha": float("nan")},
    ],
)
def test_a_method_outside_its_range_does_not_exist(wrong):
    with pytest.raises(InvalidMethodError):
        Method(**wrong)


def test_a_method_does_not_change():
    with pytest.raises(FrozenInstanceError):
        Method().score = "nearest"


class TestNormalised:
    @given(seed=st.integers(0, 2**32), stored=st.sampled_from([np.float16, np.float32]), images=st.integers(1, 600))
    def test_length_one_is_seen_through_rounding_and_one_exception_is_not_missed(self, seed, stored, images):
        rng = np.random.default_rng(seed)
        raw = rng.standard_normal((images, 3, 16)).astype(np.float32) * 20
        unit = (raw / np.linalg.norm(raw, axis=2, keepdims=True)).astype(stored).astype(np.float32)
        image_ids = [str(image) for image in range(images)]
        assert Encodings.of(image_ids, unit).normalised
        unit[rng.integers(images), rng.integers(3)] *= 1.005
        assert not Encodings.of(image_ids, unit).normalised

    def test_raw_embeddings_and_none_at_all_are_not(self, rng):
        assert not Encodings.of(["1"], rng.standard_normal((1, 12, 512))).normalised
        assert not Encodings.of([], np.empty((0, 12, 512))).normalised

"""What a Python user meets first: names, short texts instead of patients, and help for wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest

import mien
from mien import FULL, Cohort, Encodings, Gallery, Method, MienError, Query, rank
from mien.core.gallery_parts import LocalParts
from mien.core.searcher import Searcher
from mien.evaluation.folds import cohort_study

from cohorts import random_cohort, random_query_arrays


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=4)


@pytest.fixture
def ranking(cohort, rng):
    return rank(cohort, Query.of(random_query_arrays(rng, cohort, 2), ["left.jpg", "right.jpg"]))[0]


def test_reprs_are_one_line_without_patients_or_numbers(cohort, ranking, tmp_path):
    Gallery.build(tmp_path, cohort)
    searcher = Searcher.of(LocalParts([cohort.index]))
    study = cohort_study(cohort, "a cohort", seed=1, folds=2)
    parts = cohort.index.images, study.folds[0]
    things = [
        *parts,
        cohort,
        cohort.roster,
        cohort.encodings,
        cohort.index,
        cohort.queries()[0],
        Gallery.open(tmp_path),
    ]
    for thing in (*things, searcher, study, ranking):
        text = repr(thing)
        assert "\n" not in text
        assert len(text) < 300
        assert not any(patient_id in text for patient_id in cohort.roster.patient_ids)
        assert "array" not in text


def test_a_ranking_becomes_a_table(ranking):
    table = ranking.to_arrow()
    assert table.num_rows == len(ranking.disorders)
    assert table.column("disorder_id").to_pylist() == [line.disorder_id for line in ranking.disorders]
    pytest.importorskip("pandas")
    assert list(ranking.to_pandas()["rank"]) == [line.rank for line in ranking.disorders]


def test_a_notebook_shows_a_ranking_escaped_and_with_the_notice(rng):
    cohort = Cohort.of(np.eye(2), image_ids=["1", "2"], patient_ids=["<b>", "q"], disorder_ids=["<script>", "B"])
    [ranking] = rank(cohort, Query.of(np.array([[1.0, 0.1]])))
    page = ranking._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "never gives a diagnosis" in page


@pytest.mark.parametrize(
    ("call", "says"),
    {
        "a path": (lambda cohort, query: rank("gallery", query), "str is no gallery: pass Gallery.open"),
        "swapped": (lambda cohort, query: rank(query, cohort), "Query is no gallery"),
        "an array": (
            lambda cohort, query: rank(cohort, np.ones((1, 3, 8))),
            "ndarray is no query, in a ndarray: pass Query.of",
        ),
        "a name": (lambda cohort, query: rank(cohort, query, "full"), "str is no method"),
        "no study": (lambda cohort, query: mien.evaluate("folder"), "str is no study"),
        "no methods": (lambda cohort, query: mien.evaluate(cohort, ["full"], folds=2), "str is no method"),
        "one method": (lambda cohort, query: mien.evaluate(cohort, FULL, against="baseline"), "str is no method"),
        "one fold": (lambda cohort, query: mien.evaluate(cohort, FULL, folds=1), "1 folds: two are needed"),
        "no query": (lambda cohort, query: rank(cohort, None), "NoneType is no query: pass Query.of"),
        "a cohort": (lambda cohort, query: rank(cohort, cohort), "Cohort is no query"),
        "texts": (lambda cohort, query: rank(cohort, {"a": query}), "str is no query, in a dict"),
        "a word": (lambda cohort, query: rank(cohort, query, top="all"), "str is no top: pass how many"),
        "a text": (lambda cohort, query: rank(cohort, query, calibration="x"), "str is no calibration"),
        "nothing": (lambda cohort, query: Query.of(None), "these are no embeddings"),
        "uneven": (lambda cohort, query: Query.of([[1.0, 2.0], [1.0]]), "embeddings of different shapes"),
        "encodings": (lambda cohort, query: Query.of(cohort.encodings), "these are no embeddings"),
        "no encodings": (lambda cohort, query: Query(np.ones((1, 3, 8))), "ndarray is no encodings"),
        "a number": (lambda cohort, query: Query(query.encodings, patient_id=5), "int is no patient id: pass a text"),
        "numbers": (lambda cohort, query: Encodings.of([1], np.ones((1, 4))), "int is no image id: pass a text"),
        "None": (
            lambda cohort, query: Cohort.of(np.eye(2), image_ids="12", patient_ids="pq", disorder_ids=["A", None]),
            "None is no id",
        ),
        "short": (
            lambda cohort, query: Cohort.of(np.eye(2), image_ids="12", patient_ids="p", disorder_ids="AB"),
            "2 image_ids, 1 patient_ids, 2 disorder_ids: give one of each",
        ),
        "no directory": (lambda cohort, query: Gallery.open(None), "NoneType is no directory"),
        "no patients": (lambda cohort, query: mien.cohort(cohort, None), "NoneType is no query"),
        "others": (lambda cohort, query: mien.calibrate(cohort, cohort="x"), "str is no cohort"),
        "no photos": (lambda cohort, query: mien.encode([]), "there are no photos"),
        "none": (lambda cohort, query: mien.encode(None), "NoneType is no path"),
        "no path": (lambda cohort, query: mien.encode([b"bytes"]), "bytes is no path"),
    }.values(),
)
def test_a_wrong_argument_is_told_what_to_pass(cohort, call, says):
    with pytest.raises(MienError, match=says):
        call(cohort, Query.of(np.ones((1, 3, 8))))


def test_photos_become_encodings(faces, photo_encoder):
    photos = sorted((faces / "person_000").glob("*.jpg"))[:2] or sorted(next(faces.iterdir()).glob("*.jpg"))[:2]
    encodings = mien.encode(photos)
    assert isinstance(encodings, Encodings)
    assert [photo.name in image_id for photo, image_id in zip(photos, encodings.image_ids, strict=True)] == [True, True]
    assert encodings.encoder.weights_sha256


def test_a_cohort_is_evaluated_by_any_method(rng):
    cohort = random_cohort(rng, disorders=4, most_patients=6)
    results = mien.evaluate(cohort, [FULL, Method("none", "hybrid", centroid_weight=0.5)], folds=3)
    assert {str(result.method) for result in results} == {"baseline", "full", "none x hybrid 0.5"}

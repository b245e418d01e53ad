"""What is asked of a score that somebody adds, and what one gets who breaks it."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from mien import BASELINE, Cohort, Method, MienError, Parameter, Query, Score, evaluate, rank
from mien.core.scores import known_scores, own_scores

from cohorts import random_cohort, random_query_arrays

WEIGHT = Parameter("w", default=0.5, low=0, high=3, help="Of the centroid.")


def mixed(evidence, w):
    return (1 - w) * evidence.nearest + w * evidence.centroid


def written_to(evidence):
    evidence.nearest[:] = 0
    return evidence.centroid


@pytest.mark.parametrize(
    ("made", "says"),
    {
        "unsigned": (lambda: Score("s", lambda e: (200 - 50 * e.nearest).astype(np.uint8)), "falls when"),
        "yes or no": (lambda: Score("s", lambda e: e.nearest < 1), "falls when"),
        "no such field": (lambda: Score("s", lambda e: e.closest), "cannot be computed: AttributeError"),
        "no keyword": (lambda: Score("s", lambda e: e.nearest, (WEIGHT,)), "cannot be computed: TypeError"),
        "how much closer than others": (
            lambda: Score("s", lambda e: e.nearest - e.nearest.mean(axis=-1, keepdims=True)),
            "looks at other queries or disorders",
        ),
        "by rank": (lambda: Score("s", lambda e: e.nearest.argsort(axis=-1)), "looks at other queries or disorders"),
        "share of the largest": (
            lambda: Score("s", lambda e: e.nearest + e.gallery_patients / e.gallery_patients.max()),
            "looks at other queries or disorders",
        ),
        "of the farthest": (
            lambda: Score("s", lambda e: e.nearest / (1 + e.nearest.max(axis=-1, keepdims=True)) + e.centroid),
            "looks at other queries or disorders",
        ),
        "neighbours by the largest": (
            lambda: Score("s", lambda e: e.nearest_mean, neighbours=lambda n: np.ceil(3 * n / n.max())),
            "neighbours looks at other disorders",
        ),
        "neighbours write": (
            lambda: Score("s", lambda e: e.nearest_mean, neighbours=lambda n: np.minimum(n, 2, out=n)),
            "cannot be computed: ValueError: output array is read-only",
        ),
        "none": (lambda: Score("s", lambda e: e.nearest_mean, neighbours=lambda n: 0 * n), "at least 1"),
        "one for all": (lambda: Score("s", lambda e: e.nearest_mean, neighbours=lambda n: 3), "for each number"),
        "text": (lambda: Method(score=Score("s", mixed, (WEIGHT,)), w="1"), "w is '1': it must be a number"),
        "objects": (lambda: Score("s", lambda e: np.array([None, "1"])), "gives no number"),
        "writes": (lambda: Score("s", written_to), "cannot be computed: ValueError: assignment destination"),
        "one parameter": (lambda: Score("s", mixed, WEIGHT), "parameters is a tuple"),
        "a list": (lambda: Score("s", mixed, [WEIGHT]), "parameters is a tuple"),
        "two of a name": (lambda: Score("s", mixed, (WEIGHT, WEIGHT)), "two parameters have one name"),
        "images": (lambda: Score("s", lambda e: e.centroid, centroid="images"), "centroid is 'images'"),
        "fewer of more": (lambda: Score("s", lambda e: e.nearest_mean, neighbours=lambda n: 9 - n), "neighbours"),
        "halves": (lambda: Score("s", lambda e: e.nearest_mean, neighbours=lambda n: n / 2), "neighbours"),
        "no name": (lambda: Parameter("lambda", 0.5, 0, 1, "Weight."), "is no Python name: give one as keyword"),
        "default": (lambda: Parameter("w", 5, 0, 1, "Weight."), "w is 5: it must be 0 or more and at most 1"),
        "of mien": (
            lambda: Method(score=Score("nearest", lambda e: e.centroid)),
            "a score of mien is called 'nearest'",
        ),
        "no score": (lambda: Method(score=lambda e: e.nearest), "function is no score"),
        "a path": (lambda: Method(score="./my_scores.py:SCORE"), "not a path"),
    }.values(),
)
def test_a_score_that_breaks_a_rule_is_refused_when_it_is_made(made, says):
    with pytest.raises(MienError, match=says):
        made()


def test_parameters_that_break_the_rule_are_refused_with_the_method():
    score = Score("mixed", mixed, (WEIGHT,))
    assert Method(score=score, w=1.0).values == (1.0,)
    with pytest.raises(MienError, match="'mixed' falls when the distance 'nearest' rises"):
        Method(score=score, w=1.02)


def test_whole_numbers_of_another_type_count_neighbours(rng):
    score = Score("half", lambda evidence: evidence.nearest_mean, neighbours=lambda images: np.ceil(images / 2))
    cohort = random_cohort(rng, disorders=5, most_patients=5)
    [ranking] = rank(cohort, Query.of(random_query_arrays(rng, cohort, 1)), Method(score=score))
    assert len(ranking.disorders) == 5


@pytest.mark.parametrize("top", [1, 2, None])
def test_a_score_without_a_number_for_this_gallery_is_refused_and_drops_no_disorder(rng, top):
    cohort = random_cohort(rng, disorders=5, most_patients=5)
    images = int(cohort.roster.images_of_disorder[0])  # so many were not tried out
    assert images not in {1, 4, 300}
    score = Score("gap", lambda of: np.where(of.gallery_images == images, np.nan, of.nearest), centroid=None)
    with pytest.raises(MienError, match="'gap' gives no number for a disorder of this gallery"):
        rank(cohort, Query.of(random_query_arrays(rng, cohort, 1)), Method(score=score), top=top)


def by_table(evidence):
    return evidence.nearest + np.vectorize({1: 0.0, 4: 0.1, 300: 0.2}.__getitem__)(evidence.gallery_images)


def by_image_table(images):
    return np.array(
        [1 + (image > 5) if image in {1, 2, 3, 5, 10, 30, 100, 300, 1000} else {}[image] for image in images]
    )


@pytest.mark.parametrize(
    "score",
    [Score("table", by_table, centroid=None), Score("table", lambda e: e.nearest_mean, neighbours=by_image_table)],
)
def test_a_score_that_raises_with_this_gallerys_numbers_is_refused_by_name(rng, score):
    cohort = random_cohort(rng, disorders=9, most_patients=9)
    with pytest.raises(MienError, match="'table' cannot be computed: KeyError"):
        rank(cohort, Query.of(random_query_arrays(rng, cohort, 1)), Method(score=score))
    with pytest.raises(MienError, match="'table' cannot be computed: KeyError"):
        evaluate(cohort, Method(score=score), against=BASELINE, folds=2)


@pytest.mark.parametrize(
    ("usual", "same"),
    [
        (BASELINE, Score("list", lambda e: e.nearest.tolist(), centroid=None)),
        (BASELINE, Score("no centroid", lambda e: np.fmin(e.nearest, e.centroid), centroid=None)),
        (
            Method("none", "proportional", alpha=1),
            Score("all", lambda e: e.nearest_mean, centroid=None, neighbours=lambda images: images * 1e30),
        ),
    ],
)
def test_what_a_score_need_not_know_makes_no_difference(rng, usual, same):
    cohort = random_cohort(rng, disorders=5, most_patients=5)
    query = Query.of(random_query_arrays(rng, cohort, 2))
    for top in (2, None):
        assert rank(cohort, query, Method("none", same), top=top) == rank(cohort, query, usual, top=top)
    found = evaluate(cohort, Method("none", same), against=usual, folds=2)
    assert [result.delta_top1 for result in found] == [0] * len(found)


def test_a_score_that_writes_only_where_it_can_changes_nothing(rng):
    def writes(evidence):
        if evidence.nearest.flags.writeable:
            evidence.nearest[...] *= 2
        return 1.0 * evidence.nearest

    cohort = random_cohort(rng, disorders=5)
    query = Query.of(random_query_arrays(rng, cohort, 2))
    assert rank(cohort, query, Method("none", Score("writes", writes, centroid=None))) == rank(cohort, query, BASELINE)


def test_distances_are_at_most_two(rng):
    row = rng.standard_normal((1, 3, 8))
    ids = {"image_ids": ["1", "2"], "patient_ids": ["p", "q"], "disorder_ids": ["A", "B"]}
    cohort = Cohort.of(np.concatenate([-row, -2 * row]), **ids)
    angle = Score("angle", lambda evidence: np.arccos(1 - evidence.nearest), centroid=None)
    for top in (1, None):
        [ranking] = rank(cohort, Query.of(row), Method(score=angle), top=top)
        assert ranking.disorders[0].distance == pytest.approx(np.pi)


def test_it_is_refused_in_an_evaluation_too(rng):
    cohort = random_cohort(rng, disorders=5, most_patients=9)
    score = Score("gap", lambda of: np.where(np.isin(of.gallery_images, [1, 4, 300]), of.nearest, np.nan))
    with pytest.raises(MienError, match="'gap' gives no number"):
        evaluate(cohort, Method(score=score), against=BASELINE, folds=2)


def test_a_score_that_falls_with_this_gallerys_numbers_is_refused(rng):
    cohort = random_cohort(rng, disorders=6, most_patients=5)
    score = Score("turns", lambda of: np.where(np.isin(of.gallery_images, [1, 4, 300]), 1, -1) * of.nearest)
    with pytest.raises(MienError, match="or falls when a distance rises"):
        rank(cohort, Query.of(random_query_arrays(rng, cohort, 1)), Method(score=score), top=1)


def test_methods_travel_by_the_names_of_their_scores():
    for method in (
        BASELINE,
        Method("none", "hybrid", centroid_weight=0.3),
        Method("embedding", "proportional", alpha=0.5),
    ):
        assert pickle.loads(pickle.dumps(method)) == method


def test_a_package_names_its_score_as_the_score_names_itself(monkeypatch):
    monkeypatch.setattr("mien.core.scores.import_module", lambda name: None)
    points = [
        SimpleNamespace(name=name, value="package:SCORE", load=lambda: Score("mine", lambda e: 1.0 * e.nearest))
        for name in ("hybrid", "other", "mine", "mine")
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    with pytest.warns(UserWarning, match="is left out: its name is 'mine'") as warned:
        found = known_scores.__wrapped__()
    assert len(warned) == 3
    assert set(found) - set(own_scores()) == {"mine"}


def test_a_module_that_cannot_be_imported_is_named_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "score_that_raises.py").write_text("raise OSError('no disk')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MienError, match=r"no score at 'score_that_raises:SCORE' \(no disk\)"):
        Method(score="score_that_raises:SCORE")
    with pytest.raises(MienError, match="not a path"):
        Method(score=".score_that_raises:SCORE")


def test_photos_that_were_encoded_here_are_known_by_their_embedding_whatever_they_are_called(rng):
    cohort = Cohort.of(
        rng.standard_normal((3, 8)),
        image_ids=["photo_1.jpg", "2", "3"],
        patient_ids=["p", "q", "r"],
        disorder_ids=["A", "B", "B"],
    )
    own = cohort.encodings.only([1])
    renamed = type(own).of(["photo_1.jpg"], own.embeddings, ids_are_file_names=True)
    assert rank(cohort, Query(renamed))[0].excluded_gallery_patients == ("q",)


def test_what_the_own_scores_do_is_known_by_checksums_that_stay():
    """Stored calibrations hold them: whoever changes one makes all calibrations of that score useless."""
    assert {name: Method(score=name).behaviour for name in own_scores()} == {
        "hybrid": "71f1778c",
        "image-centroid": "508928eb",
        "nearest": "adc70f76",
        "patient-centroid": "508928eb",
        "proportional": "6cac1349",
        "proportional-hybrid": "c2a326b0",
        "size-aware": "d80f48f8",
    }

"""Folds, ranks and accuracies, against plain loops and on cohorts small enough to know the answer."""

from __future__ import annotations

import numpy as np
import pytest

from mien import BASELINE, FULL, Cohort, Encodings, Label, Method
from mien.core.method import TWELVE_METHODS
from mien.core.study import Fold, Split, Study
from mien.errors import InvalidStudyError
from mien.evaluation.accuracy import accuracy, pooled_outcomes
from mien.evaluation.comparison import GALLERIES, Comparison
from mien.evaluation.evaluated_patients import evaluated_folds, validation_folds
from mien.evaluation.folds import cohort_study
from mien.evaluation.outcomes import MISSED
from mien.evaluation.results import evaluate, not_in_gallery

from cohorts import random_cohort
from oracle import fold_ranks, study_accuracy
from scores import ALL_METHODS

PROPORTIONAL = [Method(fusion, "proportional", alpha=0.4) for fusion in ("none", "distance", "embedding")]
NOBODY = Split((), ())


def random_study(seed, *, folds=3, **options):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, disorders=7, most_patients=9, dimensions=4, two_disorder_patients=3, **options)
    return cohort_study(cohort, "a random cohort", seed=seed, folds=folds)


def compared(study, methods=TWELVE_METHODS):
    return Comparison(study.encodings, evaluated_folds(study), methods=methods)


def study_of(embeddings, *folds, simulated=False):
    """A study of images "0", "1", ...; a fold is (gallery, test) of labels like "image patient disorder"."""

    def labels(texts):
        return tuple(Label(*text.split()) for text in texts)

    image_ids = [str(number) for number in range(len(embeddings))]
    encodings = Encodings.of(image_ids, np.array(embeddings, dtype=float))
    parts = tuple(Fold(Split(labels(gallery), labels(test)), NOBODY) for gallery, test in folds)
    return Study("by hand", encodings, parts, simulated=simulated)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_accuracies_agree_with_plain_loops(seed):
    study = random_study(seed, representations=1 + seed % 3)
    methods = [BASELINE, *ALL_METHODS]
    comparison = compared(study, methods)
    for result in evaluate(comparison, methods, seed=seed):
        for top in (1, 5):
            expected = study_accuracy(study, result.set, result.gallery, result.method, top)
            assert getattr(result, f"top{top}") == pytest.approx(expected, abs=1e-9), result


@pytest.mark.parametrize("seed", range(6, 9))
def test_the_older_measure_averages_images_within_disorders(seed):
    study = random_study(seed)
    for result in evaluate(compared(study), [BASELINE, FULL], per_image=True):
        expected = study_accuracy(study, result.set, result.gallery, result.method, 1, per_image=True)
        assert result.top1 == pytest.approx(expected, abs=1e-9)
        assert result.p_top5 is None


@pytest.mark.parametrize("seed", range(3))
def test_ranks_agree_with_plain_loops_patient_by_patient(seed):
    study = random_study(seed + 20)
    comparison = compared(study)
    for method in TWELVE_METHODS:
        for gallery in GALLERIES:
            for fold, found in zip(study.folds, comparison.ranks("freq", gallery, method), strict=True):
                expected = fold_ranks(study, fold, "freq", gallery, method)
                for place, patient in enumerate(found.patients):
                    ranks = found.ranks[found.patient_of_ranking == place].tolist()
                    assert sorted(ranks) == sorted(expected[patient.patient_id, patient.disorder_id])


def test_images_count_within_patients_and_patients_within_disorders():
    # disorder A: patient p has one hit of two images, patient q a hit; disorder B: a miss
    embeddings = [[1, 0], [0, 1], [1, 0.1], [0.1, 1], [1, 0.2], [1, 0.3]]
    gallery = ["0 g A", "1 h B"]
    test = ["2 p A", "3 p A", "4 q A", "5 r B"]
    comparison = compared(study_of(embeddings, (gallery, test)))
    assert accuracy(comparison.ranks("freq", "unified", BASELINE), top=1) == pytest.approx(100 * (0.75 + 0) / 2)
    assert accuracy(comparison.ranks("freq", "unified", BASELINE), top=1, per_image=True) == pytest.approx(
        100 * (2 / 3 + 0) / 2
    )
    assert accuracy(comparison.ranks("multi-freq", "unified", BASELINE), top=1) == pytest.approx(50)
    assert accuracy(comparison.ranks("freq", "unified", BASELINE), top=5) == 100


def test_the_true_disorder_loses_ties_also_of_equal_embeddings_far_apart_in_the_gallery():
    rng = np.random.default_rng(3)
    photo = rng.standard_normal((1, 5))
    others = rng.standard_normal((60, 5))
    embeddings = np.concatenate([photo, others, photo, photo * 3])
    gallery = ["0 a A", *(f"{i} o{i} O{i}" for i in range(1, 61)), "61 b B"]
    comparison = compared(study_of(embeddings, (gallery, ["62 q A"])))
    for method in (BASELINE, FULL, Method("none", "image-centroid")):
        assert comparison.ranks("freq", "unified", method)[0].ranks.tolist() == [2]


def test_a_disorder_that_the_gallery_lacks_is_a_miss_and_named():
    comparison = compared(study_of([[1, 0], [0, 1], [1, 1]], (["0 g A"], ["1 p A", "2 q Z"])))
    assert comparison.ranks("freq", "unified", BASELINE)[0].ranks.tolist() == [1, MISSED]
    assert not_in_gallery(comparison) == {"unified": ["q"]}
    assert accuracy(comparison.ranks("freq", "unified", BASELINE), top=30) == 50


@pytest.mark.parametrize("method", TWELVE_METHODS, ids=lambda method: f"{method.fusion}-{method.score}")
def test_where_a_gallery_is_empty_its_patients_are_misses_not_gone(method):
    encodings = Encodings.of([str(number) for number in range(5)], np.ones((5, 2)))
    frequent = Split(tuple(Label(*text.split()) for text in ("0 a A", "1 b B")), (Label("2", "p", "A"),))
    rare = Split((), (Label("3", "q", "R"), Label("4", "q", "R")))
    comparison = compared(Study("by hand", encodings, (Fold(frequent, rare),)))
    [fold] = comparison.ranks("rare", "unified", method)
    assert set(fold.ranks.tolist()) == {MISSED}
    assert not_in_gallery(comparison)["unified"] == ["q"]
    assert [result.top30 for result in evaluate(comparison, [method], sets=["rare"])] == [0]


def test_a_validation_patient_in_a_rare_gallery_does_not_meet_himself():
    encodings = Encodings.of(["0", "1", "2", "3"], np.array([[0, 1], [0, 1], [1, 0], [1, 0.1]], dtype=float))
    fold = Fold(Split((Label("0", "a", "A"),), (Label("1", "t", "A"),)), Split((Label("2", "v", "R"),), ()))
    study = Study("by hand", encodings, (fold,), (Label("0", "a", "A"),), (Label("3", "v", "A"),))
    ranks = Comparison(encodings, validation_folds(study), methods=[BASELINE]).ranks("freq", "unified", BASELINE)
    assert ranks[0].ranks.tolist() == [1]  # his photo of disorder R would be nearer


def test_the_interval_is_of_the_difference_that_is_printed():
    # disorder A is tested in both folds, B in one: the mean over folds counts A one and a half times as B's half
    embeddings = [[1, 0], [0, 1], [1, 0.1], [0.9, 0.1], [1, 0.2]]
    folds = [(["0 a A", "1 b B"], ["2 p A", "3 q B"]), (["0 a A", "1 b B"], ["4 r A"])]
    comparison = compared(study_of(embeddings, *folds))
    ranks = comparison.ranks("freq", "unified", BASELINE)
    pooled = pooled_outcomes(ranks, top=1)
    assert pooled.weight_of_disorder.tolist() == [0.75, 0.25]
    means = [pooled.outcomes[pooled.disorder_of_patient == disorder].mean() for disorder in range(2)]
    assert 100 * np.dot(means, pooled.weight_of_disorder) == pytest.approx(accuracy(ranks, top=1))


def on_both_sides(seed):
    """A study in which some patients with two disorders are tested for one and in the gallery with the other."""
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, disorders=8, most_patients=9, dimensions=4, two_disorder_patients=6)
    study = cohort_study(cohort, "a random cohort", seed=seed, folds=2)
    labels = cohort.roster.labels()
    folds = []
    for fold in study.folds:
        tested = {(x.patient_id, x.disorder_id) for split in fold for x in split.test}
        more = [x for x in labels if x.patient_id in {p for p, _ in tested} and x[1:] not in tested]
        some = [x for x in labels if x[1:] in tested and rng.random() < 0.1]  # even with the very disorder
        frequent = {x.disorder_id for part in fold.frequent for x in part}
        extra = [[x for x in (*more, *some) if (x.disorder_id in frequent) == inside] for inside in (True, False)]
        folds.append(Fold(*(Split((*split.gallery, *own), split.test) for split, own in zip(fold, extra, strict=True))))
    return Study("on both sides", study.encodings, tuple(folds))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("leave_out", [True, False])
def test_patients_on_both_sides_are_left_out_of_the_gallery_for_their_own_queries(seed, leave_out):
    study = on_both_sides(seed)
    assert any(study.tested_and_in_gallery)
    methods = [*TWELVE_METHODS, *PROPORTIONAL, Method("embedding", "proportional-hybrid", alpha=0.4)]
    comparison = Comparison(study.encodings, evaluated_folds(study), methods=methods, leave_out=leave_out)
    for result in evaluate(comparison, methods, seed=seed):
        expected = study_accuracy(study, result.set, result.gallery, result.method, 1, leave_out=leave_out)
        assert result.top1 == pytest.approx(expected, abs=1e-9), result


def test_who_alone_has_a_disorder_in_the_gallery_misses_it_and_is_named():
    study = study_of([[1, 0], [1, 0], [0, 1]], (["0 p A", "2 q B"], ["1 p A"]))
    comparison = compared(study)
    assert study.tested_and_in_gallery == (("p",),)
    assert comparison.ranks("freq", "unified", FULL)[0].ranks.tolist() == [MISSED]
    assert not_in_gallery(comparison) == {"unified": ["p"]}
    with pytest.raises(InvalidStudyError, match=r"fold 0: 1 patients are in the gallery and in the test set: 'p'"):
        study.refuse_tested_in_gallery()


def test_a_disorder_in_both_parts_is_refused():
    encodings = Encodings.of(["0", "1"], np.eye(2))
    fold = Fold(Split((Label("0", "p", "A"),), ()), Split((), (Label("1", "q", "A"),)))
    with pytest.raises(InvalidStudyError, match="frequent and in the rare"):
        Study("by hand", encodings, (fold,))


def test_a_labelled_image_without_an_embedding_is_refused_by_name():
    with pytest.raises(InvalidStudyError, match="without an encoding: '7'"):
        study_of([[1, 0]], (["0 g A"], ["7 p A"]))


def test_a_study_without_test_patients_is_refused():
    with pytest.raises(InvalidStudyError, match="nobody to test"):
        study_of([[1, 0]], (["0 g A"], []))


def test_folds_that_share_a_gallery_give_the_same_as_folds_that_do_not():
    study = random_study(5)
    frequent = study.folds[0].frequent
    shared = Study("shared", study.encodings, (Fold(frequent, NOBODY), Fold(frequent, NOBODY)))
    copied = Split((*frequent.gallery,), (*frequent.test,))
    apart = Study("apart", study.encodings, (Fold(frequent, NOBODY), Fold(copied, NOBODY)))
    assert evaluate(compared(shared), [BASELINE, FULL]) == evaluate(compared(apart), [BASELINE, FULL])


class TestFoldsOfACohort:
    def test_every_patient_of_a_frequent_disorder_is_tested_once(self):
        study = random_study(1, folds=4)
        frequent = {label.patient_id for fold in study.folds for label in fold.frequent.test}
        for patient_id in frequent:
            folds = [patient_id in {label.patient_id for label in fold.frequent.test} for fold in study.folds]
            assert sum(folds) >= 1
        labels = {label for fold in study.folds for label in (*fold.frequent.gallery, *fold.frequent.test)}
        assert {label.patient_id for label in labels} == frequent

    def test_disorders_are_frequent_above_six_patients(self):
        study = random_study(2)
        patients = {}
        for fold in study.folds:
            for part, split in zip(("frequent", "rare"), fold, strict=True):
                for label in (*split.gallery, *split.test):
                    patients.setdefault((part, label.disorder_id), set()).add(label.patient_id)
        assert {part for part, _ in patients} == {"frequent", "rare"}
        for (part, _), of_disorder in patients.items():
            assert (len(of_disorder) > 6) == (part == "frequent")

    def test_the_only_patient_of_a_disorder_stays_in_the_gallery(self):
        cohort = Cohort.of(
            np.eye(3), image_ids=["1", "2", "3"], patient_ids=["p", "q", "r"], disorder_ids=["A", "A", "B"]
        )
        study = cohort_study(cohort, "by hand", seed=1)
        for fold in study.folds:
            assert len(fold.rare.test) == 1
            assert "r" in {label.patient_id for label in fold.rare.gallery}

    def test_who_has_two_disorders_is_not_tested_for_one_that_nobody_else_has(self):
        labels = [(f"{i}", f"p{i}", "A") for i in range(8)] + [("0", "p0", "X")]
        cohort = Cohort.join(Encodings.of([str(i) for i in range(8)], np.eye(8)), [Label(*label) for label in labels])
        study = cohort_study(cohort, "by hand", seed=1)
        assert {label.disorder_id for fold in study.folds for split in fold for label in split.test} == {"A"}
        assert not_in_gallery(compared(study)) == {"unified": [], "split": []}

    def test_galleries_can_be_thinned(self):
        cohort = random_cohort(np.random.default_rng(4), most_patients=9)
        study = cohort_study(cohort, "thin", seed=1, gallery_patients="2")
        for fold in study.folds:
            for split in fold:
                patients = {(label.disorder_id, label.patient_id) for label in split.gallery}
                counts = [sum(d == disorder for d, _ in patients) for disorder, _ in patients]
                assert max(counts, default=0) <= 2

    def test_the_same_seed_gives_the_same_folds(self):
        assert random_study(8).folds == random_study(8).folds

    def test_a_seed_matters(self):
        cohort = random_cohort(np.random.default_rng(4), most_patients=9)
        one, other = (cohort_study(cohort, "x", seed=seed) for seed in (1, 2))
        assert one.folds != other.folds

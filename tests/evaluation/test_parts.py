"""Galleries in several parts and blocks of patients: the ranks are those of one part and of all at once."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien import BASELINE, FULL, Encodings, Label
from mien.core.embeddings import unit_rows
from mien.core.gallery_parts import LocalParts
from mien.errors import InvalidMethodError, InvalidStudyError
from mien.evaluation import distance_tables, gallery_images
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.folds import cohort_study
from mien.evaluation.gallery_images import GalleryImages, Groups, image_ids_of_parts
from mien.evaluation.parallel import in_parallel
from mien.evaluation.probe_rows import ProbeRows
from mien.evaluation.results import evaluate, not_in_gallery

from cohorts import random_cohort
from scores import ALL_METHODS

METHODS = ALL_METHODS


def random_study(seed):
    rng = np.random.default_rng(seed)
    cohort = random_cohort(rng, representations=2, disorders=5, most_patients=9, dimensions=4, two_disorder_patients=3)
    return cohort_study(cohort, "a random cohort", seed=seed, folds=3)


class Apart(LocalParts):
    """Every question and every answer travels, as between machines."""

    def ask_each(self, questions):
        there = zip(pickle.loads(pickle.dumps(questions)), self.parts, strict=True)
        return [pickle.loads(pickle.dumps(question(part))) for question, part in there]

    def combined(self, asks, combine):
        return super().combined(asks, pickle.loads(pickle.dumps(combine)))


def apart(encodings, count):
    def parts(_encodings, galleries):
        row_of = {image_id: row for row, image_id in enumerate(encodings.image_ids)}
        return Apart(
            [
                GalleryImages.of(encodings.only([row_of[image_id] for image_id in image_ids]), Groups.of(galleries))
                for image_ids in image_ids_of_parts(galleries, count)
            ]
        )

    return parts


def all_ranks(comparison):
    return [
        fold.ranks.tolist()
        for test_set in comparison.sets
        for gallery in comparison.galleries
        for method in METHODS
        for fold in comparison.ranks(test_set, gallery, method)
    ]


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 6))
def test_several_parts_rank_as_one(seed, count):
    study = random_study(seed)
    rounds = evaluated_folds(study)
    one = Comparison(study.encodings, rounds, methods=METHODS)
    several = Comparison(study.encodings, rounds, methods=METHODS, parts=apart(study.encodings, count))
    assert all_ranks(several) == all_ranks(one)


@given(seed=st.integers(0, 2**32 - 1), fused=st.booleans())
def test_fused_images_are_as_far_away_as_their_mean(seed, fused):
    rng = np.random.default_rng(seed)
    embeddings = rng.standard_normal((9, 3, 4)).astype(np.float32)
    embeddings[8, 0] = -embeddings[7, 0]  # they cancel out in one representation
    others = unit_rows(rng.standard_normal((5, 3, 4)))
    probes = [(image,) for image in rng.permutation(9).tolist()]
    probes += [(0, 1), (1, 2), (0, 1, 2), (7, 8), (3, 3)] if fused else []
    probes = [probes[place] for place in rng.permutation(len(probes))]
    found = ProbeRows.of(embeddings, probes)
    for probe, distances in zip(probes, found.distances(others), strict=True):
        means = embeddings[list(probe)].astype(np.float64).mean(axis=0)
        for other, distance in zip(others, distances, strict=True):
            assert distance == pytest.approx(1 - unit_rows(means[np.newaxis])[0] @ other, abs=1e-14)


@pytest.fixture
def small_blocks(monkeypatch):
    """A few probes and a few images at a time."""
    monkeypatch.setattr(distance_tables, "NUMBERS_PER_BLOCK", 3000)
    monkeypatch.setattr(distance_tables, "GROUPS_PER_QUESTION", 4)
    for module in (gallery_images, distance_tables):
        monkeypatch.setattr(module, "IMAGES_PER_BLOCK", 7)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_blocks_rank_as_all_at_once(seed, request):
    study = random_study(seed)
    rounds = evaluated_folds(study)
    whole = all_ranks(Comparison(study.encodings, rounds, methods=METHODS))
    request.getfixturevalue("small_blocks")
    steps = []
    in_blocks = Comparison(study.encodings, rounds, methods=METHODS, progress=lambda *step: steps.append(step))
    assert len(steps) > 4
    assert all_ranks(in_blocks) == whole


def test_results_do_not_depend_on_which_other_methods_are_compared():
    study = random_study(1)
    many = Comparison(study.encodings, evaluated_folds(study), methods=METHODS)
    few = Comparison(study.encodings, evaluated_folds(study), methods=[BASELINE, FULL])
    assert evaluate(few, [BASELINE, FULL], seed=1) == evaluate(many, [BASELINE, FULL], seed=1)
    assert not_in_gallery(few) == not_in_gallery(many)


def test_after_an_error_nobody_waits_for_work_that_has_not_begun():
    begun = []

    def work(item):
        begun.append(item)
        time.sleep(0.01)
        if item == 0:
            raise InvalidStudyError("no")

    with pytest.raises(InvalidStudyError, match="no"):
        list(in_parallel(work, range(300)))
    assert len(begun) < 300


def test_a_method_that_was_not_named_ahead_is_refused():
    study = random_study(1)
    comparison = Comparison(study.encodings, evaluated_folds(study), methods=[BASELINE, FULL], galleries=["unified"])
    assert comparison.methods == (BASELINE, FULL)
    with pytest.raises(InvalidMethodError, match=r"image-centroid.*was not compared"):
        comparison.ranks("freq", "unified", METHODS[1])
    with pytest.raises(InvalidMethodError, match="split gallery"):
        comparison.ranks("freq", "split", FULL)


class TestParts:
    def test_patients_are_dealt_whole_and_evenly(self):
        study = random_study(3)
        galleries = [split.gallery for fold in study.folds for split in fold]
        patient_of = {label.image_id: label.patient_id for gallery in galleries for label in gallery}
        parts = image_ids_of_parts(galleries, 4)
        assert sorted(image_id for part in parts for image_id in part) == sorted(patient_of)
        patients = [{patient_of[image_id] for image_id in part} for part in parts]
        assert sum(map(len, patients)) == len(set().union(*patients))
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 4  # images of one patient
        assert parts == image_ids_of_parts(galleries[::-1], 4)

    def test_a_disorder_is_in_several_parts_and_some_parts_lack_it(self):
        gallery = tuple(Label(f"{i}", f"p{i}", "A" if i < 3 else "B") for i in range(4))
        encodings = Encodings.of([f"{i}" for i in range(4)], np.eye(4))
        parts = [GalleryImages.of(encodings.only([i]), Groups.of([gallery])) for i in range(4)]
        rows = ProbeRows.of(encodings.embeddings, [(0,), (1,)])
        groups = [part.distances(rows=rows, groups=np.arange(2), each=True).groups.tolist() for part in parts]
        assert groups == [[0], [0], [0], [1]]

    def test_galleries_share_what_they_share(self):
        shared, own, other = (Label("1", "p", "A"), Label("2", "q", "B")), Label("3", "r", "C"), Label("4", "s", "C")
        groups = Groups.of([(*shared, own), (*shared[::-1], other)])
        assert [numbers.tolist() for numbers in groups.of_gallery] == [[0, 1, 2], [0, 1, 3]]

    @pytest.mark.parametrize(
        ("rows_of_part", "problem"),
        [([[0, 1], [2]], "1 gallery images without an encoding: '3'"), ([[0, 2], [1, 3]], "patient 'p' is in 2 parts")],
    )
    def test_parts_that_lack_an_image_or_share_a_patient_are_refused(self, rows_of_part, problem):
        labels = [Label(f"{i}", patient, "A") for i, patient in enumerate("ppqr")]
        encodings = Encodings.of([f"{i}" for i in range(4)], np.eye(4))
        study = random_study(1)
        rounds = [evaluated_folds(study)[0]._replace(galleries=(tuple(labels), ()))]

        def parts(_encodings, galleries):
            return LocalParts([GalleryImages.of(encodings.only(rows), Groups.of(galleries)) for rows in rows_of_part])

        with pytest.raises(InvalidStudyError, match=problem):
            Comparison(study.encodings, rounds, methods=[BASELINE], parts=parts)

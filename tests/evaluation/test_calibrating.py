"""What is learned from left-out patients, and how it is measured on others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mien import BASELINE, FULL, Cohort
from mien.answers.calibration import NONE_OF_THESE, WEIGHTS
from mien.answers.ranking import searcher_of
from mien.core.study import ImageFacts
from mien.errors import InvalidCalibrationError, InvalidStudyError
from mien.evaluation import evidence_model
from mien.evaluation.calibrating import calibrate, reliability_bins, size_classes
from mien.evaluation.calibration_measures import (
    CalibrationOutcome,
    ReliabilityPoint,
    calibration_error,
    calibration_rows,
    measures,
)
from mien.evaluation.evaluated_patients import EvaluatedPatient
from mien.evaluation.evidence_model import EvidenceModel, fitted
from mien.evaluation.fact_groups import FACTS
from mien.evaluation.folds import cohort_study, gallery_sizes
from mien.evaluation.known_patients import KnownPatients, known_patients

import oracle
from cohorts import as_plain_gallery, families


def random_patients(rng, patients=30, disorders=6):
    disorder = np.arange(patients) % disorders
    distances = rng.uniform(0.5, 1, (patients, disorders))
    distances[np.arange(patients), disorder] -= 0.2
    sizes = rng.integers(1, 9, (patients, disorders))
    return KnownPatients(
        distances, sizes, rng.integers(1, 4, patients), disorder, np.arange(patients), np.zeros(patients, bool)
    )


@pytest.mark.parametrize("absent", [False, True])
def test_slopes_are_those_of_small_steps(rng, absent):
    known = random_patients(rng)
    side = evidence_model._Side.of_absent(known) if absent else evidence_model._Side.of(known)
    weights, atypical = rng.standard_normal(len(WEIGHTS)), 0.2
    value, by_weights, by_logit = side.loss(EvidenceModel(weights, atypical))
    for place in range(len(WEIGHTS)):
        step = 1e-6 * np.eye(len(WEIGHTS))[place]
        there, _, _ = side.loss(EvidenceModel(weights + step, atypical))
        assert (there - value) / 1e-6 == pytest.approx(by_weights[place], abs=1e-5)
    logit = np.log(atypical / (1 - atypical)) + 1e-6
    there, _, _ = side.loss(EvidenceModel(weights, 1 / (1 + np.exp(-logit))))
    assert (there - value) / 1e-6 == pytest.approx(by_logit, abs=1e-5)


def test_the_loss_is_that_of_plain_loops(rng):
    known = random_patients(rng, patients=12)
    model = EvidenceModel(rng.standard_normal(len(WEIGHTS)), 0.1)
    value, _, _ = evidence_model._Side.of(known).loss(model)
    features = evidence_model.patient_features(known.distances, known.gallery_patients, known.photos)
    ratios = evidence_model.typical_ratios(features, model.weights)  # these have loops of their own, in tests/answers
    expected = 0.0
    for patient, true in enumerate(known.disorder.tolist()):
        alike = sum(1 for other in known.disorder.tolist() if other == true)
        said = (ratios[patient, true] * 0.5 / 6) / (0.5 + sum(ratio * 0.5 / 6 for ratio in ratios[patient]))
        expected -= math.log(0.9 * said + 0.1 * 0.5 / 6) / alike / 6
    assert value == pytest.approx(expected)


def test_left_out_patients_are_compared_with_all_others(rng):
    cohort = families(rng, disorders=4, patients=11)
    searcher = searcher_of(cohort)
    known = known_patients(searcher, cohort.index, FULL, rng=rng)
    ids = [disorder.disorder_id for disorder in cohort.roster.disorders]
    queries = {query.patient_id: query for query in cohort.queries()}
    for row, patient_id in list(enumerate(sorted(queries)))[::7]:
        gallery = as_plain_gallery(cohort, without=[patient_id])
        photos = oracle.plain(queries[patient_id].encodings.embeddings)
        expected = {disorder_id: distance for distance, disorder_id in oracle.ranking(photos, gallery, FULL)}
        assert known.distances[row] == pytest.approx([expected[each] for each in ids], abs=2e-3)
        assert ids[known.disorder[row]] == f"d{patient_id[1]}"
        assert known.gallery_patients[row].tolist() == [10] * 4  # or the true one would be known by its missing patient


def test_a_cohort_stands_for_its_disorders_and_trained_patients_are_not_learned_from(rng):
    gallery, others = families(rng, patients=12), families(rng, disorders=2, patients=15, prefix="new ")
    searcher = searcher_of(gallery)
    trained = [f"p5-{patient}" for patient in range(12)]
    known = known_patients(searcher, gallery.index, FULL, rng=rng, cohort=others, trained=trained)
    assert known.of_cohort.sum() == 30
    assert np.bincount(known.disorder).tolist() == [15, 15, 12, 12, 12]  # nobody of d5
    assert known.gallery_patients[0].tolist() == [12] * 6  # a patient of the cohort takes nothing away
    assert known.gallery_patients[-1].tolist() == [11] * 6


def test_patients_with_two_disorders_are_not_learned_from(rng):
    cohort = families(rng, patients=12)
    labels = [
        *cohort.roster.labels(),
        *(x._replace(disorder_id="d1") for x in cohort.roster.labels() if x.patient_id == "p0-0"),
    ]
    twice = Cohort.join(cohort.encodings, labels)
    assert len(np.unique(known_patients(searcher_of(twice), twice.index, FULL, rng=rng).person)) == 71


def test_photos_are_calibrated_one_by_one_where_they_are_ranked_so(rng):
    cohort = families(rng, patients=12)
    known = known_patients(searcher_of(cohort), cohort.index, BASELINE, rng=rng)
    assert len(known.disorder) == len(cohort.roster.image_ids)
    assert len(np.unique(known.person)) == 72
    assert calibrate(cohort, BASELINE).patients == 72


def test_too_small_galleries_are_refused_with_the_number_needed(rng):
    with pytest.raises(InvalidCalibrationError, match="3 disorders: 4 are needed"):
        calibrate(families(rng, disorders=3, patients=20), FULL)
    with pytest.raises(InvalidCalibrationError, match=r"24 patients .* 40 are needed"):
        calibrate(families(rng, disorders=6, patients=4), FULL)
    with pytest.raises(InvalidCalibrationError, match=r"0 patients .* 40 are needed"):
        calibrate(gallery := families(rng), FULL, trained=gallery.roster.patient_ids)
    with pytest.raises(InvalidCalibrationError, match="prior of 0 for none"):
        calibrate(families(rng), FULL, prior_of_none=0)
    with pytest.raises(InvalidCalibrationError, match="misses 1 disorders"):
        calibrate(families(rng), FULL, prior={f"d{d}": 1.0 for d in range(5)} | {NONE_OF_THESE: 1.0})


def test_weights_that_must_not_be_negative_are_not(rng):
    model = fitted(random_patients(rng, patients=80))
    assert all(model.weights[WEIGHTS.index(name)] >= 0 for name in evidence_model.NEVER_NEGATIVE)
    assert 0 < model.atypical < 0.51


def test_where_faces_say_nothing_the_prior_stays(rng):
    noise = families(rng, noise=60, patients=20)
    [answer] = calibrating_rank(noise, calibrate(noise, FULL))
    assert max(line.probability for line in answer.disorders) < 0.35  # six disorders


def calibrating_rank(cohort, calibration):
    from mien import rank

    return rank(cohort, cohort.queries()[0], top=None, calibration=calibration)


def test_prediction_sets_cover_as_often_as_they_say(rng):
    scores, sizes = rng.random(400), np.repeat([1, 30], 200)
    classes = size_classes(scores, sizes)
    assert [each.fewest_patients for each in classes] == [1, 21]
    fresh = rng.random(20_000)
    for each in classes:
        assert (fresh >= each.thresholds[90]).mean() == pytest.approx(0.9, abs=0.06)
        assert list(each.thresholds) == sorted(each.thresholds, reverse=True)
        assert each.thresholds[100] == 0


def test_small_classes_are_joined():
    sizes = np.array([1] * 10 + [4] * 50 + [10] * 5 + [40] * 60)
    assert [each.fewest_patients for each in size_classes(np.linspace(0, 1, 125), sizes)] == [1, 21]
    assert len(size_classes(np.linspace(0, 1, 12), np.full(12, 3))) == 1


def test_bins_count_every_patient_once():
    found = reliability_bins(np.array([0.0, 0.2, 0.21, 1.0]), np.array([True, False, True, True]))
    assert [tuple(each) for each in found] == [(0.2, 2, 1), (0.4, 1, 1), (0.6, 0, 0), (0.8, 0, 0), (1.0, 1, 1)]


def test_auroc_is_that_of_all_pairs(rng):
    absent, there = rng.integers(0, 5, 20) / 5, rng.integers(0, 5, 20) / 5
    disorders = rng.integers(0, 4, 20)
    patients = [EvaluatedPatient(f"{i}", f"{disorder}", (i,)) for i, disorder in enumerate(disorders)]
    outcomes = [
        CalibrationOutcome(*(patient, 0.5, True, 0.5, True, 1), *none, 0.5, 0.0)
        for patient, *none in zip(patients, there, absent, strict=True)
    ]
    weights = 1 / np.bincount(disorders)[disorders] / len(set(disorders.tolist()))
    pairs = sum(
        weights[i] * weights[j] * (1.0 if absent[i] > there[j] else 0.5 if absent[i] == there[j] else 0)
        for i in range(20)
        for j in range(20)
    )
    row = measures(outcomes, name="freq", group="", method=FULL, folds=1, seed=1)
    assert row.auroc_none == pytest.approx(pairs)


def test_the_calibration_error_of_what_was_said_exactly_is_zero():
    assert calibration_error([ReliabilityPoint("freq", 3, 0.5, 0.5)]) == 0


def test_calibration_is_measured_on_unseen_patients_and_by_subgroup(rng):
    cohort = families(rng, patients=16, noise=1.8)
    study = cohort_study(cohort, "families", seed=1, folds=4)
    groups = ["a" if "-0-" in image_id or "-1-" in image_id else None for image_id in study.encodings.image_ids]
    rows, outcomes = calibration_rows([study], FULL, by="letter", group_of_image=groups)
    assert [(row.set, row.group) for row in rows] == [("freq", ""), ("freq", "letter a"), ("freq", "letter unknown")]
    whole = rows[0]
    assert (whole.patients, whole.disorders, len(outcomes["freq"])) == (96, 6, 96)
    assert rows[1].patients + rows[2].patients == 96
    assert whole.top1_low <= whole.top1 <= whole.top1_high
    assert whole.coverage_low <= whole.coverage <= whole.coverage_high
    assert whole.auroc_none > 0.5
    assert whole.calibration_error < 0.25


def test_gmdb_facts_make_groups():
    assert FACTS["sex"](ImageFacts(3.0, "female")) == "female"
    assert [FACTS["age"](ImageFacts(age, None)) for age in (1.9, 2.0, 17.9, 40.0, None)] == [
        *("under 2", "2 to 11", "12 to 17", "18 and older"),
        None,
    ]
    assert FACTS["sex"](None) is None


def test_gallery_sizes_are_as_written():
    rng = np.random.default_rng(1)
    assert sorted(gallery_sizes("1-34", 4, rng=rng)) == [1, 3, 10, 34]
    for wrong in ("0", "x", "5-2", "", "2,0"):
        with pytest.raises(InvalidStudyError, match="write 5, or 2,30, or 1-34"):
            gallery_sizes(wrong, 3, rng=rng)

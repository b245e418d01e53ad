"""Likelihood ratios, probabilities and prediction sets, against plain loops; and answers that carry them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mien import FULL, Encoder, Method, Query, Score, rank
from mien.answers.calibration import (
    NEVER_NEGATIVE,
    NONE_OF_THESE,
    WEIGHTS,
    Calibration,
    ReliabilityBin,
    SizeClass,
    checked_prior,
    likelihood_ratios,
    patient_features,
    posterior,
    prediction_set,
    typical_ratios,
)
from mien.answers.ranking import searcher_of
from mien.core.gallery_parts import LocalParts
from mien.core.index import EACH
from mien.core.searcher import AskedQuery, Searcher
from mien.errors import EncoderMismatchError, InvalidCalibrationError
from mien.evaluation.calibrating import calibrate

from cohorts import families, random_cohort, random_query_arrays, with_views


def plain_ratio(distances, patients, photos, place, weights):
    """The ratio of one disorder of one query, in plain loops."""
    there = sorted(distance for distance in distances if math.isfinite(distance))
    if not math.isfinite(distances[place]):
        return 0.0
    own, size = distances[place], math.log(patients[place])
    mean = math.fsum(there) / len(there)
    spread = math.sqrt(math.fsum((distance - mean) ** 2 for distance in there) / len(there))
    three = [*there, there[-1], there[-1]][:3]  # the farthest stands for those that are not there
    other = three[1] if own <= three[0] else three[0]
    values = [1, -own, -own * size, size, other - own, *(-of for of in three), mean, spread, math.log(photos)]
    return math.exp(math.fsum(weight * value for weight, value in zip(weights, values, strict=True)))


def random_distances(rng, queries=5, disorders=7):
    distances = rng.uniform(0.3, 1.1, (queries, disorders))
    distances[0, 2] = np.inf
    distances[1, 3] = distances[1, 4] = distances[1].min()  # two are first
    distances[2, 2:] = distances[3, 1:] = np.inf  # two are left, and one
    return distances, rng.integers(1, 30, (queries, disorders)), rng.integers(1, 4, queries)


def test_ratios_and_probabilities_are_those_of_plain_loops(rng):
    distances, patients, photos = random_distances(rng)
    weights = rng.standard_normal(len(WEIGHTS))
    ratios = typical_ratios(patient_features(distances, patients, photos), weights)
    prior, none, atypical = rng.dirichlet(np.ones(7)) * 0.9, 0.1, 0.2
    probabilities, of_none = posterior(ratios, prior, none, atypical)
    for query in range(len(distances)):
        expected = [plain_ratio(distances[query], patients[query], photos[query], d, weights) for d in range(7)]
        assert ratios[query] == pytest.approx(expected)
        total = none + math.fsum(ratio * p for ratio, p in zip(expected, prior, strict=True))
        mixed = [0.8 * r * p / total + 0.2 * p * (r > 0) for r, p in zip(expected, prior, strict=True)]
        assert probabilities[query] == pytest.approx(mixed)
        assert of_none[query] == pytest.approx(0.8 * none / total + 0.2 * none)
    moved = likelihood_ratios(probabilities, of_none, prior, none)
    odds = probabilities / of_none[:, np.newaxis]
    np.testing.assert_allclose(moved * prior / none, odds)  # prior odds times ratio: posterior odds


def test_everything_adds_up_to_one(rng):
    distances, patients, photos = random_distances(rng)
    distances[np.isinf(distances)] = 0.5
    ratios = typical_ratios(patient_features(distances, patients, photos), rng.standard_normal(len(WEIGHTS)))
    probabilities, none = posterior(ratios, np.full(7, 0.13), 0.09, 0.05)
    np.testing.assert_allclose(probabilities.sum(axis=1) + none, 1)


def test_a_disorder_is_in_the_set_by_the_threshold_of_its_size():
    classes = (SizeClass(1, (1.0, 0.4, 0.0)), SizeClass(5, (1.0, 0.2, 0.0)))
    probabilities, patients = np.array([[0.3, 0.3, 0.0]]), np.array([[4, 5, 9]])
    assert prediction_set(probabilities, patients, classes, 0.5).tolist() == [[False, True, False]]
    assert prediction_set(probabilities, patients, classes, 0.75).tolist() == [[True, True, False]]  # half way down
    for coverage in (0, 1, -0.1, 1.5, math.nan):
        with pytest.raises(InvalidCalibrationError, match="coverage"):
            prediction_set(probabilities, patients, classes, coverage)


def test_a_table_of_priors_names_every_disorder_and_no_other():
    none, of = checked_prior({"a": 2, "b": 1, NONE_OF_THESE: 1}, ["a", "b"])
    assert (none, of) == (0.25, {"a": 0.5, "b": 0.25})
    for wrong, match in (
        ({"a": 1, NONE_OF_THESE: 1}, "misses 1 disorders: 'b'"),
        ({"a": 1, "b": 1}, "misses 1 disorders: 'none of these'"),
        ({"a": 1, "b": 1, "c": 1, NONE_OF_THESE: 1}, "lacks: 'c'"),
        ({"a": 0, "b": 1, NONE_OF_THESE: 1}, "'a' is not above zero"),
        ({"a": math.inf, "b": 1, NONE_OF_THESE: 1}, "'a' is not above zero"),
    ):
        with pytest.raises(InvalidCalibrationError, match=match):
            checked_prior(wrong, ["a", "b"])


@pytest.fixture(scope="module")
def cohort():
    return families(np.random.default_rng(1))


@pytest.fixture(scope="module")
def calibration(cohort):
    return calibrate(cohort, FULL)


def test_estimates_are_close_to_measured_distances_and_leave_the_own_patient_out(rng):
    cohort = random_cohort(rng, disorders=8, dimensions=64)
    queries = cohort.queries()[:9]
    searcher = searcher_of(cohort)
    asked = [AskedQuery(*of) for of in zip(queries, searcher.own_patients(queries), strict=True)]
    ids = [disorder.disorder_id for disorder in cohort.roster.disorders]
    for method in (FULL, Method("distance", "nearest"), Method("embedding", "size-aware")):
        found = np.concatenate([each.distances(method) for each in searcher.estimates(asked, method)])
        for row, ranking in zip(found, rank(cohort, queries, method, top=None), strict=True):
            exact = {line.disorder_id: line.distance for line in ranking.disorders}
            assert [np.isfinite(value) for value in row] == [disorder_id in exact for disorder_id in ids]
            assert [row[ids.index(each)] for each in exact] == pytest.approx(list(exact.values()), abs=2e-3)


@pytest.mark.parametrize("method", [FULL, Method("embedding", "nearest")], ids=["full", "nearest"])
@pytest.mark.parametrize("noise", [0.0, 0.2], ids=["one view", "four views"])
def test_probabilities_do_not_depend_on_batch_parts_or_length_of_the_list(cohort, rng, method, noise):
    if noise:  # what views do not have in common is more for some photos than for others
        uneven = noise * rng.uniform(0.2, 1.2, (len(cohort.embeddings), 1, 1))
        cohort = with_views(cohort, rng, uneven)
        assert cohort.index.images.alike != EACH
    calibration = calibrate(cohort, method)
    queries = [*cohort.queries()[:20:3], Query.of(random_query_arrays(rng, cohort, 2))]
    together = rank(cohort, queries, method, top=3, calibration=calibration)
    patients = sorted(cohort.roster.patient_ids)
    halves = [_part(cohort, chosen) for chosen in (patients[::2], patients[1::2])]
    in_parts = Searcher.of(LocalParts(halves))
    for number, query in enumerate(queries):
        for other in (
            rank(cohort, query, method, top=None, calibration=calibration),
            rank(in_parts, query, method, top=3, calibration=calibration),
        ):
            [alone] = other
            assert alone.none_of_these == pytest.approx(together[number].none_of_these, rel=1e-4)
            assert alone.prediction_set == together[number].prediction_set
            for mine, theirs in zip(alone.disorders[:3], together[number].disorders, strict=True):
                assert mine.disorder_id == theirs.disorder_id
                assert mine.probability == pytest.approx(theirs.probability, rel=1e-4)
                assert mine.log10_likelihood_ratio == pytest.approx(theirs.log10_likelihood_ratio, abs=1e-4)


def _part(cohort, patient_ids):
    from mien import Cohort

    chosen = set(patient_ids)
    return Cohort.join(cohort.encodings, [x for x in cohort.roster.labels() if x.patient_id in chosen]).index


def test_an_answer_says_what_stands_behind_it(cohort, calibration):
    [answer] = rank(cohort, cohort.queries()[0], top=None, calibration=calibration)
    assert sum(line.probability for line in answer.disorders) + answer.none_of_these == pytest.approx(1)
    facts = answer.calibration
    assert (facts.patients, facts.stale) == (60, False)
    assert facts.largest_log10_likelihood_ratio == pytest.approx(math.log10(60))
    assert all(abs(line.log10_likelihood_ratio) <= math.log10(60) for line in answer.disorders)
    assert 0 <= facts.of_them_right <= facts.patients_with_such_an_answer <= 60
    assert set(answer.to_arrow().column_names) > {"probability", "log10_likelihood_ratio"}
    [plain] = rank(cohort, cohort.queries()[0])
    assert plain.none_of_these is None
    assert "probability" not in plain.to_arrow().column_names


def test_a_calibration_is_for_its_method_encoder_and_gallery(cohort, calibration):
    query = cohort.queries()[0]
    with pytest.raises(InvalidCalibrationError, match=r"hybrid 0\.75, not for .*nearest: run mien calibrate"):
        rank(cohort, query, Method("embedding", "nearest"), calibration=calibration)
    with pytest.raises(EncoderMismatchError):
        rank(cohort, query, calibration=replace(calibration, encoder=Encoder(2, 12)))
    with pytest.raises(InvalidCalibrationError, match="another gallery"):
        rank(cohort, query, calibration=replace(calibration, fingerprint="of another gallery"))


def test_an_edited_score_needs_a_new_calibration(cohort):
    def edition(weight):
        return Method(score=Score("edited", lambda evidence: evidence.nearest + weight / evidence.gallery_patients))

    calibration = calibrate(cohort, edition(0.1))
    assert rank(cohort, cohort.queries()[0], edition(0.1), calibration=calibration)[0].prediction_set
    with pytest.raises(InvalidCalibrationError, match="the score edited has changed: run mien calibrate again"):
        rank(cohort, cohort.queries()[0], edition(0.2), calibration=calibration)
    older = replace(calibration, behaviour="")
    assert rank(cohort, cohort.queries()[0], edition(0.2), calibration=older)[0].prediction_set


def test_a_calibration_is_written_and_read_back(calibration):
    import json

    assert Calibration.from_dict(json.loads(json.dumps(calibration.as_dict()))) == calibration
    with pytest.raises(InvalidCalibrationError, match="no calibration that this version can read"):
        Calibration.from_dict({"weights": {}})


def test_a_disorder_that_came_later_has_a_usual_prior(calibration):
    given = replace(calibration, prior={"a": 0.6, "b": 0.3}, prior_of_none=0.1)
    assert given.priors(["a", "b", "c"]) == pytest.approx(np.array([0.6, 0.3, 0.45]) * 0.9 / 1.35)


def test_of_two_disorders_with_as_many_patients_the_closer_one_is_never_less_likely(rng):
    """Whatever was fitted, as long as the weights are allowed."""
    distances, photos = rng.uniform(0.3, 1.1, (50, 6)).round(2), np.ones(50, int)  # some tie
    patients = np.repeat(rng.integers(1, 12, (50, 1)), 6, axis=1)
    for _ in range(20):
        weights = rng.standard_normal(len(WEIGHTS)) * 10
        allowed = np.array([abs(w) if name in NEVER_NEGATIVE else w for name, w in zip(WEIGHTS, weights, strict=True)])
        ratios = typical_ratios(patient_features(distances, patients, photos), allowed)
        in_order = np.take_along_axis(ratios, np.argsort(distances, axis=1), axis=1)
        assert (np.diff(in_order, axis=1) <= 1e-9 * in_order[:, 1:]).all()


def test_where_nobody_had_such_an_answer_it_says_zero(calibration):
    assert isinstance(calibration.reliability[0], ReliabilityBin)
    assert sum(each.patients for each in calibration.reliability) == 60

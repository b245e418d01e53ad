"""The size-aware score that fits a gallery, and how it is compared with `full`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mien import FULL, Cohort, Method
from mien.answers.ranking import searcher_of
from mien.errors import InvalidCalibrationError
from mien.evaluation import tuning
from mien.evaluation.folds import cohort_study
from mien.evaluation.known_patients import KnownPatients, known_patients
from mien.evaluation.outcomes import MEASURES
from mien.evaluation.size_study import intervals, size_study
from mien.evaluation.tuning import RIDGE, known_patients_of_thinned, size_terms, tune

import oracle
from cohorts import as_plain_gallery, families


def uneven(rng, sizes=(2, 3, 5, 12, 12, 14), **given):
    """Families of these sizes."""
    cohort = families(rng, disorders=len(sizes), patients=max(sizes), **given)
    kept = [
        label
        for label in cohort.roster.labels()
        if int(label.patient_id.split("-")[1]) < sizes[int(label.disorder_id[1:])]
    ]
    return Cohort.join(cohort.encodings, kept)


def drawn_patients(rng, patients, *, offset, slope, sharpness=20, disorders=5):
    """Whose disorder is drawn as the size-aware distances say."""
    distances, sizes = rng.uniform(0.2, 1, (patients, disorders)), rng.integers(1, 40, (patients, disorders))
    logits = -sharpness * (distances + (offset + slope * distances) * np.log(sizes)) + rng.gumbel(size=distances.shape)
    people = np.arange(patients)
    return KnownPatients(
        distances, sizes, np.ones(patients, int), np.argmax(logits, axis=1), people, np.zeros(patients, bool)
    )


def plain_loss(known, offset, slope, sharpness):
    """Minus the log-likelihood of the true disorders, each patient the same, and what draws the terms to zero."""
    rows = known.distances.tolist()
    every = [distance for row in rows for distance in row]
    middle = math.fsum(every) / len(every)
    spread = math.sqrt(math.fsum((distance - middle) ** 2 for distance in every) / len(every))
    total = 0.0
    for row, sizes, true in zip(rows, known.gallery_patients.tolist(), known.disorder.tolist(), strict=True):
        scores = [
            math.exp(-sharpness * (distance + (offset + slope * distance) * math.log(size)))
            for distance, size in zip(row, sizes, strict=True)
        ]
        total -= math.log(scores[true] / sum(scores)) / len(rows)
    pulls = (sharpness * (offset + slope * middle)) ** 2 + (sharpness * slope * spread) ** 2
    return total + RIDGE / len(rows) / 2 * pulls


def test_terms_are_those_of_the_smallest_loss_in_plain_loops(rng):
    known = drawn_patients(rng, 60, offset=0.05, slope=0.2)
    found = size_terms(known, np.zeros(60, int))

    def loss(offset, slope):
        return min(plain_loss(known, offset, slope, sharpness) for sharpness in np.geomspace(5, 80, 60))

    least = loss(*found)
    for step in (0.01, -0.01):
        assert loss(found.offset + step, found.slope) > least
        assert loss(found.offset, max(0, found.slope + 5 * step)) >= least


@pytest.mark.parametrize(("offset", "slope"), [(0.05, 0.0), (-0.1, 0.3)])
def test_terms_are_found_again(rng, offset, slope):
    found = size_terms(drawn_patients(rng, 6000, offset=offset, slope=slope), np.zeros(6000, int))
    assert found == pytest.approx((offset, slope), abs=0.05)


def test_every_group_counts_the_same(rng):
    known, few = drawn_patients(rng, 300, offset=0.1, slope=0), drawn_patients(rng, 30, offset=0, slope=0)
    joined = KnownPatients.joined([known, few, few, few, few, few, few, few, few, few, few])
    once = KnownPatients.joined([known, few])
    of_all, of_two = (size_terms(each, np.repeat([0, 1], [300, len(each.disorder) - 300])) for each in (joined, once))
    assert of_all == pytest.approx(of_two, abs=1e-3)  # asked ten times, and still half of the weight


def test_who_is_asked_about_is_not_in_the_thinned_gallery(rng, monkeypatch):
    cohort, galleries = uneven(rng), []
    thinned = tuning.thinned
    monkeypatch.setattr(tuning, "thinned", lambda *a, **k: galleries.append(thinned(*a, **k)) or galleries[-1])
    known, group = known_patients_of_thinned(cohort, rng=rng)
    ids, sizes = [disorder.disorder_id for disorder in cohort.roster.disorders], cohort.roster.patients_of_disorder
    queries, row = cohort.queries(), 0
    assert len(galleries) == tuning.GALLERIES
    for number, kept in enumerate(galleries):
        inside = {label.patient_id for label in kept}
        counts = [len({label.patient_id for label in kept if label.disorder_id == each}) for each in ids]
        assert min(counts) > 0
        assert (np.array(counts) < sizes).all()
        gallery = as_plain_gallery(Cohort.join(cohort.encodings, kept))
        for query in sorted((each for each in queries if each.patient_id not in inside), key=lambda q: q.patient_id):
            assert cohort.roster.patient_ids[known.person[row]] == query.patient_id
            assert known.gallery_patients[row].tolist() == counts
            assert group[row] == number * len(ids) + int(query.patient_id[1])
            if row % 97 == 0:
                ranking = oracle.ranking(oracle.plain(query.encodings.embeddings), gallery, FULL)
                expected = {disorder_id: distance for distance, disorder_id in ranking}
                assert known.distances[row] == pytest.approx([expected[each] for each in ids], abs=2e-3)
            row += 1
    assert row == len(group)


def test_a_cohort_is_asked_about_and_trained_patients_are_not(rng):
    others, trained = families(rng, disorders=2, patients=15, prefix="new "), [f"p5-{number}" for number in range(14)]
    known, _ = known_patients_of_thinned(uneven(rng), rng=rng, cohort=others, trained=trained)
    assert set(known.disorder.tolist()) == {0, 1, 2, 3, 4}
    assert len(set(known.person[known.disorder < 2].tolist())) == 30


def test_where_sizes_are_the_same_the_tuned_method_is_full(rng):
    found = tune(families(rng))
    assert found.method == Method("embedding", "size-aware", offset=0, slope=0)
    assert [gain[1:] for gain in found.gains] == [(0, 0, 0)] * 3


def test_tuning_is_repeatable(rng):
    cohort = uneven(rng, noise=2.5)
    assert (found := tune(cohort)) == tune(cohort)
    assert found.patients == 48
    assert [gain.measure for gain in found.gains] == list(MEASURES)


def test_the_gain_is_of_patients_whom_the_fit_has_not_seen(rng, monkeypatch):
    known, seen = drawn_patients(rng, 400, offset=0.2, slope=0), []
    monkeypatch.setattr(tuning, "known_patients_of_thinned", lambda *_, **__: (known, known.disorder))
    monkeypatch.setattr(tuning, "size_terms", lambda of, group: seen.append(of.person) or size_terms(of, group))
    found = tune(families(rng))
    *of_parts, of_all = seen
    assert np.bincount(np.concatenate(of_parts)).tolist() == [len(of_parts) - 1] * 400
    assert len(of_all) == 400
    assert all(gain.low > 0 for gain in found.gains)
    known = known._replace(disorder=rng.integers(5, size=400))  # distances say nothing: nothing is gained
    assert all(abs(gain.difference) < 6 and gain.low < 0 < gain.high for gain in tune(families(rng)).gains)


def test_too_small_galleries_are_refused(rng):
    with pytest.raises(InvalidCalibrationError, match="3 disorders: 4 are needed"):
        tune(uneven(rng, sizes=(20, 20, 20, 1, 1)))  # two have nobody else
    with pytest.raises(InvalidCalibrationError, match=r"30 patients .* 40 are needed"):
        tune(uneven(rng, sizes=(10, 10, 5, 5)))
    with pytest.raises(InvalidCalibrationError, match="0 disorders"):
        tune(families(rng, patients=1))


def test_sizes_change_what_a_size_aware_method_gains(rng):
    cohort = families(rng, patients=20, noise=2.5)
    for sizes in ("2,10", "8"):
        studies = [[cohort_study(cohort, "x", seed=seed, folds=2, gallery_patients=sizes) for seed in (1, 2)]]
        rows = size_study(studies, gallery_patients=sizes)
        assert [(row.method, row.measure) for row in rows] == [
            (method, measure) for method in ("full", "size-aware", "tuned") for measure in MEASURES
        ]
        if sizes == "8":  # all of one size: nothing to correct
            assert all(row.difference == 0 for row in rows)
        assert all(row.difference == 0 for row in rows if row.method == "full")
        assert {(row.patients, row.repeats) for row in rows} == {(120, 2)}


def test_intervals_of_no_difference_are_nothing():
    assert intervals(np.zeros(10), np.arange(10) % 2, seed=1) == (0, 0, 0, 0)


def test_a_size_aware_method_without_terms_is_full(rng):
    cohort = families(rng)
    same = Method("embedding", "size-aware", offset=0.0)
    of_full, of_same = (
        known_patients(searcher_of(cohort), cohort.index, method, rng=rng).distances for method in (FULL, same)
    )
    np.testing.assert_allclose(of_full, of_same)

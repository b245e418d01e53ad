"""Each experiment on a study small enough to know the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien import BASELINE, FULL, Encodings, Label, Method
from mien.core.embeddings import Encoder
from mien.core.method import TWELVE_METHODS
from mien.core.study import Fold, ImageFacts, Release, Split, Study
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import Comparison, Ranks
from mien.evaluation.evaluated_patients import EvaluatedPatient, evaluated_folds, validation_folds
from mien.evaluation.experiment_context import ExperimentContext
from mien.evaluation.experiments import (
    EXPERIMENTS,
    METHODS_OF,
    confounders,
    distances,
    gallery_size,
    growth,
    lambda_selection,
    lambda_sensitivity,
    methods_of,
    number_of_images,
    oracle,
    overview,
    proportional,
    rank_changes,
    settings,
    splits,
    tsne,
)

from studies import latent_gmdb, with_few_disorders


def labels(*texts):
    return tuple(Label(*text.split()) for text in texts)


EVERY_METHOD = methods_of(EXPERIMENTS)


def context_of(embeddings, gallery, test, *, train=(), validation=(), facts=None):
    """One fold of frequent disorders; images are "0", "1", ..."""
    image_ids = [str(number) for number in range(len(embeddings))]
    fold = Fold(Split(labels(*gallery), labels(*test)), Split((), ()))
    study = Study(
        "by hand",
        Encodings.of(image_ids, np.array(embeddings, dtype=float)),
        (fold,),
        labels(*train),
        labels(*validation),
        facts_of_image=facts or {},
    )
    return ExperimentContext(study, Comparison(study.encodings, evaluated_folds(study), methods=EVERY_METHOD))


@pytest.fixture(scope="module")
def small_lab():
    """Every fourth disorder of a simulated GMDB of latent size, two folds of it."""
    study = with_few_disorders(latent_gmdb(1), folds=2, one_of=4)
    return ExperimentContext(study, Comparison(study.encodings, evaluated_folds(study), methods=EVERY_METHOD), 1)


@pytest.fixture(scope="module")
def whole_lab():
    """All its disorders, for what needs many patients: two folds, the unified gallery, few methods."""
    study = latent_gmdb(1)
    methods = methods_of(["gallery_size"])
    comparison = Comparison(study.encodings, evaluated_folds(study)[:2], methods=methods, galleries=["unified"])
    return ExperimentContext(study, comparison, 1)


def at(degrees):
    return [np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]


# gallery: A at 0 degrees, B at 40, C at 90
GALLERY = ["0 a A", "1 b B", "2 c C"]
PLACES = [at(0), at(40), at(90)]


class TestOracle:
    def test_the_best_photo_of_each_patient_counts(self):
        # photos of p (disorder A): at 10 (rank 1), at 80 (rank 3); of q (disorder C): both near B
        context = context_of([*PLACES, at(10), at(80), at(45), at(50)], GALLERY, ["3 p A", "4 p A", "5 q C", "6 q C"])
        tables = oracle.run(context)
        by = {line.approach: line for line in tables["oracle"]}
        assert by["single image"].top1 == pytest.approx(25)
        assert by[oracle.ORACLE].top1 == pytest.approx(50)

    def test_every_score_has_the_oracle_of_its_own_ranks(self, small_lab):
        lines = {(line.set, line.score, line.approach): line for line in oracle.run(small_lab)["oracle_scores"]}
        assert len(lines) == 2 * 3 * 4
        for test_set, score, approach in lines:
            single = small_lab.comparison.ranks(test_set, "unified", Method("none", score))
            if approach == oracle.ORACLE:
                best = tops([oracle.best_image_ranks(fold) for fold in single])
                assert lines[test_set, score, approach][3:] == pytest.approx(best[:3])
                assert best.top1 >= lines[test_set, score, "single image"].top1

    def test_patients_are_compared_with_their_best_photo(self):
        patients = evaluated_folds(context_of([*PLACES, at(1)], GALLERY, ["3 p A"]).study)[0].patients["freq"]
        three = patients * 3
        best = Ranks(np.array([2, 2, 2]), np.arange(3), three, None)
        fused = Ranks(np.array([1, 2, 5]), np.arange(3), three, None)
        assert oracle.against(fused, best) == pytest.approx([1 / 3, 1 / 3, 1 / 3])
        single = Ranks(np.array([2, 9, 2, 2, 4, 6]), np.array([0, 0, 1, 1, 2, 2]), three, None)
        assert oracle.against(single, best) == pytest.approx([0, (0.5 + 1) / 3, (0.5 + 1) / 3])


class TestRankChanges:
    def test_ranks_are_censored_before_they_are_averaged(self):
        fold = Ranks(np.array([2, 50, 4]), np.array([0, 0, 1]), (), None)
        assert rank_changes.mean_ranks([fold], censored_at=30).tolist() == [16, 4]
        assert rank_changes.mean_ranks([fold]).tolist() == [26, 4]

    def test_improved_unchanged_worsened(self, small_lab):
        for line in rank_changes.run(small_lab)["rank_changes"]:
            assert line.improved + line.unchanged + line.worsened == pytest.approx(100)
            if line.stage == "baseline":
                assert (line.improved, line.worsened) == (0, 0)

    def test_fusion_alone_leaves_patients_with_one_image_where_they_are(self, small_lab):
        for line in rank_changes.run(small_lab)["rank_changes"]:
            if line.stage in rank_changes.BESIDE:
                one_image = 0 if line.set.startswith("multi") else 50
                assert line.unchanged_with_one_image >= one_image
                assert line.unchanged > one_image

    def test_flows_begin_and_end_in_the_shares_of_their_stages(self, small_lab):
        tables = rank_changes.run(small_lab)
        for change in tables["rank_changes"]:
            for state in ("improved", "unchanged", "worsened"):
                share = getattr(change, state)
                for end in ("from", "to"):
                    flows = [
                        flow.percent
                        for flow in tables["rank_flows"]
                        if flow.set == change.set
                        and getattr(flow, f"{end}_stage") == change.stage
                        and getattr(flow, f"{end}_state") == state
                    ]
                    assert not flows or sum(flows) == pytest.approx(share)

    def test_changes_beyond_thirty_are_no_changes(self):
        many = [at(degrees) for degrees in np.linspace(0, 170, 60)]
        gallery = [f"{i} g{i} D{i:02}" for i in range(60)]
        # the true disorder is 60th and 42nd of 60 for the two photos, 46th when they are fused: the second is longer
        context = context_of([*many, at(0), np.multiply(10, at(110))], gallery, ["60 p D59", "61 p D59"])
        [full] = [
            line for line in rank_changes.run(context)["rank_changes"] if (line.set, line.stage) == ("freq", "full")
        ]
        single = context.comparison.ranks("freq", "unified", BASELINE)[0].ranks.tolist()
        fused = context.comparison.ranks("freq", "unified", FULL)[0].ranks.tolist()
        assert min(single) >= 30
        assert fused[0] < np.mean(single)
        assert fused[0] >= 30
        assert (full.unchanged, full.improved_uncensored) == (100, 100)


class TestLambda:
    def test_validation_prefers_the_centroid_where_the_nearest_photo_misleads(self):
        # the validation photo lies at the centre of A's photos (-40, 40); B has one photo that is nearer than any of A
        embeddings = [at(-40), at(40), at(15), at(100), at(0)]
        train = ["0 a A", "1 b A", "2 c B", "3 d B"]
        fold = Fold(Split(labels(*train), ()), Split((), labels("5 t Z")))
        study = Study(
            "by hand",
            Encodings.of([str(i) for i in range(6)], np.array([*embeddings, at(7)])),
            (fold,),
            labels(*train),
            labels("4 v A"),
        )
        comparison = Comparison(study.encodings, validation_folds(study), methods=lambda_selection.METHODS)
        lines = lambda_selection.select_lambda(comparison)
        assert [line.top1 for line in lines] == [0, 0, 100, 100, 100]
        assert [line.centroid_weight for line in lines if line.selected] == [0.5]  # of equal ones the smallest

    def test_the_objective_weighs_early_ranks_most(self):
        comparison = context_of([*PLACES, at(10), at(10)], GALLERY, ["3 p A", "4 q C"]).comparison
        folds = comparison.ranks("freq", "unified", BASELINE)  # ranks 1 and 3
        assert lambda_selection.objective(tops(folds)) == pytest.approx(0.5 * 50 + 0.25 * 100 + 0.15 * 100 + 0.1 * 100)

    def test_validation_images_are_not_in_their_gallery(self, small_lab):
        for one in validation_folds(small_lab.study):
            tested = {patient.patient_id for patient in one.patients["freq"]}
            assert not tested & {label.patient_id for label in one.unified_gallery}

    def test_the_ends_of_the_sensitivity_curve_are_the_two_scores(self, small_lab):
        found = lambda_sensitivity.run(small_lab)["lambda_sensitivity"]
        lines = {(line.set, line.centroid_weight): line for line in found}
        assert len(lines) == 4 * 101
        for test_set in small_lab.sets:
            for weight, score in ((0.0, "nearest"), (1.0, "patient-centroid")):
                folds = small_lab.comparison.ranks(test_set, "unified", Method("embedding", score))
                assert lines[test_set, weight].objective == pytest.approx(lambda_selection.objective(tops(folds)))

    def test_the_shape_of_a_curve_is_told_by_its_spread_and_its_largest_fall(self, small_lab):
        tables = lambda_sensitivity.run(small_lab)
        for best in tables["best_lambda"]:
            curve = [line.objective for line in tables["lambda_sensitivity"] if line.set == best.set]
            assert best.plateau_spread == pytest.approx(max(curve[60:]) - min(curve[60:]))
            falls = [earlier - later for place, earlier in enumerate(curve) for later in curve[place:]]
            assert best.largest_fall == pytest.approx(max(falls))

    def test_each_measure_names_its_best_lambda_on_validation(self, small_lab):
        tables = lambda_selection.run(small_lab)
        for best in tables["best_on_validation"]:
            values = {line.centroid_weight: getattr(line, best.measure) for line in tables["lambda_selection"]}
            assert best.accuracy == values[best.centroid_weight] == max(values.values())

    def test_the_gain_of_patient_weighting_is_told_fold_by_fold(self, small_lab):
        tables = lambda_selection.run(small_lab)
        image, patient = (line.top1 for line in tables["validation_centroids"])
        alone, *_ = tables["centroid_gains"]
        assert alone.fusion == "none"
        assert alone.mean_gain == pytest.approx(patient - image)
        assert all(line.least_gain <= line.mean_gain <= line.most_gain for line in tables["centroid_gains"])


class TestNumberOfImages:
    def test_all_images_used_is_plain_fusion(self):
        embeddings = [*PLACES, at(10), at(80), at(45), at(88)]
        context = context_of(embeddings, GALLERY, ["3 p A", "4 p A", "5 q C", "6 q C"])
        lines = {(line.approach, line.used): line for line in number_of_images.run(context)["number_of_images"]}
        for approach, method in oracle.APPROACHES.items():
            folds = context.comparison.ranks("multi-freq", "unified", method)
            hits = [np.mean(folds[0].ranks[folds[0].patient_of_ranking == patient] <= 1) for patient in range(2)]
            assert lines[approach, 2].top1 == pytest.approx(100 * np.mean(hits))

    def test_one_image_used_is_the_same_for_every_approach_but_for_nothing(self, small_lab):
        lines = number_of_images.run(small_lab)["number_of_images"]
        one = {(line.set, line.least_images): set() for line in lines}
        for line in lines:
            if line.used == 1:
                one[line.set, line.least_images].add((round(line.top1, 9), round(line.top5, 9)))
        assert all(len(values) == 1 for values in one.values())

    def test_a_gain_is_that_over_one_image_fewer(self, small_lab):
        lines = number_of_images.run(small_lab)["number_of_images"]
        by = {line[:4]: line for line in lines}
        for line in lines:
            fewer = by.get((line.set, line.least_images, line.used - 1, line.approach))
            assert line.gain_top5 == (None if fewer is None else line.top5 - fewer.top5)

    def test_one_photo_at_random_stays_as_good_however_many_are_drawn(self, whole_lab):
        for line in number_of_images.run(whole_lab)["number_of_images"]:
            if line.approach == "single image" and line.used > 1:
                assert abs(line.gain_top1) < 2

    def test_cohorts_are_nested(self, small_lab):
        patients = {
            (line.set, line.least_images): line.patients for line in number_of_images.run(small_lab)["number_of_images"]
        }
        for test_set in ("multi-freq", "multi-rare"):
            assert patients[test_set, 2] > patients[test_set, 3] > patients[test_set, 4]


class TestGallerySize:
    def test_bins_split_patients_by_gallery_images(self):
        embeddings = [at(0), at(1), at(2), at(90), at(5), at(80)]
        context = context_of(embeddings, ["0 a A", "1 b A", "2 c A", "3 d B"], ["4 p A", "5 q B"])
        lines = [line for line in gallery_size.run(context)["gallery_size"] if line.method == "baseline"]
        assert [(line.least_images, line.most_images, line.patients, line.top1) for line in lines] == [
            (1, 1, 1.0, 100),
            (3, 3, 1.0, 100),
        ]

    def test_a_disorder_that_the_gallery_lacks_has_no_images(self):
        context = context_of([at(0), at(5), at(80)], ["0 a A"], ["1 p A", "2 q Z"])
        lines = [line for line in gallery_size.run(context)["gallery_size"] if line.method == "baseline"]
        assert [(line.least_images, line.most_images, line.top1) for line in lines] == [(0, 0, 0), (1, 1, 100)]

    def test_quintiles_hold_about_a_fifth_each(self, whole_lab):
        lines = [line for line in gallery_size.run(whole_lab)["gallery_size"] if line.method == "baseline"]
        frequent = [line.patients for line in lines if line.set == "freq"]
        assert len(frequent) == 5
        assert sum(frequent) == 943
        assert max(frequent) - min(frequent) < 50


class TestProportional:
    def test_all_images_is_the_mean_distance(self):
        embeddings = [at(0), at(60), at(40), at(12)]
        context = context_of(embeddings, ["0 a A", "1 b A", "2 c B"], ["3 p A"])
        lines = {line.alpha: line for line in proportional.run(context)["proportional"]}
        assert lines[0.5].top1 == 100  # the nearest of A's two
        assert lines[1.0].top1 == 0  # the mean of cosines at 12 and 48 degrees is below that at 28
        assert lines[1.0].delta_top1 == -100

    def test_inside_the_hybrid_it_is_compared_with_the_plain_hybrid(self, small_lab):
        tables = proportional.run(small_lab)
        for line, alone in zip(tables["proportional_hybrid"], tables["proportional"], strict=True):
            assert line[:3] == alone[:3]
            plain, nearest = (
                tops(small_lab.comparison.ranks(line.set, line.gallery, Method("none", score)))
                for score in ("hybrid", "nearest")
            )
            assert line.over_hybrid_top5 == pytest.approx(line.top5 - plain.top5)
            assert line.delta_top5 == pytest.approx(line.top5 - nearest.top5)


class TestConfounders:
    def test_facts_become_variables(self):
        facts = {"3": ImageFacts(2.0, "male"), "4": ImageFacts(7.0, "male"), "0": ImageFacts(9.0, "female")}
        context = context_of([*PLACES, at(10), at(80)], GALLERY, ["3 p A", "4 p A"], facts=facts)
        [patient] = evaluated_folds(context.study)[0].patients["freq"]
        values = confounders._variables(context.study, patient, list(labels("0 a A")))
        assert values["images"] == 2
        assert values["age spread"] == 5
        assert values["age gap to gallery"] == 2
        assert values["mean age"] == 4.5
        assert values["sex (male)"] == 1
        assert values["gallery images of disorder"] == 1
        assert values["embedding length"] == pytest.approx(1)

    def test_an_unknown_sex_is_not_female(self):
        facts = {"3": ImageFacts(None, "unknown"), "4": ImageFacts(None, "unknown")}
        context = context_of([*PLACES, at(10), at(80)], GALLERY, ["3 p A", "4 p A"], facts=facts)
        [patient] = evaluated_folds(context.study)[0].patients["freq"]
        assert confounders._variables(context.study, patient, [])["sex (male)"] is None

    @given(ages=st.lists(st.floats(0, 100), min_size=2, max_size=4), gallery=st.lists(st.floats(0, 100), max_size=4))
    def test_ages_are_compared_pair_by_pair(self, ages, gallery):
        image_ids = [str(number) for number in range(len(ages) + len(gallery))]
        facts = {image_id: ImageFacts(age) for image_id, age in zip(image_ids, [*ages, *gallery], strict=True)}
        patient = EvaluatedPatient("p", "A", tuple(range(len(ages))))
        test = tuple(Label(image_id, "p", "A") for image_id in image_ids[: len(ages)])
        diagnosed = tuple(Label(image_id, f"of {image_id}", "A") for image_id in image_ids[len(ages) :])
        encodings = Encodings.of(image_ids, np.ones((len(image_ids), 2)))
        study = Study("by hand", encodings, (Fold(Split(diagnosed, test), Split((), ())),), facts_of_image=facts)
        values = confounders._variables(study, patient, list(diagnosed))
        assert values["age spread"] == max(abs(a - b) for a in ages for b in ages)
        assert values["age gap to gallery"] == min((abs(a - b) for a in ages for b in gallery), default=None)
        assert values["mean age"] == pytest.approx(sum(ages) / len(ages))

    def test_ranks_are_capped_before_they_are_averaged(self):
        # disorders at 0, 2, ... 78 degrees; of the first, photos at 0 (rank 1) and 79 (rank 40), together rank 40
        gallery = [f"{number} g{number} D{number}" for number in range(40)]
        embeddings = [at(2 * number) for number in range(40)] + [at(0), at(79)]
        [found] = confounders._observations(context_of(embeddings, gallery, ["40 p D0", "41 p D0"]), "multi-freq")
        assert found["gain"] == (1 + 30) / 2 - 30

    def test_a_patient_with_two_disorders_is_one_observation(self):
        # A: ranks 1 and 3, fused 2; C: ranks 3 and 1, fused 3
        test = ["3 p A", "4 p A", "3 p C", "4 p C"]
        [found] = confounders._observations(context_of([*PLACES, at(5), at(80)], GALLERY, test), "multi-freq")
        assert found["gain"] == ((2 - 2) + (2 - 3)) / 2
        assert found["gallery images of disorder"] == 1

    def test_all_seven_variables_are_looked_at(self, small_lab):
        found = confounders.run(small_lab)
        assert [line.variable for line in found["confounders"]] == 2 * list(confounders.VARIABLES)
        assert found["confounders_missing"] == []

    def test_what_the_data_does_not_hold_is_named_with_the_reason(self, small_lab):
        study = small_lab.study
        unit = study.encodings.embeddings / np.linalg.norm(study.encodings.embeddings, axis=2, keepdims=True)
        encodings = Encodings(study.encodings.image_ids, unit, study.encodings.encoder)
        bare = Study(study.source, encodings, study.folds, simulated=True)
        found = confounders.run(ExperimentContext(bare, small_lab.comparison, 1))
        assert {line.variable for line in found["confounders"]} == {"images", "gallery images of disorder"}
        reasons = {(line.set, line.variable): line.reason for line in found["confounders_missing"]}
        assert len(reasons) == 2 * 5
        no_ages = "no ages: image_metadata_<version>.tsv is missing, or says nothing about them"
        assert reasons["multi-rare", "mean age"] == reasons["multi-freq", "age gap to gallery"] == no_ages
        assert reasons["multi-freq", "sex (male)"].startswith("no sexes: image_metadata_<version>.tsv")
        assert reasons["multi-freq", "embedding length"] == "embeddings are normalised: all have length 1"

    def test_few_patients_say_nothing(self, small_lab):
        study = small_lab.study
        [*_, known] = [patient for patient in evaluated_folds(study)[0].patients["freq"] if len(patient.images) > 1]
        facts = {study.encodings.image_ids[row]: ImageFacts(3.0 + row) for row in known.images}
        found = confounders.run(ExperimentContext(replace(study, facts_of_image=facts), small_lab.comparison, 1))
        reasons = {(line.set, line.variable): line.reason for line in found["confounders_missing"]}
        assert reasons["multi-freq", "mean age"] == "fewer than 10 patients: 1"
        assert reasons["multi-rare", "mean age"].startswith("no ages: ")

    def test_what_is_the_same_for_everybody_says_nothing(self):
        places = [*PLACES, *[at(number) for number in range(20)]]
        test = [f"{3 + number} p{number // 2} A" for number in range(20)]
        found = confounders.run(context_of(places, GALLERY, test))["confounders_missing"]
        assert found[0] == ("multi-freq", "images", "it is the same for all patients")

    def test_an_interval_does_not_depend_on_what_else_is_known(self, small_lab):
        bare = replace(small_lab.study, facts_of_image={})
        some = confounders.run(ExperimentContext(bare, small_lab.comparison, 1))["confounders"]
        assert set(some) < set(confounders.run(small_lab)["confounders"])

    def test_a_perfect_correlation_is_found(self):
        pairs = np.array([(float(n), float(n * n)) for n in range(20)])
        line = confounders._correlation("multi-freq", "x", pairs, np.random.default_rng(1))
        assert (line.rho, line.ci_low, line.ci_high) == pytest.approx((1, 1, 1))


class TestDistances:
    def test_groups_are_told_apart(self):
        rng = np.random.default_rng(1)
        centres = rng.standard_normal((6, 30)) * 3
        embeddings = (centres[:, np.newaxis] + rng.standard_normal((6, 5, 30))).reshape(30, 30)
        gallery = [f"{i} p{i} D{i // 5}" for i in range(30)]
        context = context_of([*embeddings, embeddings[0]], gallery, ["30 q D0"])
        intra, inter = distances.run(context)["distances"]
        assert (intra.group, inter.group) == ("intra-freq", "inter")
        assert intra.auc > 0.99
        assert intra.cohens_d > 3
        assert intra.overlap_percent < 5
        assert (intra.pairs, intra.same_patient_percent) == (600, 0)

    def test_no_pair_is_one_image_twice(self, small_lab):
        rng = np.random.default_rng(1)
        for a, b in distances._intra_pairs(small_lab.study.folds[0].rare.gallery, rng):
            assert a.disorder_id == b.disorder_id
            assert a.image_id != b.image_id


def test_a_median_rank_of_nobody_is_none():
    context = context_of([at(0), at(5)], ["0 a A"], ["1 p Z"])
    assert {line.median_rank for line in rank_changes.run(context)["rank_changes"]} == {None}


def test_growth_counts_each_version():
    early = labels("1 p A", "2 p A", "3 q B")
    late = labels("1 p A", "2 p A", "3 q B", "4 q B", "5 r C", "5 r A")
    context = context_of(PLACES, GALLERY[:2], ["2 t A"])
    releases = [Release("2", date(2024, 1, 1), late), Release("1", date(2021, 1, 1), early)]
    tables = growth.run(ExperimentContext(context.study, context.comparison, releases=releases))
    first, second = tables["growth"]
    assert first[:1] + first[2:5] == ("1", 3, 2, 1)
    assert first.disorders == 2
    assert (second.images, second.patients, second.multi_image_patients) == (5, 3, 2)
    assert second.images_of_most_represented == pytest.approx(5 / 3)
    assert second.images_per_disorder == pytest.approx(6 / 3)
    [now] = tables["database_size"]
    assert (now.images, now.patients, now.multi_image_patients, now.disorders) == (3, 3, 0, 2)


def test_splits_count_each_part(whole_lab):
    lines = {line.part: line for line in splits.run(whole_lab)["splits"]}
    assert (lines["test multi-freq"].images, lines["test multi-freq"].patients) == (468, 156)
    assert lines["test multi-freq"].images_per_patient == 3
    assert lines["test multi"][1::2][:3] == (996, 370, 240)


class TestOverview:
    def test_the_patient_is_the_one_with_the_median_gain(self, small_lab):
        lines = overview.run(small_lab)["overview"]
        rank_in = {line.panel: line.rank for line in lines if line.true_disorder}
        single, full = (small_lab.comparison.ranks("multi-freq", "unified", method)[0] for method in (BASELINE, FULL))
        middle = [
            sorted(single.ranks[single.patient_of_ranking == patient])[len(of.images) // 2]
            for patient, of in enumerate(single.patients)
        ]
        pairs = [(min(before, 30), min(after, 30)) for before, after in zip(middle, full.ranks, strict=True)]
        gains = sorted(before - after for before, after in pairs if before > after)
        assert min(rank_in["A"], 30) - min(rank_in["B3"], 30) == gains[len(gains) // 2]

    def test_lists_are_those_of_the_comparison(self):
        embeddings = [*PLACES, at(22), at(10), at(1)]
        context = context_of(embeddings, GALLERY, ["3 p A", "4 p A", "5 p A"])
        assert overview.run(context) == {"overview": [], "overview_points": []}  # nobody gains
        context = context_of([*PLACES, at(10), at(22)], GALLERY, ["3 p A", "4 p A"])
        tables = overview.run(context)
        ranks = {line.panel: line.rank for line in tables["overview"] if line.true_disorder}
        assert ranks == {"A": 2, "B1": 1, "B2": 1, "B3": 1, overview.OTHER: 1}
        assert [line.distance for line in tables["overview"] if line.panel == "A"] == pytest.approx(
            [1 - np.cos(np.radians(degrees)) for degrees in (18, 22, 68)]
        )
        kinds = [point.kind for point in tables["overview_points"]]
        assert [kinds.count(kind) for kind in ("gallery image", "centroid", "the image", "other image", "fused")] == [
            *(3, 3, 1, 1, 1)
        ]


def test_settings_say_what_the_encodings_do_not():
    known = Encoder(1, 2, name="ours", weights_sha256="ab" * 32, representation_names=("m0/flip0/gray0",))
    context = context_of(PLACES, GALLERY[:2], ["2 t A"])
    encodings = Encodings(context.study.encodings.image_ids, context.study.encodings.embeddings, known)
    for study, ensemble, views in (
        (context.study, settings.NOT_KNOWN, settings.NOT_KNOWN),
        (replace(context.study, encodings=encodings), "ours, weights abababababab", "m0/flip0/gray0"),
    ):
        here = {
            line.component: line.here
            for line in settings.run(ExperimentContext(study, context.comparison, 3))["settings"]
        }
        assert (here["Model ensemble"], here["Test-time augmentation"]) == (ensemble, views)
        assert here["Loss function"] == settings.NOT_KNOWN
        assert here["Random seeds"].startswith("3,")


def test_the_map_is_the_same_every_time():
    rng = np.random.default_rng(1)
    gallery = [f"{i} p{i} D{i % 3}" for i in range(30)]
    context = context_of([*rng.standard_normal((30, 8)), np.ones(8)], gallery, ["30 q D0"])
    assert tsne.run(context) == tsne.run(context)
    kinds = [point.kind for point in tsne.run(context)["tsne"]]
    assert kinds.count("centroid") == 3


def test_experiments_ask_for_no_method_but_those_that_they_name(monkeypatch):
    embeddings = [*PLACES, at(10), at(80), at(45), at(50)]
    context = context_of(embeddings, GALLERY, ["3 p A", "4 p A", "5 q C", "6 q C"])
    asked, ranks = set(), context.comparison.ranks
    monkeypatch.setattr(
        context.comparison,
        "ranks",
        lambda test_set, gallery, method: asked.add(method) or ranks(test_set, gallery, method),
    )
    for name in METHODS_OF.keys() - {"tsne"}:  # four photos make no map
        asked.clear()
        EXPERIMENTS[name](context)
        assert asked <= set(methods_of([name])), name


def test_every_experiment_names_its_methods_ahead():
    assert methods_of(["splits"]) == [BASELINE]
    assert set(methods_of(["headline", "ablation"])) == set(TWELVE_METHODS)
    assert METHODS_OF.keys() == EXPERIMENTS.keys()


def test_every_experiment_has_its_file():
    from importlib import resources

    files = {path.name.removesuffix(".py") for path in resources.files("mien.evaluation.experiments").iterdir()}
    assert set(EXPERIMENTS) == {name for name in files if not name.startswith("__")}

"""A cohort from end to end: planted faces are found, strangers are not, and nobody is counted twice."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import mien
from mien import Cohort, Encodings, MienError, Query
from mien.core.embeddings import Encoder
from mien.core.study import ImageFacts
from mien.evaluation.cohort_analysis import EVERYBODY, analyse_cohort
from mien.evaluation.cohort_controls import controls_of, matching_controls
from mien.evaluation.cohort_rows import strongest_first
from mien.report.cohort import group_in_words

from cohorts import families


def people(rng, count, *, face=0.0, photos=1, prefix="new", noise=1.0):
    """Patients with a common face, or none."""
    queries = []
    for number in range(count):
        person = face + noise * rng.standard_normal((1, 1, 24))
        shots = person + 0.2 * rng.standard_normal((photos, 1, 24))
        ids = [f"{prefix}{number}-{photo}" for photo in range(photos)]
        queries.append(Query(Encodings.of(ids, shots), f"{prefix}{number}"))
    return queries


@pytest.fixture
def gallery(rng):
    return families(rng, disorders=12, patients=8)


def test_a_planted_group_is_found_and_strangers_are_not(rng, gallery):
    face = 1.5 * np.random.default_rng(99).standard_normal((1, 1, 24))
    queries = people(rng, 6, face=face, prefix="alike") + people(rng, 6, prefix="stranger")
    groups = {query.patient_id: query.patient_id.rstrip("0123456789") for query in queries}
    found = analyse_cohort(gallery, queries, groups)
    alike, strangers = found.tables["groups"]
    assert (alike.group, alike.patients) == ("alike", 6)
    assert alike.p_holm < 0.01
    assert alike.p_between_holm < 0.01
    assert alike.ci_low < alike.effect < alike.ci_high
    assert alike.hangs_on is None
    assert strangers.p_holm > 0.05
    assert strangers.p_holm == pytest.approx(max(strangers.p_value, 2 * alike.p_value, strangers.p_value))
    [cluster] = [cluster for cluster in found.tables["clusters"] if cluster.patients > 3]
    assert all(patient_id.startswith("alike") for patient_id in cluster.patient_ids)
    of_alike = [pair for pair in found.tables["pairs"] if pair.patient_id[:5] == pair.other_id[:5] == "alike"]
    assert np.median([pair.rank for pair in of_alike]) <= 6
    assert len(found.tables["pairs"]) == 12 * 11 / 2


def test_a_result_that_hangs_on_one_pair_says_on_whom(rng, gallery):
    queries = people(rng, 2)
    twin = queries[0].encodings.embeddings + 0.2 * rng.standard_normal((1, 1, 24))
    found = analyse_cohort(gallery, [*queries, Query(Encodings.of(["twin"], twin), "twin")])
    [group] = found.tables["groups"]
    assert group.p_value < 0.05
    assert group.hangs_on in {"twin", "new0"}


def rows_of_first_photos(queries):
    rows = []
    for query in queries:
        photo_of = dict(zip(query.encodings.image_ids, query.encodings.embeddings, strict=True))
        photo = photo_of[min(photo_of)].ravel().astype(np.float64)
        rows.append(photo / np.linalg.norm(photo))
    return np.array(rows)


def test_a_group_is_compared_with_the_patients_of_each_near_disorder(rng):
    gallery = families(rng, disorders=6, patients=6)
    queries = families(rng, disorders=2, patients=4, prefix="new", seed=99).queries()[:4]
    several = people(rng, 1, photos=3)[0].encodings  # one of them has three photos, the first of them last
    queries[0] = Query(several.only([2, 1, 0]), queries[0].patient_id)
    found = analyse_cohort(gallery, queries)
    lines = found.tables["near_disorders"]
    assert len(lines) == 5
    for line in lines:
        of_disorder = [query for query in gallery.queries() if query.patient_id.startswith(f"p{line.disorder_id[1:]}-")]
        rows = rows_of_first_photos([*queries, *of_disorder])
        distances = 1 - rows @ rows.T

        def apart(members, distances=distances):
            others = [other for other in range(10) if other not in members]
            within = [np.mean([distances[a, b] for a, b in combinations(group, 2)]) for group in (members, others)]
            return np.mean([distances[a, b] for a in members for b in others]) - np.mean(within)

        ways = list(combinations(range(10), 4))
        as_far = sum(apart(members) >= apart((0, 1, 2, 3)) - 1e-6 for members in ways)
        assert line.between_exact
        assert line.p_between == pytest.approx(as_far / len(ways))
        assert line.between_distance == pytest.approx(distances[:4, 4:].mean(), abs=1e-5)
        own = [distances[a, b] for a, b in combinations(range(4), 2)]
        assert line.within_distance == pytest.approx(np.mean(own), abs=1e-5)
    by_p = sorted(lines, key=lambda line: line.p_between)
    assert by_p[0].p_between_holm == pytest.approx(5 * by_p[0].p_between)  # Holm over all that were tested


def test_patients_of_a_known_disorder_are_not_closer_to_each_other_than_to_its_patients(rng, gallery):
    known = families(rng, disorders=12, patients=6, prefix="k").queries()[:6]  # all of the first disorder
    new = people(rng, 6, face=1.5 * np.random.default_rng(99).standard_normal((1, 1, 24)))
    groups = {query.patient_id: "known" for query in known} | {query.patient_id: "new" for query in new}
    found = analyse_cohort(gallery, known + new, groups)
    near = found.tables["near_disorders"]
    assert {line.p_between_holm < 0.05 for line in near if line.group == "new"} == {True}
    assert near[0].disorder_id == "d0"
    assert near[0].p_between_holm > 0.05
    in_words = {group.group: " ".join(group_in_words(group, near)) for group in found.tables["groups"]}
    assert "closer to each other than to gallery patients of all 5 nearest known disorders" in in_words["new"]
    assert "no closer to each other than to patients of d0" in in_words["known"] or (
        "not shown to be closer to each other than to patients of d0" in in_words["known"]
    )


def test_patients_with_many_photos_are_told_from_their_own_disorder_as_rarely_as_others(monkeypatch):
    rng = np.random.default_rng(3)
    monkeypatch.setattr("mien.evaluation.group_statistics.DRAWS", 19)
    monkeypatch.setattr("mien.evaluation.group_statistics.MATCHED_DRAWS", 19)
    p_values = []
    for _ in range(100):
        faces = rng.standard_normal((2, 96))

        def patient(face, photos):
            return face + rng.standard_normal(96) + 2 * rng.standard_normal((photos, 96))

        known = np.concatenate([patient(faces[number // 7], 1) for number in range(14)])
        ids, disorder_ids = [f"p{number}" for number in range(14)], ["own"] * 7 + ["other"] * 7
        gallery = Cohort.of(known, image_ids=ids, patient_ids=ids, disorder_ids=disorder_ids)
        queries = [Query.of(patient(faces[0], 6), patient_id=f"new{number}") for number in range(7)]
        lines = analyse_cohort(gallery, queries).tables["near_disorders"]
        p_values += [line.p_between for line in lines if line.disorder_id == "own"]
    assert len(p_values) == 100
    assert np.mean(np.array(p_values) <= 0.05) <= 0.1


def test_a_disorder_that_too_few_have_is_not_tested(rng):
    alone = families(rng, disorders=7, patients=1)
    lines = analyse_cohort(alone, people(rng, 4, face=1.0)).tables["near_disorders"]
    assert {line.p_between for line in lines} == {None}  # of five ways to choose four of five, none shows anything


def test_the_strongest_group_comes_first(rng, gallery):
    queries = (
        people(rng, 5, prefix="stranger") + people(rng, 1, prefix="one") + people(rng, 5, face=2.0, prefix="alike")
    )
    groups = {query.patient_id: query.patient_id.rstrip("0123456789") for query in queries}
    found = analyse_cohort(gallery, queries, groups).tables["groups"]
    assert [group.group for group in strongest_first(found)] == ["alike", "stranger", "one"]


def test_photos_of_one_patient_never_count_as_patients(rng, gallery):
    once = people(rng, 4, photos=3)
    found = analyse_cohort(gallery, once)
    assert found.tables["groups"][0].patients == 4
    assert found.facts["photos"] == 12
    fused = [
        Query(
            Encodings.of([query.patient_id], query.encodings.embeddings.mean(axis=0, keepdims=True)), query.patient_id
        )
        for query in once
    ]
    again = analyse_cohort(gallery, fused)
    for name in ("mean_distance", "p_value", "effect", "ci_low", "p_without_one"):
        one, other = (getattr(each.tables["groups"][0], name) for each in (again, found))
        assert one == pytest.approx(other, rel=1e-4), name
    with pytest.raises(MienError, match="photos of one patient count as one"):
        analyse_cohort(gallery, once[:1])


def test_members_who_are_in_the_gallery_are_left_out_of_it_and_named(rng, gallery):
    inside = [query for query in gallery.queries() if query.patient_id.startswith("p3-")]
    found = analyse_cohort(gallery, inside)
    assert found.facts["left_out_of_gallery"] == sorted(query.patient_id for query in inside)
    assert found.facts["control_patients"] == 11 * 8
    assert found.tables["groups"][0].p_value < 0.05
    labels = [label for label in gallery.roster.labels() if not label.patient_id.startswith("p3-")]
    alone = analyse_cohort(Cohort.join(gallery.encodings, labels), inside)
    assert alone.tables["groups"] == found.tables["groups"]
    assert [row[:5] for row in alone.tables["near_disorders"]] == [row[:5] for row in found.tables["near_disorders"]]


def test_groups_of_one_have_pairs_but_no_test(rng, gallery):
    found = analyse_cohort(gallery, people(rng, 2), {"new0": "a", "new1": "b"})
    assert [group.p_value for group in found.tables["groups"]] == [None, None]
    assert len(found.tables["pairs"]) == 1


def test_a_patient_without_a_group_is_somebody_else(rng, gallery):
    found = analyse_cohort(gallery, people(rng, 5), {"new0": "a", "new1": "a", "new2": "a"})
    [group] = found.tables["groups"]
    assert (group.patients, group.between_exact) == (3, True)
    assert group.p_between * 10 == pytest.approx(round(group.p_between * 10))  # of ten ways to choose three of five


def _of_encoder(name):
    """A patient; the gallery's encoder has no name, so that any of this shape would do for it."""
    return Query(Encodings.of([name], np.ones((1, 1, 24)), Encoder(1, 24, name)), name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda queries: [*queries, queries[0]], "is there twice"),
        (lambda queries: [Query(query.encodings) for query in queries], "without an id"),
        (lambda queries: [*queries, Query(Encodings.of(["x"], queries[0].encodings.embeddings), "x")], "two ids"),
        (lambda queries: [*queries, Query.of(np.ones((1, 1, 7)), ["x"], "x")], "24"),
        (lambda queries: [*queries, *(_of_encoder(name) for name in "ab")], r"by a .* by b |by b .* by a "),
    ],
)
def test_what_is_no_cohort_is_refused(rng, gallery, change, message):
    with pytest.raises(MienError, match=message):
        analyse_cohort(gallery, change(people(rng, 3)))


def test_controls_can_have_the_same_sex_and_age(rng, gallery):
    queries = people(rng, 3)
    sexes = {image_id: "male" if place % 2 else "female" for place, image_id in enumerate(gallery.roster.image_ids)}
    facts = {image_id: ImageFacts(5.0, sex) for image_id, sex in sexes.items()}
    facts |= {"new0-0": ImageFacts(4.0, "male"), "new1-0": ImageFacts(40.0, "female")}
    controls = controls_of(gallery.index, (), lambda _done, _all: None)
    suits, both = matching_controls(controls, gallery.index, [q.encodings.image_ids for q in queries], facts)
    roster = gallery.roster
    for control, patient in enumerate(controls.patients):
        first = sexes[roster.image_ids[np.flatnonzero(roster.patient_of_image == patient)[0]]]
        assert suits[0, control] == (first == "male")
        assert suits[1, control] == (first == "female")  # nobody is 40: the age is given up
    assert suits[2].all()
    assert both == 1
    [group] = analyse_cohort(gallery, queries, facts_of_image=facts).tables["groups"]
    assert group.matched_patients == 1
    assert 0 < group.p_matched <= 1


def test_with_a_calibration_it_says_whether_a_known_disorder_is_close(rng, tmp_path):
    from mien.storage.learned import store_calibration

    mien.Gallery.build(tmp_path / "g", families(rng, disorders=12, patients=8))
    opened = mien.Gallery.open(tmp_path / "g")
    store_calibration(tmp_path / "g", mien.calibrate(opened))
    opened = mien.Gallery.open(tmp_path / "g")
    known = families(rng, disorders=12, patients=6, prefix="k").queries()[:6]  # all of the first disorder
    faces = np.random.default_rng(7).standard_normal((12, 24))  # of the known disorders
    new = people(rng, 6, face=4 * np.linalg.svd(faces)[2][-1])  # at a right angle to all of them
    groups = {query.patient_id: "known" for query in known} | {query.patient_id: "new" for query in new}
    found = analyse_cohort(opened, known + new, groups)
    assert [group.no_known_disorder_close for group in found.tables["groups"]] == [False, True]
    first = found.tables["near_disorders"][0]
    assert (first.group, first.disorder_id) == ("known", "d0")
    assert first.p_value > 0.05


def test_the_front_door_takes_a_cohort(rng, gallery):
    strangers = families(rng, disorders=2, patients=3, prefix="x")
    found = mien.cohort(gallery, strangers)
    assert [group.group for group in found.tables["groups"]] == [EVERYBODY]
    assert found.tables["pairs"] == mien.cohort(gallery, strangers.queries()).tables["pairs"]

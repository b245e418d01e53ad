"""A face and LIRICAL in one list, against a computation by hand; identities hold exactly."""

from __future__ import annotations

import json
import math

import pytest

HEAD = "! LIRICAL TSV Output (v2.0.2)\n! Sample: anna\n! Observed HPO terms:\n!  Ptosis (HP:0000508)\n"
COLUMNS = "rank\tdiseaseName\tdiseaseCurie\tpretestprob\tposttestprob\tcompositeLR"
ROWS = [
    ("Kabuki syndrome 1", "OMIM:147920", 1.5),
    ("Kabuki syndrome 2", "OMIM:300867", 0.5),
    ("Marfan", "OMIM:154700", 3),
]
TABLE = HEAD + "\n".join(
    [COLUMNS, *(f"{n}\t{name}\t{curie}\t1/8000\t1.00%\t{ratio}" for n, (name, curie, ratio) in enumerate(ROWS, 1)), ""]
)


def line(rank, disorder_id, curie, probability, log10_ratio):
    return {
        "rank": rank,
        "disorder_id": disorder_id,
        "disorder_name": disorder_id.title(),
        "omim": None,
        "distance": rank / 10,
        "curie": curie,
        "probability": probability,
        "log10_likelihood_ratio": log10_ratio,
    }


def answer(*lines, none=0.1, **changed):
    query = {"patient_id": "anna", "image_ids": ["1"], "excluded_gallery_patients": [], "disorders": list(lines)}
    return {
        "tool": {"name": "mien", "version": "0"},
        "method": {"fusion": "embedding"},
        "gallery": {"generation": 1, "disorders": len(lines)},
        "queries": [{**query, "none_of_these": none, **changed}],
    }


NOONAN = line(1, "noonan", "OMIM:163950 OMIMPS:147920", 0.3, 0.9)  # a series is none of its members
KABUKI = line(2, "kabuki", "OMIM:147920 OMIM:300867", 0.4, 0.8)
OTHER = line(3, "other", None, 0.2, -0.3)
ANSWER = answer(NOONAN, KABUKI, OTHER)


@pytest.fixture
def combine(mien, tmp_path):
    def run(answer=ANSWER, lirical=TABLE, *options, name="lirical.tsv"):
        (tmp_path / "answer.json").write_text(json.dumps(answer))
        (tmp_path / name).write_text(lirical if isinstance(lirical, str) else json.dumps(lirical))
        code, out, err = mien(
            "combine", tmp_path / "answer.json", "--lirical", tmp_path / name, "--top", "all", "--json", *options
        )
        return json.loads(out) if code == 0 else err

    return run


def test_the_sum_is_as_by_hand(combine):
    found = combine(ANSWER, TABLE, "--weight", "0.5")
    kabuki = math.log10((10**1.5 + 10**0.5) / 2)
    joint = {"noonan": 0.3, "kabuki": 0.4 * 10 ** (0.5 * kabuki), "other": 0.2, "marfan": 0.05 * 10**1.5, "rest": 0.05}
    total = sum(joint.values())
    lines = {each["disorder_id"] or "marfan": each for each in found["disorders"]}
    for name, one in lines.items():
        assert one["probability"] == pytest.approx(joint[name] / total, abs=1e-7)
    assert [each["disorder_id"] for each in found["disorders"]] == ["kabuki", None, "noonan", "other"]
    assert found["none_of_these"] == pytest.approx((joint["marfan"] + joint["rest"]) / total, abs=1e-7)
    assert lines["kabuki"]["lirical_log10_likelihood_ratio"] == pytest.approx(kabuki, abs=1e-7)
    assert lines["kabuki"]["log10_likelihood_ratio"] == pytest.approx(0.8 + 0.5 * kabuki, abs=1e-7)
    assert lines["noonan"]["log10_likelihood_ratio"] == 0.9
    assert {name: one["known_to"] for name, one in lines.items()} == {
        "noonan": ["face"],
        "kabuki": ["face", "lirical"],
        "other": ["face"],
        "marfan": ["lirical"],
    }
    assert lines["marfan"] == lines["marfan"] | {
        "face_log10_likelihood_ratio": 0,
        "face_rank": None,
        "curie": "OMIM:154700",
        "disorder_name": "Marfan",
    }
    assert found["lirical"] == {"version": "v2.0.2", "weight": 0.5, "diseases": 3, "face_terms_left_out": []}


def test_weight_zero_is_exactly_the_face(combine):
    found = combine(ANSWER, TABLE, "--weight", "0")
    of_face = [each for each in found["disorders"] if "face" in each["known_to"]]
    for name in ("disorder_id", "rank", "probability", "log10_likelihood_ratio"):
        assert [each[name] for each in of_face] == [each[name] for each in (NOONAN, KABUKI, OTHER)]
    assert found["none_of_these"] == 0.1


def test_without_evidence_the_prior_stays(combine):
    prior = answer(*(line(n, f"d{n}", f"OMIM:10000{n}", 0.3, 0.0) for n in (1, 2, 3)))
    silent = HEAD + COLUMNS + "\n1\tX\tOMIM:100001\t1/8000\t1.00%\t0.0\n"
    for weight in ("0", "0.25", "1"):
        found = combine(prior, silent, "--weight", weight)
        assert [each["probability"] for each in found["disorders"]] == [0.3, 0.3, 0.3]
        assert found["none_of_these"] == 0.1


def test_the_weight_is_stated_and_cautious(combine):
    assert combine()["lirical"]["weight"] == 0.25


def lirical_json(version="2.0.2", **changed):
    term = {"matchType": "EXACT_MATCH", "lr": 10.0, "explanation": "", "match": "HP:0000508"}
    result = {
        "diseaseId": "OMIM:147920",
        "pretestProbability": 0.001,
        "compositeLR": 100.0 * 10.0 * 0.5,
        "posttestProbability": 0.1,
        "observedPhenotypicFeatures": [{**term, "query": "HP:0000508"}, {**term, "query": "HP:0001250", "lr": 100.0}],
        "excludedPhenotypicFeatures": [{**term, "query": "HP:0000252", "lr": 0.5}],
    }
    return {"analysisMetadata": {"liricalVersion": version}, "analysisResults": [{**result, **changed}]}


def hpo(*pairs):
    uri = "http://purl.obolibrary.org/obo/HP_"
    edges = [{"sub": uri + child, "pred": "is_a", "obj": uri + parent} for child, parent in pairs]
    return {"graphs": [{"nodes": [], "edges": edges}]}


WHOLE_HPO = hpo(
    *[("0000252", "0000240"), ("0000240", "0000234"), ("0000369", "0000356"), ("0000492", "0030669")],
    *[("0000508", "0000492"), ("0001250", "0012638")],
)


WRONG_EDGE = {"sub": 1, "obj": 2, "pred": "is_a"}


def test_terms_of_the_face_are_left_out_of_lirical(combine, tmp_path):
    (tmp_path / "hp.json").write_text(json.dumps(WHOLE_HPO))
    whole = combine(ANSWER, lirical_json(), name="lirical.json")
    rest = combine(ANSWER, lirical_json(), "--hpo", tmp_path / "hp.json", name="lirical.json")
    ratios = [
        next(each for each in found["disorders"] if each["disorder_id"] == "kabuki")["lirical_log10_likelihood_ratio"]
        for found in (whole, rest)
    ]
    assert ratios == [pytest.approx(math.log10(500), abs=1e-7), pytest.approx(2, abs=1e-7)]
    assert rest["lirical"]["face_terms_left_out"] == ["HP:0000252", "HP:0000508"]
    assert "whole hp.json" in refused_hpo(combine, tmp_path, hpo(("0000252", "0000234")))
    assert "hp.json of the HPO" in refused_hpo(combine, tmp_path, {"nodes": []})
    assert "hp.json of the HPO" in refused_hpo(
        combine, tmp_path, {"graphs": [{"edges": [{"sub": 1, "obj": 2, "pred": "is_a"}]}]}
    )
    assert "ratio of each HPO term" in combine(ANSWER, TABLE, "--hpo", write(tmp_path, WHOLE_HPO))


def write(tmp_path, content):
    (tmp_path / "hp.json").write_text(json.dumps(content))
    return tmp_path / "hp.json"


def refused_hpo(combine, tmp_path, content):
    return combine(ANSWER, lirical_json(), "--hpo", write(tmp_path, content), name="lirical.json")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (TABLE.replace("v2.0.2", "v1.3.4"), "version 'v1.3.4' of LIRICAL"),
        (TABLE.replace("v2.0.2", "UNKNOWN VERSION"), "version 'UNKNOWN VERSION'"),
        (TABLE.partition(COLUMNS)[1] + TABLE.partition(COLUMNS)[2], "does not begin like"),
        (TABLE.replace("compositeLR", "compositeLR\tnovelty"), "column 'novelty' is not one of LIRICAL 2"),
        (TABLE.replace("\tcompositeLR", "\tvariants"), "column 'compositeLR' is missing"),
        (TABLE.replace("\t1.5", "\t1,5"), "row 6: compositeLR is '1,5'"),
        (TABLE.replace("\t1.5", "\t-Infinity"), "row 6: compositeLR is '-Infinity'"),
        (TABLE.replace("OMIM:300867", "OMIM:147920"), "row 7: disease 'OMIM:147920' is there twice"),
    ],
)
def test_other_tables_are_refused_by_name(combine, table, problem):
    assert problem in combine(ANSWER, table)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lirical_json(version="1.0"), "version '1.0' of LIRICAL"),
        (lirical_json(compositeLR=0), "no result of LIRICAL 2"),
        ({"analysisResults": []}, "no result of LIRICAL 2"),
        ("{", "not JSON"),
    ],
)
def test_other_json_is_refused(combine, content, problem):
    assert problem in combine(ANSWER, content, name="lirical.json")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "no answer of 'mien rank --json' for one patient"),
        ({**ANSWER, "queries": ANSWER["queries"] * 2}, "for one patient"),
        (answer({"rank": 1, "disorder_id": "a"}), "for one patient"),
        (answer({**KABUKI, "probability": "much"}), "for one patient"),
        (answer({**KABUKI, "log10_likelihood_ratio": math.nan}), "for one patient"),
        (answer({name: KABUKI[name] for name in ("rank", "disorder_id", "disorder_name", "omim")}), "mien calibrate"),
        ({**ANSWER, "gallery": {"disorders": 9}}, "6 disorders of the gallery are not in it: rank with --top all"),
    ],
)
def test_other_answers_are_refused(combine, content, problem):
    assert problem in combine(content)


@pytest.mark.parametrize("weight", ["-0.1", "1.1", "nan"])
def test_other_weights_are_wrong_usage(combine, mien, tmp_path, weight):
    combine()
    asked = ("combine", tmp_path / "answer.json", "--lirical", tmp_path / "lirical.tsv", "--weight", weight)
    assert mien(*asked)[0] == 2


def test_the_documented_spelling_and_variants_are_read(combine):
    table = TABLE.replace("posttestprob", "postestprob").replace("compositeLR", "compositeLR\tentrezGeneId\tvariants")
    table = "\n".join(row + "\t1\tx" if row[:1].isdigit() else row for row in table.splitlines())
    assert combine(ANSWER, table)["disorders"] == combine()["disorders"]


def test_a_person_reads_both_parts(mien, combine, tmp_path):
    combine()
    code, out, err = mien("combine", tmp_path / "answer.json", "--lirical", tmp_path / "lirical.tsv")
    assert code == 0
    assert "count twice" in err
    assert "weight 0.25" in out
    assert "unknown" in out
    assert "never gives a diagnosis" in out

"""A folder as GMDB is handed out, with all that real ones bring at once, from the tables to the report."""

from __future__ import annotations

import html
import json
import pickle

import numpy as np
import pytest

from mien import Encodings, Label, Method
from mien.core.study import Fold, ImageFacts, Split, Study
from mien.report.evaluation import NORMALISED
from mien.storage.formats.gmdb_folder import read_gmdb, write_gmdb

from oracle import study_accuracy

VERSION = "v1.1.4"
REPRESENTATIONS, DIMENSIONS = 12, 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two patients have a frequent and a rare disorder: one is tested for the rare one, the other for the frequent."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((9, REPRESENTATIONS, DIMENSIONS))
    images, embeddings = iter(range(1, 1000)), {}

    def photos(patient, *disorders, count=1):
        labels = []
        for _ in range(count):
            image_id = str(next(images))
            embeddings[image_id] = centres[list(disorders)].mean(axis=0) + 0.9 * rng.standard_normal(centres[0].shape)
            labels += [Label(image_id, patient, str(disorder)) for disorder in disorders]
        return labels

    gallery = [x for d in range(4) for p in range(7) for x in photos(f"g{d}-{p}", d, count=1 + (p == 0))]
    test = [x for d in range(4) for p in range(3) for x in photos(f"t{d}-{p}", d, count=1 + p)]
    rare = {d: [photos(f"r{d}-{p}", d, count=1 + (p == 1)) for p in range(3)] for d in range(4, 9)}
    both = photos("in frequent gallery", 0, 5, count=2), photos("in frequent test", 1, 6, count=2)
    gallery += [x for x in both[0] if x.disorder_id == "0"]
    test += [x for x in both[1] if x.disorder_id == "1"]
    rare[5].append([x for x in both[0] if x.disorder_id == "5"])
    rare[6].append([x for x in both[1] if x.disorder_id == "6"])
    folds = []
    for number in range(4):
        tested = {d: patients[number % len(patients)] for d, patients in rare.items()}
        left = [x for d, patients in rare.items() for of in patients if of is not tested[d] for x in of]
        folds.append(Split(tuple(left), tuple(x for of in tested.values() for x in of)))
    frequent = Split(tuple(gallery), tuple(test))
    unit = {i: e / np.linalg.norm(e, axis=1, keepdims=True) for i, e in embeddings.items()}
    study = Study(
        "real",
        Encodings.of(list(unit), np.stack(list(unit.values()))),
        tuple(Fold(frequent, split) for split in folds),
        facts_of_image={image_id: ImageFacts(float(rng.integers(40)), "female") for image_id in unit},
    )
    out = tmp_path_factory.mktemp("real") / "gmdb"
    write_gmdb(out, study, VERSION)
    (out / "gmdb_metadata" / f"gmdb_syndromes_{VERSION}_wo_pleiotropy.tsv").write_text("another\ttable\n")
    (out / "all.p").write_bytes(pickle.dumps({int(image_id): e.tolist() for image_id, e in unit.items()}))
    return out


@pytest.fixture
def given(folder):
    return ["--gmdb", folder, "--encodings", folder / "all.p"]


def test_accuracies_are_those_of_plain_loops_that_leave_own_patients_out(mien, folder, given):
    study, remarks = read_gmdb(folder, folder / "all.p")
    assert remarks.side_tables == (f"gmdb_syndromes_{VERSION}_wo_pleiotropy.tsv",)
    assert {patient for both in study.tested_and_in_gallery for patient in both} == {
        "in frequent gallery",
        "in frequent test",
    }
    results = json.loads(mien("evaluate", *given, "--all-methods", "--json")[1])["results"]
    assert len(results) == 12 * 4 * 2
    for found in results:
        method = Method(found["fusion"], found["score"])
        for top in (1, 5):
            expected = study_accuracy(study, found["set"], found["gallery"], method, top)
            assert found[f"top{top}"] == pytest.approx(expected, abs=1e-6), found


@pytest.mark.parametrize("leaves_out", [True, False])
def test_every_fact_is_said(mien, given, leaves_out):
    code, out, err = mien("evaluate", *given, *([] if leaves_out else ["--per-image"]))
    said = " ".join((out + err).split())
    assert code == 0
    how = "left out of it for own queries" if leaves_out else "nobody is left out, as in the official script"
    assert f"2 test patients are in the gallery too; {how}: 'in frequent gallery', 'in frequent test'" in said
    assert "All embeddings have length one." in said
    assert "side tables, not read" in said


def test_the_report_says_them_too(mien, given, tmp_path):
    only = ("--only", "confounders", "--only", "settings")
    code, _, _ = mien("reproduce", *given, *only, "--out", tmp_path / "report")
    assert code == 0
    document = json.loads((tmp_path / "report" / "results.json").read_text())
    protocol = document["protocol"]
    assert protocol["normalised"] is True
    assert protocol["tested_and_in_gallery"]["patient_ids"] == ["in frequent gallery", "in frequent test"]
    assert protocol["tested_and_in_gallery"]["of_fold"].keys() == {"0", "1", "2", "3"}
    reasons = {row["variable"]: row["reason"] for row in document["tables"]["confounders_missing"]}
    assert reasons["embedding length"] == "embeddings are normalised: all have length 1"
    page = (tmp_path / "report" / "index.html").read_text()
    assert "left out of it for their own queries" in page
    assert NORMALISED in html.unescape(page)
    used = {row["component"]: row["here"] for row in document["tables"]["settings"]}
    assert "came normalised" in used["Embedding normalization"]

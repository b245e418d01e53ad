"""`mien calibrate`, `mien tune`, and what `rank` and `evaluate` say with them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mien import Gallery
from mien.storage.formats.cohort_parquet import write_cohort_parquet

from cohorts import families


def write(path, cohort):
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])
    return path


@pytest.fixture
def table(tmp_path, rng):
    return write(tmp_path / "cohort.parquet", families(rng, noise=1.8))


@pytest.fixture
def gallery(tmp_path, table, mien):
    assert mien("gallery", "build", tmp_path / "gallery", "--encodings", table)[0] == 0
    return tmp_path / "gallery"


@pytest.fixture
def patient(tmp_path):
    return write(
        tmp_path / "patient.parquet", families(np.random.default_rng(3), disorders=1, patients=1, prefix="new ")
    )


def test_a_calibrated_gallery_answers_with_probabilities(mien, gallery, patient):
    code, out, _ = mien("calibrate", "--gallery", gallery)
    assert code == 0
    assert "Learned from 60 left-out gallery patients" in out
    _, out, _ = mien(
        "rank", "--gallery", gallery, "--encodings", patient, "--json", "--top", "all", "--coverage", "0.8"
    )
    [query] = json.loads(out)["queries"]
    assert sum(line["probability"] for line in query["disorders"]) + query["none_of_these"] == pytest.approx(
        1, abs=1e-5
    )
    assert query["prediction_set"]["coverage"] == 0.8
    assert query["calibration"]["patients"] == 60
    assert all("log10_likelihood_ratio" in line for line in query["disorders"])
    _, out, _ = mien("rank", "--gallery", gallery, "--encodings", patient)
    assert "with a probability of" in " ".join(out.split())
    assert "with the disorder than with one that is not in the gallery, before the prior." in " ".join(out.split())
    assert "the disorder is not in this gallery" in " ".join(out.split())
    assert " ".join(out.split()).count("probability; *: in the prediction set") == 1
    tsv = gallery.parent / "answer.tsv"
    mien("rank", "--gallery", gallery, "--encodings", patient, "--out", tsv)
    header = tsv.read_text().splitlines()[0].split("\t")
    assert {"probability", "none_of_these", "in_prediction_set", "calibration_stale"} <= set(header)


def test_without_a_calibration_nothing_is_said_of_probabilities(mien, gallery, patient):
    _, out, _ = mien("rank", "--gallery", gallery, "--encodings", patient, "--json")
    assert "probability" not in out
    assert "none_of_these" not in out


def test_a_stale_calibration_is_said(mien, gallery, patient):
    mien("calibrate", "--gallery", gallery)
    mien("gallery", "add", gallery, "--encodings", patient)
    _, out, _ = mien("rank", "--gallery", gallery, "--encodings", patient)
    assert "generation 1 of the gallery, which has changed since: run 'mien calibrate' again" in out


def test_the_tuned_method_is_used_by_its_name(mien, gallery, patient):
    code, _, error = mien("rank", "--gallery", gallery, "--encodings", patient, "--method", "tuned")
    assert (code, "mien tune" in error) == (1, True)
    code, out, _ = mien("tune", "--gallery", gallery, "--json")
    chosen = json.loads(out)
    assert code == 0
    assert 50 < chosen["patients"] <= 60  # whoever was in all thinned galleries was not asked about
    assert [gain["measure"] for gain in chosen["gains"]] == ["reciprocal rank", "top-1", "top-3"]
    assert mien("calibrate", "--gallery", gallery, "--method", "tuned")[0] == 0
    _, out, _ = mien("rank", "--gallery", gallery, "--encodings", patient, "--method", "tuned", "--json")
    answer = json.loads(out)
    assert answer["method"] == chosen["method"]
    assert "probability" in answer["queries"][0]["disorders"][0]


def test_a_prior_and_other_patients_are_taken(mien, gallery, tmp_path, rng):
    prior = tmp_path / "prior.tsv"
    rows = [*(f"d{number}\t1" for number in range(6)), "none of these\t2"]
    prior.write_text("disorder_id\tprior\n" + "\n".join(rows) + "\n")
    others = write(tmp_path / "others.parquet", families(rng, disorders=2, patients=25, prefix="other "))
    code, out, _ = mien("calibrate", "--gallery", gallery, "--prior", prior, "--cohort", others, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["prior_of_none"] == 0.25
    assert (found["from_cohort"], found["patients"]) == (50, 90)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["d0\t1", "none of these\t1"], "misses 5 disorders"),
        ([*(f"d{n}\t1" for n in range(7)), "none of these\t1"], "that the gallery lacks: 'd6'"),
        (["d0\tmuch"], "row 2: the prior 'much' is not a number"),
        (["d0\t1", "d0\t1"], "row 3: disorder 'd0' is there twice"),
        ([*(f"d{n}\t-1" for n in range(6)), "none of these\t1"], "not above zero"),
    ],
)
def test_a_bad_prior_is_refused_and_nothing_is_written(mien, gallery, tmp_path, rows, message):
    prior = tmp_path / "prior.tsv"
    prior.write_text("disorder_id\tprior\n" + "\n".join(rows) + "\n")
    code, _, error = mien("calibrate", "--gallery", gallery, "--prior", prior)
    assert code == 1
    assert message in error
    assert Gallery.open(gallery).learned == {}


@pytest.mark.parametrize("coverage", ["0", "1", "1.5"])
def test_a_coverage_that_is_none_is_refused(mien, gallery, patient, table, coverage):
    for command in (
        ("rank", "--gallery", gallery, "--encodings", patient, "--coverage", coverage),
        ("evaluate", "--cohort", table, "--calibration", "--coverage", coverage),
    ):
        code, _, error = mien(*command)
        assert (code, "above 0 and below 1" in error) == (2, True)


def test_a_gallery_that_is_too_small_is_refused(mien, tmp_path, rng):
    small = write(tmp_path / "small.parquet", families(rng, disorders=5, patients=4))
    mien("gallery", "build", tmp_path / "small", "--encodings", small)
    code, _, error = mien("calibrate", "--gallery", tmp_path / "small")
    assert code == 1
    assert "20 patients have somebody else with their disorder in the gallery: 40 are needed" in error


def test_calibration_is_evaluated_by_a_column_with_a_figure(mien, tmp_path, table):
    with_sex = pq.read_table(table)
    sexes = pa.array(["f" if number % 2 else "m" for number in range(len(with_sex))])
    pq.write_table(with_sex.append_column("sex", sexes), table)
    figure = tmp_path / "reliability.png"
    common = ("evaluate", "--cohort", table, "--folds", "4", "--calibration")
    code, out, _ = mien(*common, "--by", "sex", "--figure", figure, "--json")
    document = json.loads(out)
    assert code == 0
    assert [row["group"] for row in document["calibration"]] == ["", "sex f", "sex m"]
    assert sum(row["patients"] for row in document["calibration"][1:]) == document["calibration"][0]["patients"] == 60
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert document["reliability"]
    code, _, error = mien(*common, "--by", "ancestry")
    assert (code, "no column 'ancestry'" in error) == (1, True)
    code, out, _ = mien(*common)
    assert "AUROC" in out


def test_sizes_are_compared(mien, table):
    code, out, _ = mien(
        "evaluate", "--cohort", table, "--folds", "4", "--method", "tuned", "--gallery-patients", "2,6", "--json"
    )
    rows = json.loads(out)["sizes"]
    assert code == 0
    assert {(row["method"], row["measure"]) for row in rows} == {
        (method, measure)
        for method in ("full", "size-aware", "tuned")
        for measure in ("reciprocal rank", "top-1", "top-3")
    }
    code, out, _ = mien("evaluate", "--cohort", table, "--cohort", table, "--folds", "4", "--method", "tuned")
    assert (code, "120 patients" in out) == (0, True)
    assert mien("evaluate", "--cohort", table, "--cohort", table)[0] == 2
    assert mien("evaluate", "--cohort", table, "--gallery-patients", "many")[0] == 1

from __future__ import annotations

import csv
import json
import subprocess
import sys
from io import BytesIO, TextIOWrapper

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mien import Gallery
from mien.encoding.store import DEFAULT, stored_encoder
from mien.simulation import study
from mien.storage.formats.cohort_parquet import write_cohort_parquet

from cohorts import random_cohort
from studies import small_gmdb

GM_ARC_HEADER = "img_name;model;flip;gray;class_conf;representations\n"


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=12, representations=2, dimensions=6)


@pytest.fixture
def table(tmp_path, cohort):
    path = tmp_path / "cohort.parquet"
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])
    return path


@pytest.fixture
def gallery(tmp_path, cohort):
    Gallery.build(tmp_path / "gallery", cohort)
    return tmp_path / "gallery"


def gm_arc_rows(image, vector="[1.0, 2.0]"):
    return "".join(f"{image}_rot_aligned.jpg;m0;{flip};{gray};[0];{vector}\n" for flip in (0, 1) for gray in (0, 1))


def test_help_lists_the_commands(mien):
    code, out, _ = mien("--help")
    assert code == 0
    for command in ("demo", "simulate", "gallery", "rank", "bench"):
        assert command in out
    assert mien("--version")[1].startswith("mien ")


@pytest.mark.parametrize("simulated", [small_gmdb, pytest.param(study.simulated_gmdb, marks=pytest.mark.long)])
def test_demo_ranks_and_explains(mien, monkeypatch, simulated):
    monkeypatch.setattr(study, "simulated_gmdb", simulated)
    code, out, _ = mien("demo")
    assert code == 0
    assert "Simulated data" in out
    assert "never gives a diagnosis" in " ".join(out.split())


def test_build_and_rank_with_one_command_each_on_real_embeddings(mien, ten_syndromes, tmp_path):
    assert mien("gallery", "build", tmp_path / "g", "--encodings", ten_syndromes)[0] == 0
    code, out, _ = mien("rank", "--gallery", tmp_path / "g", "--encodings", ten_syndromes, "--json", "--top", "all")
    assert code == 0
    answer = json.loads(out)
    assert answer["gallery"] == {**answer["gallery"], "generation": 1, "images": 792, "patients": 658, "disorders": 10}
    assert len(answer["queries"]) == 658
    for query in answer["queries"]:
        assert query["excluded_gallery_patients"] == [query["patient_id"]]
        assert len(query["disorders"]) == 10


def test_json_has_the_documented_keys(mien, gallery, table):
    _, out, _ = mien("rank", "--gallery", gallery, "--encodings", table, "--json")
    answer = json.loads(out)
    assert list(answer) == ["tool", "method", "gallery", "queries", "notice"]
    assert answer["tool"]["name"] == "mien"
    assert answer["method"] == {"fusion": "embedding", "score": "hybrid", "lambda": 0.75}
    assert set(answer["gallery"]) == {"generation", "images", "patients", "disorders", "encoder"}
    query = answer["queries"][0]
    assert list(query) == ["patient_id", "image_ids", "excluded_gallery_patients", "disorders"]
    assert len(query["disorders"]) == 10
    assert set(query["disorders"][0]) == {
        *("rank", "disorder_id", "disorder_name", "omim", "distance", "nearest_distance", "centroid_distance"),
        *("nearest_image_id", "nearest_patient_id", "gallery_images", "gallery_patients"),
    }


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (["--method", "baseline"], {"fusion": "none", "score": "nearest"}),
        (["--method", "full"], {"fusion": "embedding", "score": "hybrid", "lambda": 0.75}),
        (["--lambda", "0.5"], {"fusion": "embedding", "score": "hybrid", "lambda": 0.5}),
        (["--fusion", "distance", "--score", "image-centroid"], {"fusion": "distance", "score": "image-centroid"}),
        (
            ["--score", "proportional", "--alpha", "0.1"],
            {"fusion": "embedding", "score": "proportional", "alpha": 0.1},
        ),
    ],
)
def test_every_method_can_be_asked_for(mien, gallery, table, cohort, options, method):
    code, out, _ = mien("rank", "--gallery", gallery, "--encodings", table, "--json", "--top", "3", *options)
    assert code == 0
    answer = json.loads(out)
    assert answer["method"] == method
    queries = len(cohort.roster.image_ids if method["fusion"] == "none" else cohort.roster.patient_ids)
    assert len(answer["queries"]) == queries
    assert all(len(query["disorders"]) == 3 for query in answer["queries"])


@pytest.mark.parametrize(
    "options",
    [
        ["--fusion", "mean"],
        ["--score", "centroid"],
        ["--method", "best"],
        ["--lambda", "1.5"],
        ["--alpha", "0", "--score", "proportional"],
        ["--alpha", "0.5"],
        ["--score", "nearest", "--lambda", "0.5"],
        ["--method", "full", "--lambda", "0.5"],
        ["--top", "0"],
        ["--top", "many"],
    ],
)
def test_wrong_usage_has_exit_code_two(mien, gallery, table, options):
    code, out, _ = mien("rank", "--gallery", gallery, "--encodings", table, *options)
    assert (code, out) == (2, "")


def test_a_person_reads_a_table(mien, gallery, table, cohort, tmp_path):
    metadata = tmp_path / "one.csv"
    metadata.write_text(f"image_id,subject\n{cohort.roster.image_ids[0]},someone\n")
    code, out, _ = mien("rank", "--gallery", gallery, "--encodings", table, "--metadata", metadata)
    assert code == 0
    for part in ("someone", "Disorder", "nearest", "average", "never gives a diagnosis", "generation 1"):
        assert part in " ".join(out.split())


def test_rankings_are_written_as_tsv_parquet_and_json(mien, gallery, table, tmp_path):
    for suffix in ("tsv", "parquet", "json"):
        code, out, _ = mien("rank", "--gallery", gallery, "--encodings", table, "--out", tmp_path / f"r.{suffix}")
        assert (code, out) == (0, "")
    with (tmp_path / "r.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    parquet = pq.read_table(tmp_path / "r.parquet").to_pylist()
    document = json.loads((tmp_path / "r.json").read_text())
    flat = [line for query in document["queries"] for line in query["disorders"]]
    assert len(rows) == len(parquet) == len(flat)
    for row, record, line in zip(rows, parquet, flat, strict=True):
        assert row["disorder_id"] == record["disorder_id"] == line["disorder_id"]
        assert float(row["distance"]) == record["distance"] == line["distance"]
        assert row["gallery_generation"] == "1"
    assert mien("rank", "--gallery", gallery, "--encodings", table, "--out", tmp_path / "r.xlsx")[0] == 1


def test_cells_that_a_spreadsheet_would_run_are_quoted(mien, tmp_path):
    ids = {
        "image_id": ["=1+1", "-b", "@c"],
        "patient_id": ["+p", "q", "r"],
        "disorder_id": ["=cmd|' /C calc'!A0", "B", "@C"],
    }
    pq.write_table(pa.table({**ids, "embedding": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]}), tmp_path / "c.parquet")
    assert mien("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "c.parquet")[0] == 0
    mien("rank", "--gallery", tmp_path / "g", "--encodings", tmp_path / "c.parquet", "--out", tmp_path / "r.tsv")
    with (tmp_path / "r.tsv").open(newline="") as file:
        for row in csv.reader(file, delimiter="\t"):
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)


def test_foreign_ids_are_shown_escaped_and_stay_out_of_the_file_system(mien, tmp_path):
    nasty = ["../../etc/passwd", "nul\x00id", "red\x1b[31m", "x" * 300, "left\u202eright", "[bold]markup[/]"]
    ids = {"image_id": nasty, "patient_id": nasty, "disorder_id": nasty}
    pq.write_table(pa.table({**ids, "embedding": np.eye(6).tolist()}), tmp_path / "c.parquet")
    assert mien("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "c.parquet")[0] == 0
    _, out, _ = mien("rank", "--gallery", tmp_path / "g", "--encodings", tmp_path / "c.parquet")
    assert not {"\x00", "\x1b", "\u202e"} & set(out)
    _, out, _ = mien("rank", "--gallery", tmp_path / "g", "--encodings", tmp_path / "c.parquet", "--json")
    answer = json.loads(out)
    assert {query["patient_id"] for query in answer["queries"]} == set(nasty)  # as their source wrote them
    assert out.isascii()
    code, _, err = mien("gallery", "remove-patient", tmp_path / "g", "no\x1bbody")
    assert code == 1
    assert "\x1b" not in err
    for patient_id in nasty:
        assert mien("gallery", "remove-patient", tmp_path / "g", patient_id)[0] == 0
    assert {path.name.split(".")[0] for path in (tmp_path / "g").iterdir()} == {"gallery"}


def test_info_verify_and_export(mien, gallery, tmp_path, cohort):
    code, out, _ = mien("gallery", "info", gallery, "--json")
    assert code == 0
    info = json.loads(out)
    assert info["images"] == len(cohort.roster.image_ids)
    assert info["patients_per_disorder"]["largest"] == cohort.roster.patients_of_disorder.max()
    assert mien("gallery", "info", gallery)[0] == 0
    assert mien("gallery", "verify", gallery)[0] == 0
    assert mien("gallery", "export", gallery, "--out", tmp_path / "e.parquet")[0] == 0
    database = gallery / "gallery.sqlite"
    data = bytearray(database.read_bytes())
    data[data.index(cohort.embeddings[0].tobytes()) + 3] ^= 1
    database.write_bytes(data)
    code, out, _ = mien("gallery", "verify", gallery, "--json")
    assert code == 1
    assert f"image '{cohort.roster.image_ids[0]}'" in json.loads(out)["problems"][0]


def test_several_tables_after_one_metadata_option(mien, tmp_path):
    (tmp_path / "e.csv").write_text(GM_ARC_HEADER + gm_arc_rows(1) + gm_arc_rows(2, "[2.0, 1.0]") + gm_arc_rows(3))
    (tmp_path / "a.csv").write_text("image_id,subject,label\n1,p,A\n")
    (tmp_path / "b.csv").write_text("image_id,subject,label,split\n2,q,B,0\n")
    (tmp_path / "n.tsv").write_text("syndrome_id\tsyndrome_name\tOMIM\nA\tAlpha\t100000\n")
    code, out, err = mien(
        *("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "e.csv", "--json", "--metadata"),
        *(tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "n.tsv", "--encoder", "gm-arc"),
    )
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "generation": 1,
        "images_added": 2,
        "images_unchanged": 0,
        "labels_added": 0,
        "disorders_renamed": [],
        "encodings_without_metadata": 1,
        "images_without_encoding": [],
    }
    rank = ("rank", "--gallery", tmp_path / "g", "--encodings", tmp_path / "e.csv", "--json")
    _, out, _ = mien(*rank, "--metadata", tmp_path / "a.csv")
    [query] = json.loads(out)["queries"]
    assert query["excluded_gallery_patients"] == ["p"]
    assert [line["disorder_id"] for line in query["disorders"]] == ["B"]
    code, _, err = mien(*rank)  # without a table all images are one patient, who is everybody in the gallery
    assert code == 1
    assert "own patient" in err


# bad input: a clear message, exit code 1, nothing written

METADATA = {
    "missing column": (b"image_id,label\n1,A\n", ["row 1", "'patient_id or subject' is missing"]),
    "not UTF-8": (b"image_id,subject,label\n1,p,A\n2,\xff\xfep,A\n", ["row 3", "not UTF-8"]),
    "byte-order mark": (b"\xef\xbb\xbfimage_id,subject,label\n1,p,A\n", ["byte-order mark"]),
    "duplicate header": (b"image_id,subject,label,label\n1,p,A,A\n", ["'label' is there twice"]),
    "empty": (b"", ["empty"]),
    "only a header": (b"image_id,subject,label\n", ["no image has both a patient and a disorder"]),
    "wrong separator": (b"image_id;subject;label\n1;p;A\n", ["separated by semicolons"]),
    "short and long rows": (b"image_id,subject,label\n1,p\n2,q,B\n3,r,C,D\n", ["row 2: 2 fields", "row 4: 4 fields"]),
    "blank id": (
        b"image_id,subject,label\n1,p,A\n,p,A\n2,,A\n",
        ["row 3: the image's id is blank", "row 4: the patient's id is blank"],
    ),
    "one image, two patients": (b"image_id,subject,label\n1,p,A\n1,q,A\n", ["row 3", "'1'", "'q'", "'p'"]),
    "open quote": (b'image_id,subject,label\n1,"p,A\n', ["row 2"]),
    "image without encoding": (
        b"image_id,subject,label\n1,p,A\n9,p,A\n",
        ["no encoding of image '9'", "--allow-missing"],
    ),
}


@pytest.mark.parametrize("case", METADATA)
def test_bad_metadata_is_refused_whole(mien, tmp_path, case):
    content, expected = METADATA[case]
    (tmp_path / "e.csv").write_text(GM_ARC_HEADER + gm_arc_rows(1) + gm_arc_rows(2))
    (tmp_path / "m.csv").write_bytes(content)
    code, out, err = mien(
        *("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "e.csv", "--metadata", tmp_path / "m.csv")
    )
    assert (code, out) == (1, "")
    for part in expected:
        assert part in err
    assert not (tmp_path / "g").exists()


def test_a_hundred_problems_are_listed_and_the_rest_counted(mien, tmp_path):
    (tmp_path / "e.csv").write_text(GM_ARC_HEADER + gm_arc_rows(1))
    (tmp_path / "m.csv").write_text("image_id,subject,label\n" + "1,p\n" * 250)
    _, _, err = mien(
        "gallery", "build", tmp_path / "g", "--encodings", tmp_path / "e.csv", "--metadata", tmp_path / "m.csv"
    )
    assert err.count("2 fields") == 100
    assert "250 problems in all" in err


ENCODINGS = {
    "wrong header": ("img_name;model\n", ["row 1: expected the header img_name;model;flip"]),
    "not a number": (GM_ARC_HEADER + gm_arc_rows(1, "[1.0, zwei]"), ["row 2", "field representations"]),
    "not a list": (GM_ARC_HEADER + gm_arc_rows(1, "1.0"), ["row 2", "list of numbers in brackets"]),
    "empty list": (GM_ARC_HEADER + gm_arc_rows(1, "[]"), ["row 2", "expected a list of numbers"]),
    "NaN": (GM_ARC_HEADER + gm_arc_rows(1, "[1.0, NaN]"), ["not a finite number", "image '1'"]),
    "infinite": (GM_ARC_HEADER + gm_arc_rows(1, "[1.0, Infinity]"), ["not a finite number", "image '1'"]),
    "too large for float32": (GM_ARC_HEADER + gm_arc_rows(1, "[1.0, 1e300]"), ["not a finite number", "image '1'"]),
    "length zero": (GM_ARC_HEADER + gm_arc_rows(1, "[0.0, 0.0]"), ["length zero", "image '1'"]),
    "mixed dimensions": (
        GM_ARC_HEADER + gm_arc_rows(1) + gm_arc_rows(2, "[1.0]"),
        ["row 6", "1 numbers where others have 2"],
    ),
    "missing representation": (
        GM_ARC_HEADER + gm_arc_rows(1) + gm_arc_rows(2).split("\n", 1)[1],
        ["image '2': representation m0, flip 0, gray 0 is missing"],
    ),
    "duplicate representation": (
        GM_ARC_HEADER + gm_arc_rows(1) + gm_arc_rows(2) + gm_arc_rows(2).split("\n")[3] + "\n",
        ["image '2': representation m0, flip 1, gray 1 is there 2 times"],
    ),
    "short row": (
        GM_ARC_HEADER + gm_arc_rows(1) + "2_a.jpg;m0;0\n",
        ["row 6: expected 6 fields separated by ';', found 3"],
    ),
    "empty file": ("", ["empty"]),
    "nothing known": ("hello\nworld\n", ["'image_id' is missing"]),
}


@pytest.mark.parametrize("case", ENCODINGS)
def test_bad_encodings_are_refused_whole(mien, tmp_path, case):
    content, expected = ENCODINGS[case]
    (tmp_path / "e.csv").write_text(content)
    (tmp_path / "m.csv").write_text("image_id,subject,label\n1,p,A\n2,q,B\n")
    code, out, err = mien(
        *("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "e.csv", "--metadata", tmp_path / "m.csv")
    )
    assert (code, out) == (1, "")
    for part in [*expected, str(tmp_path / "e.csv")]:
        assert part in err
    assert not (tmp_path / "g").exists()


COHORTS = {
    "NaN": ([[1.0, float("nan")], [1.0, 2.0]], {}, ["not a finite number", "image '1'"]),
    "length zero": ([[1.0, 2.0], [0.0, 0.0]], {}, ["length zero", "image '2'"]),
    "mixed dimensions": ([[1.0, 2.0], [1.0]], {}, ["row 2, image '2'", "not as long"]),
    "missing embedding": ([[1.0, 2.0], None], {}, ["row 2, image '2'", "missing"]),
    "missing number": ([[1.0, 2.0], [1.0, None]], {}, ["not a finite number", "image '2'"]),
    "texts": ([["a"], ["b"]], {}, ["expected lists of numbers"]),
    "image twice": (
        [[1.0, 2.0], [1.0, 3.0]],
        {"image_id": ["1", "1"], "patient_id": ["p", "p"]},
        ["row 2", "there twice"],
    ),
    "two patients": ([[1.0, 2.0], [1.0, 2.0]], {"image_id": ["1", "1"]}, ["row 2", "an image shows one person"]),
    "blank patient": ([[1.0, 2.0], [1.0, 3.0]], {"patient_id": ["p", None]}, ["row 2", "the patient's id is blank"]),
    "no embedding column": (None, {}, ["'embedding' is missing"]),
    "no patient": ([[1.0, 2.0], [1.0, 3.0]], {"patient_id": None}, ["the column 'patient_id' is missing or empty"]),
    "no disorder": ([[1.0, 2.0], [1.0, 3.0]], {"disorder_id": None}, ["the column 'disorder_id' is missing or empty"]),
}


@pytest.mark.parametrize("case", COHORTS)
def test_bad_cohort_tables_are_refused_whole(mien, tmp_path, case):
    embeddings, changed, expected = COHORTS[case]
    columns = {"image_id": ["1", "2"], "patient_id": ["p", "q"], "disorder_id": ["A", "B"], **changed}
    if embeddings is not None:
        columns["embedding"] = embeddings
    there = {name: values for name, values in columns.items() if values is not None}
    pq.write_table(pa.table(there), tmp_path / "c.parquet")
    code, out, err = mien("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "c.parquet")
    assert (code, out) == (1, "")
    for part in [*expected, "c.parquet"]:
        assert part in err
    assert not (tmp_path / "g").exists()


def test_an_image_twice_with_the_same_embedding_is_no_problem(mien, tmp_path):
    rows = '1,p,A,"[1, 2]"\n1,p,A,"[1, 2]"\n'
    (tmp_path / "c.csv").write_text("image_id,patient_id,disorder_id,embedding\n" + rows)
    _, out, _ = mien("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "c.csv", "--json")
    assert json.loads(out)["images_added"] == 1


def test_missing_encodings_can_be_allowed_and_are_listed(mien, tmp_path):
    (tmp_path / "e.csv").write_text(GM_ARC_HEADER + gm_arc_rows(1))
    (tmp_path / "m.csv").write_text("image_id,subject,label\n1,p,A\n8,p,A\n9,q,B\n")
    arguments = (
        "gallery",
        "build",
        tmp_path / "g",
        "--encodings",
        tmp_path / "e.csv",
        "--metadata",
        tmp_path / "m.csv",
    )
    assert mien(*arguments)[0] == 1
    code, out, _ = mien(*arguments, "--allow-missing", "--json")
    assert code == 0
    assert json.loads(out)["images_without_encoding"] == ["8", "9"]


def test_encodings_without_labels_need_a_table(mien, tmp_path):
    (tmp_path / "e.csv").write_text(GM_ARC_HEADER + gm_arc_rows(1))
    code, _, err = mien("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "e.csv")
    assert code == 1
    assert "--metadata" in err


@pytest.mark.parametrize("what", ["missing", "directory", "truncated parquet"])
def test_unreadable_files_are_named(mien, tmp_path, table, what):
    path = {"missing": tmp_path / "none.parquet", "directory": tmp_path, "truncated parquet": tmp_path / "t.parquet"}[
        what
    ]
    (tmp_path / "t.parquet").write_bytes(table.read_bytes()[:500])
    code, _, err = mien("gallery", "build", tmp_path / "g", "--encodings", path)
    assert code == 1
    assert str(path) in err


def test_an_empty_gallery_and_another_encoder_are_refused(mien, gallery, cohort, tmp_path):
    (tmp_path / "e.csv").write_text(GM_ARC_HEADER + gm_arc_rows(1))
    code, out, err = mien("rank", "--gallery", gallery, "--encodings", tmp_path / "e.csv", "--json")
    assert (code, out) == (1, "")
    assert "(4 x 2)" in err
    assert "(2 x 6)" in err
    Gallery.remove_patients(gallery, cohort.roster.patient_ids)
    code, out, err = mien("rank", "--gallery", gallery, "--encodings", tmp_path / "e.csv", "--json")
    assert (code, out) == (1, "")
    assert "holds no images" in err
    code, _, err = mien("rank", "--gallery", tmp_path / "nowhere", "--encodings", tmp_path / "e.csv")
    assert code == 1
    assert "holds no gallery" in err


@pytest.mark.long
def test_bench_prints_every_ratio(mien, monkeypatch):
    """Once each, and at once: what is measured says nothing here."""
    for name in ("encoding.PHOTOS", "large.RUNS", "ranking.RUNS"):
        monkeypatch.setattr(f"mien.benchmark.{name}", 1)
    for name in ("large.PATIENTS", "ranking.PATIENTS", "ranking.BATCH"):
        monkeypatch.setattr(f"mien.benchmark.{name}", 2)
    monkeypatch.setattr("mien.benchmark.serving.WARM_UP", 0.1)
    code, out, _ = mien("bench", "--size", "0.002", "--json")
    assert code == 0
    lines = json.loads(out)["lines"]
    assert len(lines) == (20 if stored_encoder(DEFAULT).missing() else 25)
    assert all(line["ratio"] > 0 for line in lines)


def test_the_installed_program_runs():
    ended = subprocess.run([sys.executable, "-m", "mien", "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("mien ")


def test_answers_are_not_written_over_their_sources(mien, gallery, table):
    for out in (table, gallery / "r.json", gallery / "index-1.json"):
        code, _, err = mien("rank", "--gallery", gallery, "--encodings", table, "--out", out)
        assert code == 1
        assert "choose another name" in err


def test_images_without_encoding_are_in_the_answer(mien, gallery, table, cohort, tmp_path):
    (tmp_path / "m.csv").write_text(f"image_id,subject\n{cohort.roster.image_ids[0]},q\nnowhere,q\n")
    arguments = ("rank", "--gallery", gallery, "--encodings", table, "--json", f"--metadata={tmp_path / 'm.csv'}")
    assert mien(*arguments)[0] == 1
    _, out, err = mien(*arguments, "--allow-missing")
    assert json.loads(out)["images_without_encoding"] == ["nowhere"]
    assert "'nowhere'" in err


def test_a_table_of_many_patients_says_who_was_left_out(mien, gallery, table, cohort):
    _, out, _ = mien("rank", "--gallery", gallery, "--encodings", table, "--top", "2")
    assert "left out" in out
    assert "rank 2" in out
    assert "rank 3" not in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_terminal_gets_what_it_can_show(mien, gallery, table, encoding, monkeypatch):
    for command in (["gallery", "info", gallery], ["rank", "--gallery", gallery, "--encodings", table]):
        shown = BytesIO()
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(shown, encoding))  # strict, as PYTHONIOENCODING has it
        code, _, err = mien(*command)
        sys.stdout.flush()
        assert (code, err) == (0, "")
        assert len(shown.getvalue().decode(encoding).splitlines()) > 5


def test_an_argument_that_is_no_text_is_refused(gallery):
    ended = subprocess.run(
        [sys.executable, "-m", "mien", "gallery", "remove-patient", str(gallery), b"\xff"],
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 1
    assert b"Traceback" not in ended.stderr

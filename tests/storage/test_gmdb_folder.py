from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mien import Disorder, Encoder, Encodings, Label, MienError
from mien.core.study import Fold, ImageFacts, Split, Study
from mien.errors import EncoderMismatchError, InvalidFileError, InvalidStudyError
from mien.evaluation.experiments.confounders import VARIABLES
from mien.report.evaluation import NORMALISED
from mien.storage.formats import cohort_parquet, gm_arc_csv
from mien.storage.formats.gm_arc_csv import write_gm_arc_csv
from mien.storage.formats.gmdb_folder import NAMES, read_gmdb, read_releases, write_gmdb
from mien.storage.formats.image_metadata import COLUMNS
from mien.storage.loading import read_encodings

VERSION = "v9.9-test"
TRAIN = (Label("007", "01", "5"), Label("8", "01", "5"), Label("9", "2", "6"))
VALIDATION = (Label("10", "3", "5"),)
FREQUENT = Split((*TRAIN, *VALIDATION), (Label("11", "4", "5"), Label("12", "5", "6")))
RARE = (
    Split((Label("20", "6", "7"), Label("20", "6", "8")), (Label("21", "7", "7"), Label("22", "7", "7"))),
    Split((Label("21", "7", "7"), Label("22", "7", "7")), (Label("20", "6", "7"), Label("20", "6", "8"))),
)
IMAGE_IDS = ("22", "007", "8", "9", "10", "11", "12", "20", "21")


@pytest.fixture
def study(rng):
    embeddings = rng.standard_normal((len(IMAGE_IDS), 8, 5)).astype(np.float32)
    embeddings[0, 0] = [-0.0, 1e-45, 3.4028235e38, 16777217.0, -1.17549435e-38]  # what is easy to lose in text
    return Study(
        source=f"GMDB {VERSION}",
        encodings=Encodings(IMAGE_IDS, embeddings, Encoder(8, 5, name="made-up")),
        folds=tuple(Fold(FREQUENT, rare) for rare in RARE),
        train=TRAIN,
        validation=VALIDATION,
        disorders={"5": Disorder("5", 'Kabuki\t"type 1"', "OMIM:147920 OMIMPS:163950"), "6": Disorder("6")},
        facts_of_image={"007": ImageFacts(7 / 12, "female"), "8": ImageFacts(None, "male"), "9": ImageFacts(3.0)},
    )


@pytest.fixture
def folder(tmp_path, study):
    write_gmdb(tmp_path / "gmdb", study, VERSION)
    return tmp_path / "gmdb"


def read(folder, **options):
    return read_gmdb(folder, folder / "encodings.parquet", **options)[0]


def table(folder, kind, suffix="csv"):
    return folder / "gmdb_metadata" / f"gmdb_{kind}_{VERSION}.{suffix}"


def metadata(folder):
    return folder / "gmdb_metadata" / f"image_metadata_{VERSION}.tsv"


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def label_sets(study):
    return [[set(labels) for split in fold for labels in split] for fold in study.folds]


def bits_by_id(encodings):
    return {image_id: encodings.embeddings[row].tobytes() for row, image_id in enumerate(encodings.image_ids)}


@pytest.mark.parametrize("name", ["encodings.parquet", "all_encodings.csv"])
def test_a_study_comes_back_as_it_was_written(tmp_path, study, name):
    write_gmdb(tmp_path / "gmdb", study, VERSION, csv=True)
    found, _ = read_gmdb(tmp_path / "gmdb", tmp_path / "gmdb" / name, encoder_name="made-up")
    assert label_sets(found) == label_sets(study)
    assert (set(found.train), set(found.validation)) == (set(TRAIN), set(VALIDATION))
    assert bits_by_id(found.encodings) == bits_by_id(study.encodings)
    assert found.encodings.encoder.name == "made-up"
    assert (found.disorders, found.facts_of_image) == (study.disorders, study.facts_of_image)
    assert (found.source, found.simulated) == (f"GMDB {VERSION}", False)


def test_ids_stay_the_texts_they_are(folder):
    assert Label("007", "01", "5") in read(folder).train
    assert "007" in read(folder).encodings.image_ids


def test_all_folds_share_one_frequent_part(folder):
    found = read(folder)
    assert len(found.folds) == 2
    assert all(fold.frequent is found.folds[0].frequent for fold in found.folds)


def test_the_folder_of_the_tables_is_as_good_as_the_one_around_it(folder):
    inside, _ = read_gmdb(folder / "gmdb_metadata", folder / "encodings.parquet")
    assert label_sets(inside) == label_sets(read(folder))


def test_a_version_that_never_existed_is_simulated(tmp_path, study):
    write_gmdb(tmp_path / "gmdb", study, "v1-simulated")
    assert read(tmp_path / "gmdb").simulated


def test_only_the_four_parts_are_needed(folder):
    for kind, suffix in (("train_images", "csv"), ("val_images", "csv"), ("syndromes", "tsv")):
        table(folder, kind, suffix).unlink()
    metadata(folder).unlink()
    found = read(folder)
    assert (found.train, found.validation, found.disorders, found.facts_of_image) == ((), (), {}, {})


def test_what_a_study_does_not_have_gets_no_table(tmp_path, study):
    bare = Study(study.source, study.encodings, (Fold(FREQUENT, Split((), ())),))
    write_gmdb(tmp_path / "gmdb", bare, VERSION)
    assert [path.name.split("_images")[0] for path in sorted((tmp_path / "gmdb" / "gmdb_metadata").iterdir())] == [
        *("gmdb_frequent_gallery", "gmdb_frequent_test", "gmdb_rare_gallery", "gmdb_rare_test"),
    ]
    assert label_sets(read(tmp_path / "gmdb")) == label_sets(bare)


def test_the_tables_choose_among_the_encodings(tmp_path, folder, study):
    more = Encodings(
        (*IMAGE_IDS, "99"), np.concatenate([study.encodings.embeddings, np.ones((1, 8, 5), np.float32)]), Encoder(8, 5)
    )
    write_gm_arc_csv(tmp_path / "more.csv", more)
    steps = []
    found, remarks = read_gmdb(folder, tmp_path / "more.csv", progress=lambda *step: steps.append(step))
    assert bits_by_id(found.encodings) == bits_by_id(study.encodings)
    assert steps
    assert remarks.other_encodings == 1


def test_the_tables_choose_among_the_facts_and_images_without_are_counted(folder):
    metadata(folder).write_text("image_id\tgender\tage_year\tage_month\n99\tmale\t4\t\n8\t\t5\t\n9\t\t\t\n")
    found, remarks = read_gmdb(folder, folder / "encodings.parquet")
    assert found.facts_of_image == {"8": ImageFacts(5.0)}
    assert remarks.images_without_facts == len(IMAGE_IDS) - 1


def test_the_page_on_folders_names_every_table_and_its_columns():
    page = (Path(__file__).parents[2] / "docs" / "gmdb.md").read_text()
    for name in NAMES.values():
        assert f"`{name.format('<version>')}`" in page
    assert " | ".join(["`image_metadata_<version>.tsv`", ", ".join(f"`{column}`" for column in COLUMNS)]) in page
    assert NORMALISED.partition("simulated data by ")[2].rstrip(".") in page
    assert all(f"| `{variable}` |" in page for variable in VARIABLES)


SIDE_TABLES = (
    *("gmdb_syndromes_{}_wo_pleiotropy.tsv", "gmdb_frequent_gallery_images_{}_wo_pleiotropy.csv"),
    *("gmdb_train_images_{}_eth_freq.csv", "image_metadata_{}_2.tsv", "gmdb_syndromes_12062025.tsv"),
)


def test_side_tables_are_no_second_version_and_are_named(folder, study):
    for name in SIDE_TABLES:
        (folder / "gmdb_metadata" / name.format(VERSION)).write_text("not read\n")
    (folder / "gmdb_metadata" / f"gmdb_test_images_{VERSION}.csv").write_text("not known\n")
    found, remarks = read_gmdb(folder, folder / "encodings.parquet")
    assert set(remarks.side_tables) == {name.format(VERSION) for name in SIDE_TABLES}
    assert found.source == f"GMDB {VERSION}"
    assert label_sets(found) == label_sets(study)


def test_a_folder_as_the_first_public_evaluation_reads_it(tmp_path, study):
    """Version 1.0.3: four tables with a column more, an index among them, and no others."""
    write_gmdb(tmp_path / "gmdb", study, "v1.0.3")
    inside = tmp_path / "gmdb" / "gmdb_metadata"
    for path in inside.iterdir():
        if "frequent" not in path.name and "rare" not in path.name:
            path.unlink()
            continue
        header, *rows = path.read_text().splitlines()
        numbered = [f"{number},{row},f" for number, row in enumerate(rows)]
        path.write_text("\n".join([f",{header},ethnicity", *numbered]))
    (inside / "gmdb_syndromes_v1.0.3.tsv").write_text(
        "syndrome_id\tsyndrome_name\timage_ids\tnum_of_images\n5\tKabuki\t['007', '8']\t2\n"
    )
    found = read(tmp_path / "gmdb")
    assert label_sets(found) == label_sets(study)
    assert (found.source, found.disorders) == ("GMDB v1.0.3", {"5": Disorder("5", "Kabuki")})


def test_the_same_row_twice_counts_once(folder):
    path = table(folder, "frequent_test_images")
    path.write_text(path.read_text() + "11,4,5\n")
    assert read(folder).folds[0].frequent.test == FREQUENT.test


def test_folds_are_in_the_order_of_their_numbers(folder):
    for side in ("gallery", "test"):
        path = table(folder, f"rare_{side}_images")
        path.write_text(path.read_text().replace(",0\n", ",10\n").replace(",1\n", ",9\n"))
    assert [set(fold.rare.test) for fold in read(folder).folds] == [set(RARE[1].test), set(RARE[0].test)]


def test_images_without_an_encoding_are_refused_by_id(tmp_path, folder, study):
    write_gm_arc_csv(tmp_path / "few.csv", study.encodings.only(range(2, 9)))
    with pytest.raises(InvalidFileError, match=r"few\.csv:\n  no encoding.*") as refused:
        read_gmdb(folder, tmp_path / "few.csv")
    for part in ("image '007'", "image '22'", "encode these images, or take them out of the tables in"):
        assert part in str(refused.value)


def test_another_encoders_name_is_refused(folder):
    with pytest.raises(EncoderMismatchError, match="made-up"):
        read(folder, encoder_name="another")


HEADER = "image_id,subject,label,split\n"
BAD_TABLES = {
    "no split column": ("rare_test_images", "image_id,subject,label\n21,7,7\n", ["'split' is missing"]),
    "split in words": (
        "rare_test_images",
        f"{HEADER}21,7,7,one\n22,7,7,0\n20,6,7,-1\n20,6,7,1.0\n20,6,7,\n",
        [
            "row 2: the split 'one' is not a whole",
            "row 4: the split '-1'",
            "row 5: the split '1.0'",
            "row 6: the split",
        ],
    ),
    "split of the gallery alone": (
        "rare_test_images",
        f"{HEADER}21,7,7,0\n",
        [f"split 1 is not in gmdb_rare_test_images_{VERSION}.csv, but in gmdb_rare_gallery_images"],
    ),
    "splits of the test set alone": (
        "rare_gallery_images",
        f"{HEADER}20,6,7,3\n",
        ["split 3 is not in gmdb_rare_test", "split 0 is not in gmdb_rare_gallery", "split 1 is not in gmdb_rare_gal"],
    ),
    "blank label": ("val_images", "image_id,subject,label\n10,3,\n", ["row 2: the disorder's id is blank"]),
    "image of two patients": (
        "val_images",
        "image_id,subject,label\n007,3,5\n",
        ["row 2: image '007' belongs to patient '3' here and to '01'"],
    ),
    "empty": ("frequent_test_images", "", ["the file is empty"]),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_with_every_problem(folder, case):
    kind, text, expected = BAD_TABLES[case]
    table(folder, kind).write_text(text)
    with pytest.raises(InvalidFileError) as refused:
        read(folder)
    for part in ["gmdb_metadata", *expected]:
        assert part in str(refused.value)


def test_all_missing_tables_are_named(folder):
    table(folder, "frequent_test_images").unlink()
    table(folder, "rare_gallery_images").unlink()
    with pytest.raises(InvalidFileError) as refused:
        read(folder)
    for part in ("gmdb_frequent_test_images_v9.9-test.csv' is missing", "gmdb_rare_gallery_images_v9.9-test.csv'"):
        assert part in str(refused.value)


def test_validation_images_need_training_images(folder):
    table(folder, "train_images").unlink()
    with pytest.raises(InvalidFileError, match=f"'gmdb_train_images_{VERSION}.csv' is missing"):
        read(folder)


def test_two_versions_in_one_folder_are_refused_with_their_files(folder):
    table(folder, "rare_test_images").rename(folder / "gmdb_metadata" / "gmdb_rare_test_images_v10.csv")
    with pytest.raises(InvalidFileError, match="give each a folder of its own") as refused:
        read(folder)
    for part in ("version 'v10': 'gmdb_rare_test_images_v10.csv'", f"version '{VERSION}'"):
        assert part in str(refused.value)


def test_folders_without_tables_are_refused(tmp_path):
    with pytest.raises(InvalidFileError, match="no tables of GMDB here: expected gmdb_frequent_gallery_images_<vers"):
        read(tmp_path)
    with pytest.raises(InvalidFileError, match="nowhere: No such file or directory: give the folder"):
        read(tmp_path / "nowhere")


def test_a_patient_on_both_sides_is_read_and_known(folder):
    path = table(folder, "frequent_test_images")
    path.write_text(path.read_text() + "007,01,5\n")
    assert set(read(folder).tested_and_in_gallery) == {("01",)}


def test_a_folder_that_is_not_empty_is_not_written_to(tmp_path, study, folder):
    before = files_in(folder)
    with pytest.raises(MienError, match=f"{folder} exists already: choose another name"):
        write_gmdb(folder, study, VERSION)
    assert files_in(folder) == before
    (tmp_path / "file").touch()
    for place, what in ((tmp_path / "file", "file exists already"), (tmp_path / "file" / "below", "Not a directory")):
        with pytest.raises(MienError, match=what):
            write_gmdb(place, study, VERSION)


def test_by_force_one_study_takes_the_place_of_another_and_other_files_stay(tmp_path, study):
    folder = tmp_path / "gmdb"
    write_gmdb(folder, study, "v1", csv=True)
    (folder / "thesis.txt").touch()
    write_gmdb(folder, study, VERSION, force=True)
    assert {name.rpartition("_")[2].split(".")[0] for name in files_in(folder) if name.endswith(".csv")} == {"v9"}
    assert sorted(path.name for path in folder.iterdir()) == ["encodings.parquet", "gmdb_metadata", "thesis.txt"]
    assert label_sets(read(folder)) == label_sets(study)


def test_what_the_tables_cannot_hold_is_not_written(tmp_path, study):
    other = Fold(Split(FREQUENT.gallery, FREQUENT.test[:1]), RARE[1])
    lopsided = Fold(FREQUENT, Split(RARE[1].gallery, ()))
    nobody = Fold(FREQUENT, Split((), ()))
    for wrong, what in (
        (other, "not the same in all folds"),
        (lopsided, "fold 1: no rare"),
        (nobody, "fold 1: no rare"),
    ):
        with pytest.raises(InvalidStudyError, match=what):
            write_gmdb(tmp_path / "gmdb", replace(study, folds=(study.folds[0], wrong)), VERSION)
    with pytest.raises(InvalidFileError, match="row 3: '=1\\+1' begins like a formula"):
        write_gmdb(
            tmp_path / "gmdb", replace(study, disorders={"5": Disorder("5"), "6": Disorder("6", "=1+1")}), VERSION
        )
    with pytest.raises(InvalidFileError, match="holds a line break"):
        write_gmdb(tmp_path / "gmdb", replace(study, disorders={"5": Disorder("5", "a\r\nb")}), VERSION)
    for version in ("", "../v1", "v 1"):
        with pytest.raises(MienError, match="becomes part of file names"):
            write_gmdb(tmp_path / "gmdb", study, version)
    assert not (tmp_path / "gmdb").exists() or files_in(tmp_path / "gmdb") == []


@pytest.mark.parametrize("error", [RuntimeError("cut short"), OSError(28, "No space left on device")])
def test_a_writer_that_is_cut_short_leaves_nothing_behind(tmp_path, study, monkeypatch, error):
    out, seen = tmp_path / "gmdb", []

    def fail(done, everything):
        seen.append(files_in(out))
        if done == everything:
            raise error

    with pytest.raises((RuntimeError, MienError), match=r"cut short|gmdb: No space left on device"):
        write_gmdb(out, study, VERSION, csv=True, progress=fail)
    assert files_in(out) == []
    assert any("encodings.parquet" in name for name in seen[-1])  # it was on its way
    assert all(name.startswith("unfinished-") for names in seen for name in names)
    write_gmdb(out, study, VERSION, csv=True)
    assert label_sets(read(out)) == label_sets(study)


def test_the_tables_get_their_name_last(tmp_path, study, monkeypatch):
    path_type = type(tmp_path)
    rename, names = path_type.rename, []

    def recorded(path, target):
        names.append(target.name)
        if target.name == "gmdb_metadata":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(path_type, "rename", recorded)
    with pytest.raises(KeyboardInterrupt):
        write_gmdb(tmp_path / "gmdb", study, VERSION, csv=True)
    assert names == ["all_encodings.csv", "encodings.parquet", "gmdb_metadata"]
    with pytest.raises(InvalidFileError, match="no tables of GMDB here"):
        read(tmp_path / "gmdb")


def test_progress_covers_all_files(tmp_path, study, monkeypatch):
    monkeypatch.setattr(cohort_parquet, "ROWS_PER_BATCH", 4)
    monkeypatch.setattr(gm_arc_csv, "IMAGES_BETWEEN_REPORTS", 4)
    steps = []
    write_gmdb(tmp_path / "gmdb", study, VERSION, csv=True, progress=lambda *step: steps.append(step))
    assert [done for done, _ in steps] == [0, 4, 8, 9, 13, 17, 18]
    assert {everything for _, everything in steps} == {18}
    assert bits_by_id(read(tmp_path / "gmdb").encodings) == bits_by_id(study.encodings)


def test_the_gm_arc_layout_is_the_official_one(tmp_path, rng):
    encodings = Encodings.of(["007"], rng.standard_normal((1, 12, 2)))
    write_gm_arc_csv(tmp_path / "e.csv", encodings)
    lines = (tmp_path / "e.csv").read_text().splitlines()
    assert lines[0] == "img_name;model;flip;gray;class_conf;representations"
    assert [line.rpartition(";")[0] for line in lines[1:]] == [
        f"007_rot_aligned.jpg;m{model};{flip};{gray};[0]" for model in range(3) for flip in (0, 1) for gray in (0, 1)
    ]
    found = read_encodings(tmp_path / "e.csv").encodings
    assert bits_by_id(found) == bits_by_id(encodings)
    write_gm_arc_csv(tmp_path / "again.csv", found)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "e.csv").read_bytes()


def test_every_float32_survives_as_text(tmp_path, rng):
    numbers = rng.integers(2**32, size=40_000, dtype=np.uint32).view(np.float32)
    numbers = numbers[np.isfinite(numbers)][:36_000]
    encodings = Encodings.of([str(image) for image in range(9)], numbers.reshape(9, 4, -1))
    write_gm_arc_csv(tmp_path / "e.csv", encodings)
    assert bits_by_id(read_encodings(tmp_path / "e.csv").encodings) == bits_by_id(encodings)


def test_more_than_ten_models_keep_their_order(tmp_path, rng):
    encodings = Encodings.of(["1", "2"], rng.standard_normal((2, 48, 3)))
    write_gm_arc_csv(tmp_path / "e.csv", encodings)
    assert bits_by_id(read_encodings(tmp_path / "e.csv").encodings) == bits_by_id(encodings)


def test_what_the_gm_arc_layout_cannot_hold_is_refused(tmp_path, study):
    path = tmp_path / "e.csv"
    with pytest.raises(InvalidFileError, match="6 representations, which are not whole models of 4 views"):
        write_gm_arc_csv(path, Encodings.of(["1"], np.ones((1, 6, 3))))
    with pytest.raises(InvalidFileError) as refused:
        write_gm_arc_csv(path, Encodings.of(["a_b", "1;2", "=1", "a\nb", "fine"], np.ones((5, 4, 3))))
    for part in ("image 'a_b' holds one of", "image '1;2' holds one of", "image '=1' begins", "image 'a\\nb' holds a"):
        assert part in str(refused.value)
    assert "fine" not in str(refused.value)
    gray_first = tuple(f"m0/flip{flip}/gray{gray}" for gray in (0, 1) for flip in (0, 1))
    with pytest.raises(InvalidFileError, match="'m0/flip1/gray0' would stand here as 'm0/flip0/gray1'"):
        write_gm_arc_csv(path, Encodings.of(["1"], np.ones((1, 4, 3)), Encoder(4, 3, None, None, gray_first)))
    assert not path.exists()
    bad = replace(study, encodings=Encodings(IMAGE_IDS, study.encodings.embeddings[:, :6], Encoder(6, 5)))
    with pytest.raises(InvalidFileError, match="not whole models"):
        write_gmdb(tmp_path / "gmdb", bad, VERSION, csv=True)
    assert files_in(tmp_path / "gmdb") == []


def test_releases_bring_all_labels_of_each_version(tmp_path, folder):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "gmdb_train_images_v1.csv").write_text("image_id,subject,label\n007,01,5\n007,01,5\n")
    path = tmp_path / "releases.csv"
    path.write_text("version,released,folder\nv9,2024-05-01,gmdb\nv1,2021-12-31,old\n")
    old, new = read_releases(path)
    assert old == ("v1", date(2021, 12, 31), (Label("007", "01", "5"),))
    assert (new.version, new.released) == ("v9", date(2024, 5, 1))
    assert set(new.labels) == {*FREQUENT.gallery, *FREQUENT.test, *RARE[0].gallery, *RARE[0].test}
    assert len(new.labels) == len(set(new.labels))


def test_bad_lists_of_releases_are_refused(tmp_path, folder):
    path = tmp_path / "releases.csv"
    rows = [
        "v9,2024-05-01,gmdb",
        "v9,2024-05-01,gmdb",
        "v1,May 2021,gmdb",
        " ,2021-01-01,gmdb",
        "v2,2021-01-01,no",
        "v3,2021-01-01,",
    ]
    path.write_text("\n".join(["version,released,folder", *rows]))
    with pytest.raises(InvalidFileError) as refused:
        read_releases(path)
    for part in (
        *("releases.csv", "row 3: version 'v9' is in an earlier row", "row 4: released is 'May 2021'"),
        *("row 5: the version is blank", "row 6: 'no' is no folder", "row 7: '' is no folder"),
    ):
        assert part in str(refused.value)
    path.write_text("version,released,folder\n")
    with pytest.raises(InvalidFileError, match="lists no version"):
        read_releases(path)
    path.write_text("version,date,folder\nv9,2024-05-01,gmdb\n")
    with pytest.raises(InvalidFileError, match="'released' is missing"):
        read_releases(path)
    with pytest.raises(InvalidFileError, match=r"none\.csv: No such file or directory: check the path"):
        read_releases(tmp_path / "none.csv")
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "gmdb_syndromes_v1.tsv").write_text("syndrome_id\tsyndrome_name\n5\tKabuki\n")
    path.write_text("version,released,folder\nv1,2024-05-01,names\n")
    with pytest.raises(InvalidFileError, match="names: no tables of GMDB here"):
        read_releases(path)


def test_a_folder_is_for_its_owner(tmp_path, study):
    write_gmdb(tmp_path / "gmdb", study, VERSION, csv=True)
    assert (tmp_path / "gmdb").stat().st_mode & 0o777 == 0o700
    files = [path for path in (tmp_path / "gmdb").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}

"""`mien cohort` as a user meets it."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from PIL import Image

from mien import Gallery
from mien.simulation.photos import DrawnPerson

from cohorts import families


@pytest.fixture
def gallery(rng, tmp_path):
    Gallery.build(tmp_path / "gallery", families(rng, disorders=8, patients=6))
    return tmp_path / "gallery"


def write_cohort(path, rng, groups, *, dimensions=24):
    """Three photos of each patient; a face for each group."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", "patient_id", *["group"] * (groups is not None), "embedding"])
        for number, group in enumerate(groups or [""] * 5):
            person = rng.standard_normal(dimensions) + 2 * np.random.default_rng(len(group)).standard_normal(dimensions)
            for photo in range(3):
                embedding = json.dumps((person + 0.2 * rng.standard_normal(dimensions)).tolist())
                cells = [f"i{number}-{photo}", f"<p{number}>", *[group] * (groups is not None), embedding]
                writer.writerow(cells)
    return path


def test_a_report_has_figures_tables_numbers_and_one_page(mien, rng, tmp_path, gallery):
    cohort, out = write_cohort(tmp_path / "c.csv", rng, ["A"] * 4 + ["BB"] * 3), tmp_path / "out"
    code, printed, _ = mien("cohort", cohort, "--gallery", gallery, "--out", out, "--json")
    assert code == 0
    document = json.loads(printed)
    assert document == json.loads((out / "results.json").read_text())
    assert [(group["group"], group["patients"]) for group in document["groups"]] == [("A", 4), ("BB", 3)]
    assert {"mean_distance", "p_value", "effect", "ci_low", "ci_high"} <= document["groups"][0].keys()
    assert len(document["pairs"]) == 7 * 6 / 2
    assert document["protocol"]["photos"] == 21
    for name in ("ranks", "alike", "threshold", "map"):
        for suffix in ("svg", "png"):
            assert (out / "figures" / f"{name}.{suffix}").stat().st_size > 1000
    with (out / "tables" / "pairs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 21
    page = (out / "index.html").read_text()
    assert "&lt;p0&gt;" in page
    assert "<p0>" not in page
    assert not re.search(r'src="(?!data:)', page)  # it needs no other file
    linked = re.findall(r'href="([^"]*)"', page)
    assert {"tables/groups.csv", "tables/near_disorders.csv", "tables/pairs.csv", "results.json"} <= set(linked)
    assert all((out / name).is_file() for name in linked)
    assert f"of another patient of the same group ({(20 - 14 + 48) / 2:,.0f} by chance): " in page
    assert "more alike than gallery patients with different disorders" in page
    assert "many more than those of the gallery (1.3): " in page
    assert (out.stat().st_mode & 0o077) == 0
    code, _, error = mien("cohort", cohort, "--gallery", gallery, "--out", out)
    assert (code, "--force" in error) == (1, True)
    out.chmod(0o755)  # an earlier report, or an empty folder of somebody else's making
    assert mien("cohort", cohort, "--gallery", gallery, "--out", out, "--force")[0] == 0
    assert (out.stat().st_mode & 0o077) == 0


def test_without_groups_all_patients_are_one_and_pairs_are_named(mien, rng, tmp_path, gallery):
    cohort = write_cohort(tmp_path / "c.csv", rng, None)
    code, printed, error = mien("cohort", cohort, "--gallery", gallery, "--out", tmp_path / "out")
    assert code == 0
    assert "no column group: the 5 patients are one group" in error
    assert "never gives a diagnosis" in " ".join(printed.split())
    assert "all patients  5 patients, more alike than gallery patients with different disorders" in printed
    page = (tmp_path / "out" / "index.html").read_text()
    assert "pairs are closer than chance" in page
    assert "not calibrated" in page


def test_what_cannot_be_analysed_is_refused_with_a_reason(mien, rng, tmp_path, gallery):
    table = tmp_path / "groups.csv"
    table.write_text("image_id,patient_id,group\ni0-0,<p0>,A\ni0-1,<p0>,B\ni1-0,<p1>,A\ni1-1,<p1>,A\n")
    good = write_cohort(tmp_path / "c.csv", rng, None)
    cases = [
        ((good, "--metadata", table), "'<p0>' is in the groups 'A' and 'B'"),
        ((write_cohort(tmp_path / "one.csv", rng, ["A"]),), "two or more are needed"),
        ((write_cohort(tmp_path / "other.csv", rng, ["A"] * 3, dimensions=9),), "1 x 9"),
    ]
    for arguments, message in cases:
        code, _, error = mien("cohort", *arguments, "--gallery", gallery, "--out", tmp_path / "out")
        assert code == 1
        assert message in error
        assert not (tmp_path / "out").exists()


def test_photos_in_a_folder_with_a_table(mien, tmp_path, default_encoder):
    rng = np.random.default_rng(1)
    lines = ["image_id,patient_id,label,group"]
    (tmp_path / "photos").mkdir()
    for number in range(5):
        Image.fromarray(DrawnPerson.drawn(rng).photo(rng)).save(tmp_path / "photos" / f"{number}.jpg")
        lines.append(f"{number}.jpg,patient {number},disorder {number % 2},{'first' if number < 2 else ''}")
    table = tmp_path / "photos.csv"
    table.write_text("\n".join(lines) + "\n")
    code, *_ = mien("gallery", "build", tmp_path / "g", "--photos", tmp_path / "photos", "--metadata", table)
    assert code == 0
    table.write_text("\n".join(lines[:3]) + "\n")
    arguments = ("--metadata", table, "--gallery", tmp_path / "g", "--out", tmp_path / "out")
    code, printed, error = mien("cohort", tmp_path / "photos", *arguments)
    assert code == 0, error
    assert "first  2 patients" in printed
    assert "were left out of it: 'patient 0', 'patient 1'" in error

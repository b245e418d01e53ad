"""What is known of disorders is stored with the gallery: as a whole, checked, kept when a patient goes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from mien import FULL, Gallery, rank
from mien.answers.genes import Description, Gene
from mien.errors import CorruptGalleryError
from mien.evaluation.calibrating import calibrate
from mien.storage.learned import store_calibration
from mien.storage.sharded import ShardedGallery
from mien.storage.verification import problems

import processes
from cohorts import families, random_cohort

KABUKI = Description("d0", "Kabuki syndrome", ("OMIM:147920", "ORPHA:2322"), (Gene("KMT2D", "8085"), Gene("KDM6A")))
NAMELESS = Description("d1", genes=(Gene("KMT2D", "8085"),))
OTHER = Description("not there", "Another")


@pytest.fixture
def directory(tmp_path, rng):
    Gallery.build(tmp_path / "gallery", random_cohort(rng))
    return tmp_path / "gallery"


def disorders(directory):
    return {disorder.disorder_id: disorder for disorder in Gallery.open(directory).roster.disorders}


def test_descriptions_are_stored_and_replaced_as_a_whole(directory):
    assert Gallery.open(directory).descriptions == {}
    assert Gallery.describe(directory, [KABUKI, NAMELESS, OTHER]) == 2
    assert Gallery.open(directory).descriptions == {"d0": KABUKI, "d1": NAMELESS, "not there": OTHER}
    assert Gallery.describe(directory, [OTHER, NAMELESS, KABUKI]) == 2  # the same again changes nothing
    assert Gallery.describe(directory, [NAMELESS]) == 3
    assert Gallery.open(directory).descriptions == {"d1": NAMELESS}
    assert list(problems(directory)) == []


def test_names_are_those_of_the_last_word(directory):
    before = disorders(directory)
    Gallery.describe(directory, [KABUKI, NAMELESS])
    now = disorders(directory)
    assert now["d0"].name == "Kabuki syndrome"
    assert now["d1"] == before["d1"]
    Gallery.describe(directory, [NAMELESS])
    assert disorders(directory) == before


def test_names_go_into_an_export_and_a_build_again_changes_nothing(directory, tmp_path):
    cohort = random_cohort(np.random.default_rng(2026))
    Gallery.describe(directory, [KABUKI])
    assert Gallery.build(directory, cohort).generation == 2
    Gallery.export(directory, tmp_path / "gallery.parquet")
    rows = pq.read_table(tmp_path / "gallery.parquet").to_pylist()
    assert {row["disorder_name"] for row in rows if row["disorder_id"] == "d0"} == {"Kabuki syndrome"}


def test_omim_numbers_fill_gaps(tmp_path, rng):
    Gallery.build(tmp_path / "gallery", families(rng))
    assert disorders(tmp_path / "gallery")["d0"].omim is None
    Gallery.describe(tmp_path / "gallery", [KABUKI])
    assert disorders(tmp_path / "gallery")["d0"].omim == "OMIM:147920"


def test_descriptions_stay_when_a_patient_goes_and_when_images_come(directory, rng):
    Gallery.describe(directory, [KABUKI])
    Gallery.remove_patients(directory, ["p1-0"])
    Gallery.add(directory, random_cohort(rng, prefix="new "))
    assert Gallery.open(directory).descriptions == {"d0": KABUKI}
    assert disorders(directory)["d0"].name == "Kabuki syndrome"
    assert list(problems(directory)) == []


def test_a_calibration_is_not_stale_after_describing(tmp_path, rng):
    directory = tmp_path / "gallery"
    Gallery.build(directory, families(rng))
    store_calibration(directory, calibrate(Gallery.open(directory), FULL))
    Gallery.describe(directory, [KABUKI])
    [answer] = rank(Gallery.open(directory), families(rng, patients=1, prefix="new ").queries()[0])
    assert not answer.calibration.stale


@pytest.mark.parametrize("column", ["document", "checksum"])
def test_damage_is_named_and_mended_by_describing_again(directory, column):
    Gallery.describe(directory, [KABUKI])
    cut = {"document": "replace(document, 'KMT2D', 'KMT2A')", "checksum": "zeroblob(32)"}[column]
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as database, database:
        database.execute(f"UPDATE described SET {column} = {cut}")
    assert any("table of disorders is damaged" in line for line in problems(directory))
    with pytest.raises(CorruptGalleryError, match="describe"):
        Gallery.open(directory).descriptions  # noqa: B018
    Gallery.remove_patients(directory, ["p0-0"])  # no damage keeps anybody in the gallery
    Gallery.describe(directory, [KABUKI])
    assert list(problems(directory)) == []
    assert Gallery.open(directory).descriptions == {"d0": KABUKI}


def test_the_version_before_finds_its_tables_as_they_were(directory):
    Gallery.describe(directory, [KABUKI])
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert tables - {"gallery", "disorder", "patient", "image", "label", "learned"} == {"described"}
        assert database.execute("SELECT format FROM gallery").fetchone() == (2,)
        assert database.execute("SELECT name FROM disorder WHERE disorder_id = 'd0'").fetchone() == ("Disorder 0",)


def test_several_galleries_know_what_each_knows(directory, tmp_path, rng):
    Gallery.build(tmp_path / "other", random_cohort(rng, prefix="other "))
    Gallery.describe(directory, [KABUKI])
    Gallery.describe(tmp_path / "other", [KABUKI._replace(name="Second word"), NAMELESS])
    both = ShardedGallery.open([directory, tmp_path / "other"])
    assert both.descriptions == {"d0": KABUKI, "d1": NAMELESS}


@pytest.mark.parametrize("galleries", [2, pytest.param(25, marks=pytest.mark.long)])
def test_describing_killed_at_any_moment_leaves_the_old_table_or_the_new(directory, tmp_path, galleries):
    table = tmp_path / "disorders.csv"
    table.write_text("disorder_id,gene_symbol\n" + "".join(f"d{n},GENE{n}\n" for n in range(2000)))
    (tmp_path / "said").mkdir()
    run = partial(processes.run, tmp_path / "said" / "stderr")
    Gallery.describe(directory, [KABUKI])
    command = ("gallery", "describe", directory, "--disorders", table)
    kill = processes.Killer(run, run(*command).seconds, seed=7)
    for _ in kill.numbers(galleries, at_least=galleries / 4):
        Gallery.describe(directory, [KABUKI])
        kill(*command)
        assert len(Gallery.open(directory).descriptions) in {1, 2000}
        assert list(problems(directory)) == []
    assert run(*command).code == 0
    assert len(Gallery.open(directory).descriptions) == 2000

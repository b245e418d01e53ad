"""Backups: one state of a gallery that is in use, private, whole or not there, and restored to the same answers."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest

from mien import Gallery, Query, rank
from mien.errors import CorruptGalleryError, GalleryError, MienError
from mien.storage.backup import back_up, restore
from mien.storage.gallery import state_of
from mien.storage.verification import problems

from cohorts import families

ADDED = 12  # imports by the writer beside the backups


@pytest.fixture(scope="module")
def cohort():
    return families(np.random.default_rng(1))


@pytest.fixture(scope="module")
def built(tmp_path_factory, cohort):
    """A gallery of the cohort, to be copied."""
    directory = tmp_path_factory.mktemp("built") / "gallery"
    Gallery.build(directory, cohort)
    return directory


@pytest.fixture
def directory(tmp_path, built):
    return shutil.copytree(built, tmp_path / "gallery")


def more(number):
    return families(np.random.default_rng(number), patients=1, prefix=f"more{number}-")


def seen(directory):
    """Everything that an answer is made of."""
    queries = [Query.of(rows) for rows in np.random.default_rng(3).standard_normal((3, 2, 1, 24))]
    gallery = Gallery.open(directory)
    return gallery.generation, gallery.fingerprint, gallery.roster.labels(), rank(gallery, queries, top=None)


def modes(folder):
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_a_restored_backup_is_the_same_gallery(directory, tmp_path):
    copied = back_up(directory, tmp_path / "backup")
    restored = restore(tmp_path / "backup", tmp_path / "restored")
    assert copied == restored
    assert seen(tmp_path / "restored") == seen(directory)
    assert list(problems(tmp_path / "backup")) == list(problems(tmp_path / "restored")) == []


def test_everything_that_is_stored_is_in_a_backup(directory, tmp_path, mien):
    (tmp_path / "disorders.csv").write_text("disorder_id,name,gene_symbol\nd1,Named,GENE1\n")
    assert mien("calibrate", "--gallery", directory)[0] == 0
    assert mien("gallery", "describe", directory, "--disorders", tmp_path / "disorders.csv")[0] == 0
    back_up(directory, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    assert state_of(tmp_path / "restored") == state_of(directory)
    assert state_of(directory).learned
    assert state_of(directory).described

    def dump(where):
        with closing(sqlite3.connect(where / "gallery.sqlite")) as database:
            return list(database.iterdump())

    assert dump(tmp_path / "restored") == dump(directory)


def test_backups_while_others_write_are_each_one_state_of_the_gallery(directory, tmp_path):
    states, stop = {1: seen(directory)}, threading.Event()

    def write():
        for number in range(2, 2 + ADDED):
            Gallery.add(directory, more(number))
            shutil.copytree(directory, tmp_path / f"state-{number}")
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    taken = []
    while not stop.is_set():
        taken.append(tmp_path / f"backup-{len(taken)}")
        back_up(directory, taken[-1])
    writer.join()
    states |= {number: seen(tmp_path / f"state-{number}") for number in range(2, 2 + ADDED)}
    for number, backup in enumerate(taken):
        restore(backup, tmp_path / f"restored-{number}")
        found = seen(tmp_path / f"restored-{number}")
        assert found == states[found[0]]
    assert len({state_of(backup).generation for backup in taken}) > 1  # some were taken between imports


def test_backups_are_private_and_without_an_index(directory, tmp_path):
    tmp_path.chmod(0o755)
    back_up(directory, tmp_path / "new" / "backup")
    assert {path.name for path in (tmp_path / "new" / "backup").iterdir()} == {"gallery.sqlite", "gallery.generation"}
    assert modes(tmp_path / "new" / "backup") == {0o600}
    assert (tmp_path / "new" / "backup").stat().st_mode & 0o777 == 0o700
    restore(tmp_path / "new" / "backup", tmp_path / "restored")
    assert modes(tmp_path / "restored") == {0o600}
    assert (tmp_path / "restored").stat().st_mode & 0o777 == 0o700


def test_only_a_new_place_or_an_empty_directory_is_taken(directory, tmp_path):
    back_up(directory, tmp_path / "backup")
    Gallery.add(directory, more(2))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("somebody's only copy")
    (tmp_path / "file").write_text("somebody's only copy")
    (tmp_path / "empty").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "nowhere").symlink_to(tmp_path / "not there")
    for name in ("backup", "other", "file", "link", "nowhere"):
        for source in (directory, tmp_path / "backup"):
            for action in (back_up, restore):
                with pytest.raises(MienError, match=r"is taken: give a new name|lies inside"):
                    action(source, tmp_path / name)
    with pytest.raises(MienError, match="is taken"):
        restore(tmp_path / "backup", directory)
    assert (state_of(tmp_path / "backup").generation, state_of(directory).generation) == (1, 2)
    back_up(directory, tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o700
    assert seen(tmp_path / "empty") == seen(directory)
    assert not list(tmp_path.glob("*.new"))


def test_a_directory_that_fills_meanwhile_stays_as_it_is(directory, tmp_path, monkeypatch):
    def fills(*_):
        (tmp_path / "backup").mkdir()
        (tmp_path / "backup" / "thesis.txt").write_text("somebody's only copy")

    monkeypatch.setattr("mien.storage.backup.finish", fills)
    with pytest.raises(GalleryError, match="not empty"):
        back_up(directory, tmp_path / "backup")
    assert [path.name for path in (tmp_path / "backup").iterdir()] == ["thesis.txt"]
    assert not list(tmp_path.glob("*.new"))


def test_a_backup_takes_the_place_of_a_damaged_gallery_by_renaming(directory, tmp_path):
    before = seen(directory)
    back_up(directory, tmp_path / "backup")
    Gallery.add(directory, more(2))
    served = Gallery.open(directory)
    (directory / "gallery.sqlite").write_bytes(b"no database")
    restore(tmp_path / "backup", tmp_path / "restored")
    directory.rename(tmp_path / "damaged")
    (tmp_path / "restored").rename(directory)
    assert seen(directory) == before
    assert list(problems(directory)) == []
    assert not any(b"more2-" in path.read_bytes() for path in directory.iterdir())
    assert Gallery.add(directory, more(3)).generation == 2
    assert served.generation == 2  # who had it open keeps what was there


def test_a_lost_import_after_a_restore_is_still_noticed(directory, tmp_path):
    back_up(directory, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    older = (tmp_path / "restored" / "gallery.sqlite").read_bytes()
    Gallery.add(tmp_path / "restored", more(2))
    (tmp_path / "restored" / "gallery.sqlite").write_bytes(older)
    with pytest.raises(CorruptGalleryError, match="generation 2 was finished"):
        Gallery.open(tmp_path / "restored")


def test_that_removed_patients_are_in_an_older_backup_is_said(directory, tmp_path, mien):
    back_up(directory, tmp_path / "backup")
    mien("gallery", "remove-patient", directory, "p2-3", "p0-1")
    code, out, err = mien("gallery", "restore", tmp_path / "backup", tmp_path / "restored", "--json")
    assert code == 0
    assert json.loads(out)["patients"] == len(Gallery.open(directory).roster.patient_ids) + 2
    assert "removed after this backup are in it" in err.replace("\n", " ")


def test_a_damaged_gallery_is_not_backed_up(directory, tmp_path, cohort):
    data = (directory / "gallery.sqlite").read_bytes()
    flip(directory / "gallery.sqlite", 8 * data.index(cohort.embeddings[4].tobytes()))
    with pytest.raises(CorruptGalleryError, match=r"nothing was copied.*row \d+ of table image is damaged"):
        back_up(directory, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_no_flipped_bit_of_a_backup_gives_another_gallery(directory, tmp_path):
    before = seen(directory)
    back_up(directory, tmp_path / "backup")
    path = tmp_path / "backup" / "gallery.sqlite"
    whole, rng, refused = path.read_bytes(), np.random.default_rng(1), 0
    for bit in rng.integers(8 * len(whole), size=40).tolist():
        flip(path, bit)
        try:
            restore(tmp_path / "backup", tmp_path / f"restored {bit}")
        except GalleryError:
            refused += 1
        else:
            assert seen(tmp_path / f"restored {bit}") == before
        path.write_bytes(whole)
    assert refused


def test_a_backup_with_bytes_of_a_removed_patient_is_not_made(directory, tmp_path, monkeypatch):
    monkeypatch.setattr("mien.storage.changes._erase", lambda *_: None)  # as if it was killed
    Gallery.remove_patients(directory, ["p2-3"])
    with pytest.raises(CorruptGalleryError, match="a removal is not finished"):
        back_up(directory, tmp_path / "backup")


def test_planted_links_are_not_followed(directory, tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_bytes(b"somebody's only copy")
    folder.mkdir()
    (folder / "gallery.sqlite").write_bytes(b"somebody's only copy")
    for name in ("gallery.sqlite", "gallery.generation", "gallery.generation.new"):  # in what looks like a left-over
        (tmp_path / f"{name}.new").mkdir()
        (tmp_path / f"{name}.new" / name).symlink_to(victim)
        back_up(directory, tmp_path / name)
        assert not any(path.is_symlink() for path in (tmp_path / name).iterdir())
    (tmp_path / "backup.new").symlink_to(folder)
    with pytest.raises(GalleryError, match=r"backup\.new"):
        back_up(directory, tmp_path / "backup")
    assert {victim.read_bytes(), (folder / "gallery.sqlite").read_bytes()} == {b"somebody's only copy"}


def test_left_overs_are_deleted_and_other_files_are_not(directory, tmp_path):
    leftover = tmp_path / "backup.new"
    leftover.mkdir(mode=0o755)
    (leftover / "gallery.sqlite").write_bytes(b"half")
    (leftover / "index-1.json").write_bytes(b"half")
    back_up(directory, tmp_path / "backup")
    assert seen(tmp_path / "backup") == seen(directory)
    assert not leftover.exists()
    shutil.rmtree(tmp_path / "backup")
    leftover.mkdir()
    (leftover / "thesis.txt").write_text("somebody's only copy")
    with pytest.raises(MienError, match=r"thesis\.txt is in the way"):
        back_up(directory, tmp_path / "backup")


def test_a_backup_does_not_lie_in_its_gallery(directory):
    for out in (directory, directory / "backup"):
        with pytest.raises(GalleryError, match="lies inside the gallery"):
            back_up(directory, out)


def test_two_backups_to_one_place_do_not_mix(directory, tmp_path, monkeypatch):
    said = []

    def meanwhile(*_):
        with pytest.raises(MienError, match="another process is writing there") as refused:
            back_up(directory, tmp_path / "backup")
        said.append(refused)

    monkeypatch.setattr("mien.storage.backup.finish", meanwhile)
    back_up(directory, tmp_path / "backup")
    assert len(said) == 1
    assert list(problems(tmp_path / "backup")) == []


@pytest.mark.parametrize("step", ["finish", "restore_index", "problems_of_database"])
def test_a_copy_that_fails_leaves_nothing(directory, tmp_path, monkeypatch, step):
    back_up(directory, tmp_path / "backup")
    calls = []

    def fails(*_):
        calls.append(step)
        if step == "problems_of_database" and len(calls) == 1:
            return []
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"mien.storage.backup.{step}", fails)
        with pytest.raises(KeyboardInterrupt):
            restore(tmp_path / "backup", tmp_path / "restored")
    assert {path.name for path in tmp_path.iterdir()} == {"gallery", "backup"}
    restore(tmp_path / "backup", tmp_path / "restored")
    assert seen(tmp_path / "restored") == seen(directory)

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
from mien.core.errors import CorruptGalleryError, GalleryError
from mien.storage.backup import back_up, restore
from mien.storage.gallery import state_of
from mien.storage.verification import problems

from cohorts import families

ADDED = 12  # imports by the writer beside the backups


@pytest.fixture
def cohort():
    return families(np.random.default_rng(1))


@pytest.fixture
def directory(tmp_path, cohort):
    Gallery.build(tmp_path / "gallery", cohort)
    return tmp_path / "gallery"


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


def test_what_exists_is_refused_without_force(directory, tmp_path):
    back_up(directory, tmp_path / "backup")
    Gallery.add(directory, more(2))
    for action in (lambda: back_up(directory, tmp_path / "backup"), lambda: restore(tmp_path / "backup", directory)):
        with pytest.raises(GalleryError, match=r"holds a gallery: choose another directory, or .* --force"):
            action()
    assert (state_of(tmp_path / "backup").generation, state_of(directory).generation) == (1, 2)
    back_up(directory, tmp_path / "backup", force=True)
    assert seen(tmp_path / "backup") == seen(directory)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("somebody's only copy")
    with pytest.raises(GalleryError, match="not empty and holds no gallery"):
        back_up(directory, tmp_path / "other", force=True)


def test_an_older_backup_is_not_mistaken_for_a_lost_import(directory, tmp_path):
    back_up(directory, tmp_path / "backup")
    before = seen(directory)
    Gallery.add(directory, more(2))
    served = Gallery.open(directory)
    restore(tmp_path / "backup", directory, force=True)
    assert seen(directory) == before
    assert list(problems(directory)) == []
    assert Gallery.add(directory, more(3)).generation == 2
    assert seen(directory) != before
    assert served.generation == 2  # who had it open keeps what was there


def test_nothing_of_patients_who_came_after_a_backup_stays(directory, tmp_path):
    back_up(directory, tmp_path / "backup")
    Gallery.add(directory, more(2))
    restore(tmp_path / "backup", directory, force=True)
    assert not any(b"more2-" in path.read_bytes() for path in directory.iterdir())


def test_a_lost_import_after_a_restore_is_still_noticed(directory, tmp_path):
    back_up(directory, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    older = (tmp_path / "restored" / "gallery.sqlite").read_bytes()
    Gallery.add(tmp_path / "restored", more(2))
    (tmp_path / "restored" / "gallery.sqlite").write_bytes(older)
    with pytest.raises(CorruptGalleryError, match="generation 2 was finished"):
        Gallery.open(tmp_path / "restored")


def test_removed_patients_whom_a_backup_brings_back_are_named(directory, tmp_path, mien):
    back_up(directory, tmp_path / "backup")
    mien("gallery", "remove-patient", directory, "p2-3", "p0-1")
    code, out, err = mien("gallery", "restore", tmp_path / "backup", directory, "--force", "--json")
    assert code == 0
    assert json.loads(out)["patients_brought_back"] == ["p0-1", "p2-3"]
    assert "2 patients are back" in err.replace("\n", " ")
    assert "'p0-1', 'p2-3'" in err.replace("\n", " ")
    (directory / "gallery.sqlite").write_bytes(b"no database")  # nobody knows who was in it
    for where in (["elsewhere"], ["gallery", "--force"]):
        code, _, err = mien("gallery", "restore", tmp_path / "backup", tmp_path / where[0], *where[1:])
        assert code == 0
        assert "removed after this backup are in it" in err.replace("\n", " ")


@pytest.mark.parametrize("damage", ["header", "half", "log", "record", "nothing left"])
def test_a_damaged_gallery_is_replaced_with_force(directory, tmp_path, damage):
    before = seen(directory)
    back_up(directory, tmp_path / "backup")
    Gallery.add(directory, more(2))
    path = directory / "gallery.sqlite"
    if damage == "header":
        path.write_bytes(b"no database" + path.read_bytes()[11:])
    elif damage == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "log":
        (directory / "gallery.sqlite-wal").write_bytes(b"no log")
    elif damage == "record":
        (directory / "gallery.generation").write_bytes(b"no record")
    else:
        path.write_bytes(b"")
    restore(tmp_path / "backup", directory, force=True)
    assert seen(directory) == before
    assert list(problems(directory)) == []


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
            restore(tmp_path / "backup", tmp_path / "restored", force=True)
        except GalleryError:
            refused += 1
        else:
            assert seen(tmp_path / "restored") == before
        path.write_bytes(whole)
    assert refused


def test_a_backup_with_bytes_of_a_removed_patient_is_not_made(directory, tmp_path, monkeypatch):
    monkeypatch.setattr("mien.storage.changes._erase", lambda *_: None)  # as if it was killed
    Gallery.remove_patients(directory, ["p2-3"])
    with pytest.raises(CorruptGalleryError, match="a removal is not finished"):
        back_up(directory, tmp_path / "backup")


def test_planted_links_are_not_followed(directory, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody's only copy")
    for name in ("gallery.sqlite", "gallery.generation", "gallery.generation.new"):
        out = tmp_path / f"backup {name}"
        out.mkdir()
        (out / name).symlink_to(victim)
        with pytest.raises(GalleryError, match=r"is a link|holds no gallery"):
            back_up(directory, out, force=True)
        assert victim.read_bytes() == b"somebody's only copy"
    back_up(directory, tmp_path / "backup")
    (tmp_path / "backup" / "gallery.generation").unlink()
    (tmp_path / "backup" / "gallery.generation").symlink_to(victim)
    Gallery.add(directory, more(2))
    back_up(directory, tmp_path / "backup", force=True)
    assert victim.read_bytes() == b"somebody's only copy"
    assert not any(path.is_symlink() for path in (tmp_path / "backup").iterdir())


def test_a_backup_does_not_lie_in_its_gallery(directory):
    for out in (directory, directory / "backup"):
        with pytest.raises(GalleryError, match="lies inside the gallery"):
            back_up(directory, out, force=True)


@pytest.mark.parametrize("step", ["sync_directory", "finish"])
def test_a_copy_that_was_cut_off_is_finished_without_force(directory, tmp_path, monkeypatch, step):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"mien.storage.backup.{step}", killed)
        with pytest.raises(KeyboardInterrupt):
            back_up(directory, tmp_path / "backup")
    back_up(directory, tmp_path / "backup")
    assert (tmp_path / "backup" / "gallery.generation").exists()
    assert seen(tmp_path / "backup") == seen(directory)

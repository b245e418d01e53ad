"""Damaged and planted files, lost changes, galleries of the version before: what is said, and what is mended."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from mien import Gallery, Query, rank
from mien.errors import CorruptGalleryError, MienError
from mien.storage import changes, database
from mien.storage.index_files import MATRICES, delete_index
from mien.storage.verification import problems

from cohorts import random_cohort, random_query_arrays

FLIPS = 150  # of random bits, of each kind of file


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=8)


@pytest.fixture
def query(rng, cohort):
    return Query.of(random_query_arrays(rng, cohort, 2))


@pytest.fixture
def directory(tmp_path, cohort, small_gallery):
    """A gallery of the cohort."""
    return shutil.copytree(small_gallery, tmp_path / "gallery")


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def index_file(directory, matrix):
    [path] = directory.glob(f"index-*.{matrix}*")
    return path


# index files


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("place", ["first", "20th", "middle", "last"])
def test_a_flipped_bit_anywhere_in_an_index_file_is_mended_loudly(directory, query, matrix, place, caplog):
    before = rank(Gallery.open(directory), query)
    path = index_file(directory, matrix)
    size = path.stat().st_size
    flip(path, 8 * {"first": 0, "20th": 20, "middle": size // 2, "last": size - 1}[place] + 1)
    assert rank(Gallery.open(directory), query) == before
    assert f"{path.name} does not match its checksum: the index is made anew" in caplog.text
    assert list(problems(directory)) == []


@pytest.mark.parametrize("matrix", MATRICES)
def test_what_is_too_large_to_be_checked_at_opening_is_checked_and_mended_by_verify(
    directory, matrix, monkeypatch, query
):
    before = rank(Gallery.open(directory), query)
    monkeypatch.setattr("mien.storage.index_files.LARGEST_READ", 0)
    path = index_file(directory, matrix)
    for bit in (1, 8 * path.stat().st_size - 3):
        flip(path, bit)
        [problem] = problems(directory)
        assert f"{path.name} does not match its checksum: the index was made anew" in problem
        assert list(problems(directory)) == []
        assert rank(Gallery.open(directory), query) == before


@pytest.mark.parametrize("length", [0, 100, -1, +1])
def test_an_index_file_of_another_length_is_made_anew(directory, query, monkeypatch, caplog, length):
    before = rank(Gallery.open(directory), query)
    monkeypatch.setattr("mien.storage.index_files.LARGEST_READ", 0)
    path = index_file(directory, "image_codes")
    os.truncate(path, length if length in {0, 100} else path.stat().st_size + length)
    assert rank(Gallery.open(directory), query) == before
    assert f"{path.name} has" in caplog.text


def test_damage_of_an_index_that_cannot_be_made_anew_is_named(directory, cohort):
    path = index_file(directory, "image_codes")
    flip(path, 100)
    data = (directory / "gallery.sqlite").read_bytes()
    flip(directory / "gallery.sqlite", 8 * data.index(cohort.embeddings[4].tobytes()))
    of_database, of_index = problems(directory)
    assert "row" in of_database
    assert f"{path.name} does not match its checksum: the index could not be made anew" in of_index


# damage anywhere


def flips_of(path, rng, count=FLIPS):
    """The file with one bit flipped, so many times."""
    whole = path.read_bytes()
    for bit in rng.integers(8 * len(whole), size=count).tolist():
        flip(path, bit)
        yield bit
        path.write_bytes(whole)


def assert_named_or_harmless(directory, before, query):
    """Whatever is damaged: an answer as before, or an error of mien's; the same of verify, which may find more."""
    for action in (lambda: (rank(g := Gallery.open(directory), query), g.as_dict()), lambda: list(problems(directory))):
        try:
            found = action()
        except MienError:
            continue
        if isinstance(found, tuple):
            assert found == before


@pytest.mark.parametrize("name", ["gallery.sqlite", "gallery.generation", "index-1.json"])
def test_no_flipped_bit_gives_a_traceback_or_another_answer(directory, query, rng, name):
    opened = Gallery.open(directory)
    before = rank(opened, query), opened.as_dict()
    for _ in flips_of(directory / name, rng):
        assert_named_or_harmless(directory, before, query)


def test_no_bit_of_the_encoders_description_changes_unnoticed(directory):
    path = directory / "gallery.sqlite"
    data = path.read_bytes()
    description = b'{"representations": 3'
    start = data.index(description)
    for bit in range(8 * start, 8 * (data.index(b"}", start) + 1)):
        flip(path, bit)
        for action in (lambda: Gallery.open(directory), lambda: list(problems(directory))):
            with pytest.raises(CorruptGalleryError, match=r"gallery\.sqlite: .* damaged.*backup"):
                action()
        path.write_bytes(data)


@pytest.mark.parametrize("column", ["generation", "fingerprint", "erasing", "encoder"])
def test_a_changed_state_is_named(directory, column):
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as other, other:
        other.execute(f"UPDATE gallery SET {column} = {column} || '1'")
    with pytest.raises(CorruptGalleryError, match=r"gallery\.sqlite: .* damaged"):
        Gallery.open(directory)


@pytest.mark.parametrize("table", ["image", "label", "patient", "disorder"])
def test_nothing_is_made_of_a_database_that_lacks_rows(directory, table, rng, tmp_path):
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as other, other:
        other.execute(f"DELETE FROM {table} WHERE {'image' if table == 'label' else table}_key = 1")
    more = random_cohort(rng, disorders=2, prefix="more-")
    for action in (
        lambda: Gallery.add(directory, more),
        lambda: Gallery.export(directory, tmp_path / "out.parquet"),
        lambda: delete_index(directory, 1) or Gallery.open(directory),
    ):
        with pytest.raises(CorruptGalleryError, match=r"gallery\.sqlite: .*: run 'mien gallery verify'"):
            action()
    assert list(problems(directory)) != []


# lost changes


def lose_the_last_import(directory, cohort, rng, tmp_path):
    """A gallery whose second import lies in the log, and the log is damaged."""
    more = random_cohort(rng, disorders=2, prefix="more-")
    with closing(sqlite3.connect(directory / "gallery.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM image").fetchone()
        Gallery.add(directory, more)
        ignored = shutil.ignore_patterns("*-shm")
        copy = shutil.copytree(directory, tmp_path / "copy", ignore=ignored)  # as after a power cut
    assert Gallery.open(shutil.copytree(copy, tmp_path / "sound")).generation == 2
    flip(copy / "gallery.sqlite-wal", 8 * 100)
    return copy, more


def test_an_import_that_was_lost_with_the_log_is_named(directory, cohort, rng, tmp_path):
    copy, more = lose_the_last_import(directory, cohort, rng, tmp_path)
    for action in (Gallery.open, lambda where: list(problems(where)), lambda where: Gallery.add(where, cohort)):
        with pytest.raises(CorruptGalleryError, match=r"generation 1, but generation 2 was finished.*lost.*backup"):
            action(copy)
    (copy / "gallery.generation").unlink()  # as the message says
    assert Gallery.open(copy).generation == 1
    assert Gallery.add(copy, more).generation == 2
    assert list(problems(copy)) == []
    assert Gallery.open(copy).fingerprint == Gallery.open(tmp_path / "sound").fingerprint


def test_patients_can_be_removed_from_a_gallery_that_lost_an_import(directory, cohort, rng, tmp_path, caplog):
    copy, _ = lose_the_last_import(directory, cohort, rng, tmp_path)
    Gallery.remove_patients(copy, cohort.roster.patient_ids[:1])
    assert "generation 2 was finished" in caplog.text
    with pytest.raises(CorruptGalleryError, match="generation 2 was finished"):  # another generation 2
        Gallery.open(copy)


# galleries that were only begun


def test_a_build_that_was_only_begun_is_sound_and_empty(tmp_path, mien, cohort):
    with database.connection(tmp_path, write=True, create=True):
        pass
    assert list(problems(tmp_path)) == []
    code, out, _ = mien("gallery", "verify", tmp_path)
    assert code == 0
    assert "sound, and empty" in out.replace("\n", " ")
    Gallery.build(tmp_path, cohort)
    assert "empty" not in mien("gallery", "verify", tmp_path)[1]


def test_a_gallery_without_tables_was_never_finished(tmp_path, mien):
    sqlite3.connect(tmp_path / "gallery.sqlite").close()
    (tmp_path / "gallery.sqlite").touch()
    code, _, err = mien("gallery", "verify", tmp_path)
    assert code == 1
    assert f"{tmp_path}" in err
    assert "was never finished: run 'mien gallery build' again" in err


# who can read it


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()}


def test_files_of_a_gallery_are_for_their_keeper_wherever_they_lie(tmp_path, cohort, rng):
    tmp_path.chmod(0o755)
    Gallery.build(tmp_path, cohort)
    with closing(sqlite3.connect(tmp_path / "gallery.sqlite", isolation_level=None)) as reader:  # keeps the log
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM image").fetchone()
        Gallery.add(tmp_path, random_cohort(rng, disorders=2, prefix="more-"))
        assert len(modes(tmp_path)) == len(MATRICES) + 5
        assert set(modes(tmp_path).values()) == {0o600}


def test_an_export_is_for_its_owner(directory, tmp_path):
    Gallery.export(directory, tmp_path / "out.parquet")
    assert modes(tmp_path)["out.parquet"] == 0o600


# planted links


def test_planted_links_are_not_followed(directory, tmp_path, query, caplog):
    before = rank(Gallery.open(directory), query)
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody's only copy")
    for path in list(directory.glob("index-*")):
        path.unlink()
        path.with_name(f"{path.name}.new").symlink_to(victim)
        if path.suffix != ".json":
            path.symlink_to(victim)
    assert rank(Gallery.open(directory), query) == before
    assert victim.read_bytes() == b"somebody's only copy"
    assert not any(path.is_symlink() for path in directory.iterdir())


def test_a_planted_link_to_another_database_is_refused(directory, tmp_path, cohort):
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "gallery.sqlite").symlink_to(directory / "gallery.sqlite")
    for action in (Gallery.open, lambda where: Gallery.build(where, cohort)):
        with pytest.raises(MienError, match=r"gallery\.sqlite is a link"):
            action(tmp_path / "planted")


def test_a_planted_link_is_not_written_through_by_an_export(directory, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody's only copy")
    (tmp_path / "out.parquet.new").symlink_to(victim)
    Gallery.export(directory, tmp_path / "out.parquet")
    assert victim.read_bytes() == b"somebody's only copy"


# files that change while they are open

TRUNCATED_WHILE_OPEN = """
import os, sys
from pathlib import Path
import numpy as np
from mien import Gallery, Query, rank
from mien.errors import CorruptGalleryError
from mien.storage import index_files
index_files.LARGEST_READ = 0
directory, matrix = Path(sys.argv[1]), sys.argv[2]
query = Query.of(np.ones((1, 3, 8)))

def read(gallery):
    if matrix == "image_lengths":  # no ranking looks there
        return gallery.index.raw_embeddings(np.arange(2)).tolist()
    if matrix == "patient_centroid_rows":  # a ranking looks there but once, and keeps what it read
        return gallery.index.others["patient_centroid_rows"][:].tolist()
    return rank(gallery, query)

gallery = Gallery.open(directory)
before = read(gallery)
[path] = directory.glob(f"index-*.{matrix}*")
os.truncate(path, 0)
try:
    read(gallery)
except CorruptGalleryError as error:
    assert f"{path.name} was cut short while it was open" in str(error), error
else:
    raise AssertionError("ranked against a file that is not there")
assert read(Gallery.open(directory)) == before
print("alive")
"""


@pytest.mark.parametrize(
    "matrix", ["image_rows", "image_codes", "image_rounding", "patient_centroid_rows", "image_lengths"]
)
def test_an_index_that_is_cut_short_while_it_is_open_is_refused_by_name(directory, matrix):
    command = [sys.executable, "-c", TRUNCATED_WHILE_OPEN, str(directory), matrix]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr
    assert "the index is made anew" in ended.stderr


# galleries of the version before


STATE_OF_FORMAT_1 = """
CREATE TABLE gallery (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  format INTEGER NOT NULL,
  generation INTEGER NOT NULL,   -- counts the changes
  fingerprint TEXT NOT NULL,     -- of everything stored; ties the index to it
  erasing INTEGER NOT NULL,      -- 1 while bytes of a removed patient may still lie in the files
  encoder TEXT                   -- JSON, fixed by the first images
) STRICT
"""


def as_the_version_before(directory):
    """Turns a gallery into one of format 1: no checksum of its state, no record beside, indexes with headers."""
    index = Gallery.open(directory).index
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as other, other:
        other.execute("ALTER TABLE gallery RENAME TO newer")
        other.execute(STATE_OF_FORMAT_1)
        columns = "generation, fingerprint, erasing, encoder"
        other.execute(f"INSERT INTO gallery SELECT 1, 1, {columns} FROM newer")
        other.execute("DROP TABLE newer")
    (directory / "gallery.sqlite").chmod(0o644)
    (directory / "gallery.generation").unlink()
    for matrix in MATRICES:
        (directory / f"index-1.{matrix}").unlink()
        np.save(directory / f"index-1.{matrix}.npy", np.ones((len(index.images), 2)))
    (directory / "index-1.checksums").write_text("00000000\n{}")


def test_a_gallery_of_the_version_before_opens_and_is_upgraded(directory, query, caplog, cohort):
    before = rank(Gallery.open(directory), query)
    as_the_version_before(directory)
    assert list(problems(directory)) == []
    assert rank(Gallery.open(directory), query) == before
    assert caplog.text == ""  # nothing is wrong with it
    assert (directory / "gallery.generation").exists()
    assert set(modes(directory).values()) == {0o600}
    assert not list(directory.glob("*.npy")) + list(directory.glob("*.checksums"))
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as other:
        assert other.execute("SELECT format, length(checksum) FROM gallery").fetchone() == (2, 32)
    Gallery.remove_patients(directory, cohort.roster.patient_ids[:1])
    assert list(problems(directory)) == []


def test_a_gallery_of_the_version_before_that_cannot_be_written_is_read(directory, query, monkeypatch):
    before = rank(Gallery.open(directory), query)
    as_the_version_before(directory)

    def refuse(*_):
        raise database.GalleryError("read-only")

    monkeypatch.setattr("mien.storage.gallery.restore_index", refuse)
    assert rank(Gallery.open(directory), query) == before


def test_wrong_sizes_in_an_older_encoder_description_are_named(directory):
    as_the_version_before(directory)
    with closing(sqlite3.connect(directory / "gallery.sqlite")) as other, other:
        encoder = json.loads(other.execute("SELECT encoder FROM gallery").fetchone()[0])
        other.execute("UPDATE gallery SET encoder = ?", [json.dumps({**encoder, "dimensions": 9})])
    with pytest.raises(CorruptGalleryError, match=r"gallery\.sqlite: .* damaged"):
        Gallery.open(directory)


def test_a_change_of_an_older_gallery_is_an_upgrade_too(directory, cohort, monkeypatch):
    as_the_version_before(directory)
    monkeypatch.setattr(changes, "_write_index", lambda *_: None)
    Gallery.remove_patients(directory, cohort.roster.patient_ids[:1])
    assert list(problems(directory)) == []

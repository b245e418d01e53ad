"""Killed processes, full disks, readers beside a writer."""

from __future__ import annotations

import shutil
import sqlite3
from functools import partial
from threading import Event, Thread

import numpy as np
import pytest

from mien import Cohort, Gallery
from mien.core.embeddings import unit_rows
from mien.errors import GalleryError
from mien.storage.formats.cohort_parquet import write_cohort_parquet
from mien.storage.verification import problems

import processes
from cohorts import random_cohort


@pytest.fixture
def run(tmp_path):
    """Runs a command in a process of its own; `kill_after` seconds, it is killed."""
    (tmp_path / "said").mkdir()
    return partial(processes.run, tmp_path / "said" / "stderr")


@pytest.fixture(params=[2, pytest.param(100, marks=pytest.mark.long)], ids="{} galleries".format)
def galleries(request):
    """How many galleries are built or changed by commands that are killed."""
    return request.param


def content(directory):
    """Everything a gallery says, from both of its halves."""
    with sqlite3.connect(directory / "gallery.sqlite") as database:
        dump = list(database.iterdump())
    database.close()
    return dump, {path.name: path.read_bytes() for path in directory.glob("index-*")}


def write_parquet(path, cohort):
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=80, representations=12, dimensions=32, most_patients=5)


def test_a_build_killed_at_any_moment_is_finished_by_the_same_command(tmp_path, cohort, run, galleries):
    write_parquet(tmp_path / "cohort.parquet", cohort)
    undisturbed = run("gallery", "build", tmp_path / "undisturbed", "--encodings", tmp_path / "cohort.parquet")
    assert undisturbed.code == 0
    patients = {}
    for image_id, patient_id, _ in cohort.roster.labels():
        patients.setdefault(patient_id, set()).add(image_id)
    kill = processes.Killer(run, undisturbed.seconds, seed=3)
    for number in kill.numbers(galleries, at_least=galleries / 2):
        directory = tmp_path / f"gallery-{number}"
        build = ("gallery", "build", directory, "--encodings", tmp_path / "cohort.parquet")
        for _ in range(2):  # killed twice, then finished
            kill(*build)
            if (directory / "gallery.sqlite").exists():
                assert_whole_patients(directory, patients)
        finished = run(*build)
        assert finished.code == 0, finished.stderr
        assert content(directory) == content(tmp_path / "undisturbed")
        assert list(problems(directory)) == []
        shutil.rmtree(directory)


def assert_whole_patients(directory, patients):
    with sqlite3.connect(directory / "gallery.sqlite") as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE name = 'gallery'").fetchall()
    database.close()
    if not tables:  # killed before they were there
        with pytest.raises(GalleryError, match="never finished"):
            Gallery.open(directory)
        return
    assert list(problems(directory)) == []
    found = {}
    for image_id, patient_id, _ in Gallery.open(directory).roster.labels():
        found.setdefault(patient_id, set()).add(image_id)
    assert all(found[patient_id] == patients[patient_id] for patient_id in found)


def test_a_removal_killed_at_any_moment_is_finished_by_repeating_it(tmp_path, cohort, run, galleries):
    patient_id = cohort.roster.patient_ids[7]
    names = {disorder.disorder_id: disorder for disorder in cohort.roster.disorders}
    kept = [label for label in cohort.roster.labels() if label.patient_id != patient_id]
    Gallery.build(tmp_path / "without", Cohort.join(cohort.encodings, kept, names))
    raw = [cohort.embeddings[i].tobytes()[:64] for i in np.flatnonzero(cohort.roster.patient_of_image == 7)]
    Gallery.build(tmp_path / "whole", cohort)
    shutil.copytree(tmp_path / "whole", tmp_path / "undisturbed")
    run("gallery", "info", tmp_path / "whole")  # the first process of all starts late, and would be in the time
    undisturbed = run("gallery", "remove-patient", tmp_path / "undisturbed", patient_id)
    assert undisturbed.code == 0
    kill = processes.Killer(run, undisturbed.seconds, seed=5)
    for number in kill.numbers(galleries, at_least=galleries / 4):
        directory = shutil.copytree(tmp_path / "whole", tmp_path / f"gallery-{number}")
        remove = ("gallery", "remove-patient", directory, patient_id)
        kill(*remove)
        assert list(Gallery.open(directory).roster.labels()) in (cohort.roster.labels(), kept)
        again = run(*remove)
        assert again.code == 0 or "no patient" in again.stderr  # the first one may have been done
        assert list(problems(directory)) == []
        for path in directory.iterdir():
            assert not any(pattern in path.read_bytes() for pattern in raw), path
        without = {n.partition(".")[2]: d for n, d in content(tmp_path / "without")[1].items() if ".json" not in n}
        assert {n.partition(".")[2]: d for n, d in content(directory)[1].items() if ".json" not in n} == without
        shutil.rmtree(directory)


@pytest.mark.parametrize("limit", [4096, 700_000, 1_000_000])
def test_a_full_disk_leaves_the_old_gallery(tmp_path, cohort, rng, run, limit):
    directory = tmp_path / "gallery"
    Gallery.build(directory, random_cohort(rng, representations=12, dimensions=32, prefix="old-"))
    before = content(directory)
    write_parquet(tmp_path / "cohort.parquet", cohort)
    add = run("gallery", "add", directory, "--encodings", tmp_path / "cohort.parquet", most_bytes_per_file=limit)
    assert add.code == 1, add.stderr
    assert add.stderr.startswith("mien: ")
    assert "as it was before" in add.stderr
    assert content(directory) == before
    assert list(problems(directory)) == []


def test_readers_beside_a_writer_see_whole_generations(tmp_path, cohort):
    """Odd generations lack one patient, even ones have everybody; every row a reader sees is right."""
    directory = tmp_path / "gallery"
    labels = cohort.roster.labels()
    names = {disorder.disorder_id: disorder for disorder in cohort.roster.disorders}
    extra = cohort.roster.patient_ids[11]
    base = Cohort.join(cohort.encodings, [label for label in labels if label.patient_id != extra], names)
    Gallery.build(directory, base)
    row_of = dict(zip(cohort.roster.image_ids, unit_rows(cohort.embeddings).astype(np.float32), strict=True))
    centroids = {odd: known.index.centroids("patient").exact for odd, known in ((1, base), (0, cohort))}
    ended, seen, failures = Event(), set(), []

    def read():
        try:
            while not ended.is_set():
                gallery = Gallery.open(directory)
                seen.add(gallery.generation)
                expected = base if gallery.generation % 2 else cohort
                assert gallery.roster.labels() == expected.roster.labels()
                rows = np.stack([row_of[image_id] for image_id in gallery.roster.image_ids])
                np.testing.assert_array_equal(gallery.index.images.exact, rows)
                rows = gallery.index.centroids("patient").exact
                np.testing.assert_array_equal(rows, centroids[gallery.generation % 2])
        except BaseException as error:
            failures.append(error)

    readers = [Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for changes in range(2, 201, 2):
        Gallery.add(directory, cohort)
        Gallery.remove_patients(directory, [extra])
        if changes >= 8 and (len(seen) > 3 or failures):  # readers may be slow on a busy machine
            break
    ended.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert len(seen) > 3
    assert Gallery.open(directory).generation == 1 + changes

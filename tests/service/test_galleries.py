from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mien import Cohort, Gallery
from mien.answers.ranking import RankedDisorder
from mien.service.disorder_map import disorder_map, place_of_patient
from mien.service.galleries import ServedGallery

from cohorts import random_cohort
from services import assert_problem, client_of


@pytest.fixture
def checked_often(monkeypatch):
    """The service looks for changes many times a second: these tests wait until it has."""
    monkeypatch.setattr("mien.service.galleries.SECONDS_BETWEEN_CHECKS", 0.05)


def patients_named_by(client, gallery):
    """Every gallery patient that an answer about all disorders names."""
    body = {"embeddings": [[[1.0] * 8] * 3], "top": "all", "each_photo": True}
    answer = client.post("/v1/rank/embeddings", json=body).json()
    lines = answer["queries"][0]["disorders"]
    named = {case["patient_id"] for line in lines for case in line["nearest_cases"]}
    return answer["gallery"]["generation"], named


def test_changes_are_picked_up_without_a_restart(gallery, rng):
    with client_of(gallery) as client:
        generation, named = patients_named_by(client, gallery)
        assert generation == 1
        gone = min(named)
        Gallery.remove_patients(gallery, [gone])
        generation, now_named = patients_named_by(client, gallery)
        assert generation == 2
        assert gone not in now_named
        Gallery.add(gallery, random_cohort(rng, disorders=3, prefix="new-"))
        assert patients_named_by(client, gallery)[0] == 3
        assert client.get("/v1/gallery").json()["generation"] == 3


@pytest.mark.parametrize("matrix", ["image_codes", "image_rows", "patient_centroid_rows", "image_lengths"])
def test_an_index_that_is_cut_short_or_damaged_while_it_is_served_is_made_anew(gallery, monkeypatch, caplog, matrix):
    monkeypatch.setattr("mien.storage.index_files.LARGEST_READ", 0)
    with client_of(gallery) as client:
        before = patients_named_by(client, gallery)
        path = gallery / f"index-1.{matrix}"
        os.truncate(path, 0)
        assert patients_named_by(client, gallery) == before
        assert f"{path.name} has 0 bytes" in caplog.text
        monkeypatch.undo()
        path.write_bytes(bytes(path.stat().st_size))
        assert patients_named_by(client, gallery) == before
        assert f"{path.name} does not match its checksum" in caplog.text


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, to see which files are open")
@pytest.mark.usefixtures("checked_often")
def test_an_old_generation_is_let_go_even_if_nobody_asks(gallery, monkeypatch):
    """Its files are deleted; while they are open, the removed patient's rows would stay on the disk."""
    monkeypatch.setattr("mien.storage.index_files.LARGEST_READ", 0)
    with client_of(gallery) as client:
        patients_named_by(client, gallery)
        assert _open_files(gallery)
        Gallery.remove_patients(gallery, [Gallery.open(gallery).roster.patient_ids[0]])
        _wait_until(lambda: _open_files(gallery) and not any("deleted" in line for line in _open_files(gallery)))


def test_a_gallery_that_breaks_is_a_problem_and_mends(gallery, capfd):
    with client_of(gallery) as client:
        database = gallery / "gallery.sqlite"
        content = database.read_bytes()
        database.rename(gallery / "away")
        problem = assert_problem(client.get("/v1/health"), 500, "gallery-unreadable")
        assert str(gallery) not in str(problem)
        assert "run 'mien gallery verify'" in capfd.readouterr().err
        (gallery / "away").rename(database)
        assert database.read_bytes() == content
        assert client.get("/v1/health").status_code == 200


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, to see which files are open")
@pytest.mark.usefixtures("checked_often")
def test_the_watch_outlives_a_gallery_that_was_away(gallery, monkeypatch, tmp_path, capfd):
    """Also one in whose place something else stood; and what is gone is not kept open."""
    monkeypatch.setattr("mien.storage.index_files.LARGEST_READ", 0)
    with client_of(gallery) as client:
        patients_named_by(client, gallery)
        time.sleep(0.3)  # the watch has seen the gallery: it must not hold on to it
        gallery.rename(tmp_path / "away")
        gallery.write_text("not a folder")
        _wait_until(lambda: not _open_files(tmp_path))
        gallery.unlink()
        (tmp_path / "away").rename(gallery)
        _wait_until(lambda: _open_files(gallery))
        Gallery.remove_patients(gallery, [Gallery.open(gallery).roster.patient_ids[0]])
        _wait_until(lambda: _open_files(gallery) and not any("deleted" in line for line in _open_files(gallery)))
    assert "Traceback" not in capfd.readouterr().err


def _open_files(directory):
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            targets.append(str(descriptor.readlink()))
    return [target for target in targets if target.startswith(f"{directory}{os.sep}") and "index-" in target]


def _wait_for_the_map(client):
    client.get("/")
    _wait_until(lambda: client.get("/v1/health").json()["map_drawn"])


def _wait_until(condition):
    for _ in range(1200):  # a minute: the process that draws the map gives way to all others
        if condition():
            return
        time.sleep(0.05)
    assert condition()


@pytest.mark.usefixtures("checked_often")
def test_a_gallery_replaced_by_another_of_the_same_generation_gets_its_own_map(gallery, tmp_path, rng):
    with client_of(gallery) as client:
        _wait_for_the_map(client)
        Gallery.build(tmp_path / "other", random_cohort(rng, disorders=5))
        gallery.rename(tmp_path / "away")
        (tmp_path / "other").rename(gallery)
        assert not client.get("/v1/health").json()["map_drawn"]
        _wait_until(lambda: client.get("/v1/health").json()["map_drawn"])
        page = client.get("/gallery").text
        assert '"disorder_id": "d4"' in page
        assert '"disorder_id": "d5"' not in page


@pytest.mark.usefixtures("checked_often")
def test_the_map_is_not_drawn_by_a_stranger(gallery, tmp_path, monkeypatch):
    """A module that happens to lie where the service was started is not run."""
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'was here')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with client_of(gallery) as client:
        _wait_for_the_map(client)
    assert not (tmp_path / "was here").exists()


def test_a_rebuilt_gallery_is_served(gallery, rng):
    """Deleted and made anew, it begins with generation 1 again."""
    served = ServedGallery(gallery)
    Gallery.add(gallery, random_cohort(rng, disorders=2, prefix="more-"))
    assert served.newest().generation == 2
    for path in gallery.iterdir():
        path.unlink()
    cohort = random_cohort(rng, disorders=3)
    Gallery.build(gallery, cohort)
    newest = served.newest()
    assert newest.generation == 1
    assert len(newest.roster.disorders) == 3


def test_the_map_keeps_neighbours_together(rng):
    groups = rng.standard_normal((4, 20)) * 3
    rows = np.concatenate([group + rng.standard_normal((8, 20)) * 0.2 for group in groups])
    ids = [f"{number:02}" for number in range(32)]
    places = disorder_map(Cohort.of(rows, image_ids=ids, patient_ids=ids, disorder_ids=ids).index)
    found = np.array([places[disorder_id] for disorder_id in ids]).reshape(4, 8, 2)
    middles = found.mean(axis=1)
    inside = np.linalg.norm(found - middles[:, np.newaxis], axis=2).max()
    apart = min(np.linalg.norm(middles[a] - middles[b]) for a in range(4) for b in range(a))
    assert inside < apart


def test_three_disorders_make_no_map(rng):
    assert disorder_map(random_cohort(rng, disorders=3).index) == {}


def test_a_patient_stands_between_the_nearest_centroids():
    places = {"a": (0.0, 0.0), "b": (1.0, 0.0), "c": (50.0, 50.0)}

    def line(disorder_id, distance):
        return RankedDisorder(1, disorder_id, None, None, distance, distance, distance, "i", "p", 1, 1)

    x, y = place_of_patient([line("a", 0.3), line("b", 0.3), line("c", 2.0)], places)
    assert (x, y) == pytest.approx((0.5, 0), abs=1e-6)
    assert place_of_patient([line("a", 0.1), line("b", 0.9)], places) == pytest.approx((0, 0), abs=1e-6)
    assert place_of_patient([line("z", 0.1)], places) is None


@pytest.mark.usefixtures("checked_often")
def test_no_map_is_drawn_for_whoever_opens_no_page(gallery, monkeypatch):
    begun = []
    monkeypatch.setattr(ServedGallery, "_draw", lambda served: begun.append(served) or asyncio.sleep(0))
    with client_of(gallery) as client:
        time.sleep(0.5)  # ten looks for a new generation
        assert not client.get("/v1/health").json()["map_drawn"]
        assert not begun
        client.get("/")
        _wait_until(lambda: begun)


@pytest.mark.usefixtures("checked_often")
def test_a_map_that_cannot_be_drawn_is_not_waited_for(gallery, monkeypatch, capfd):
    monkeypatch.setattr("mien.service.galleries.MAP", "mien.service.nothing")
    with client_of(gallery) as client:
        _wait_for_the_map(client)
        assert "could not be drawn" in client.get("/gallery").text
    assert "see why there is no map: python -m mien.service.nothing" in capfd.readouterr().err


@pytest.mark.usefixtures("checked_often")
def test_the_page_gets_a_map_when_it_is_drawn(gallery):
    with client_of(gallery) as client:
        _wait_until(lambda: '"place": null' in client.get("/gallery").text)
        assert all(f'"disorder_id": "d{number}"' in client.get("/gallery").text for number in range(8))

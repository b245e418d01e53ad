"""What was learned from a gallery is stored with it, grows stale with it, and goes with a removed patient."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from mien import FULL, Gallery, Method, rank
from mien.errors import GalleryError, InvalidCalibrationError
from mien.evaluation.calibrating import calibrate
from mien.storage.database import connection, transaction
from mien.storage.learned import store_calibration, store_tuned
from mien.storage.verification import problems

from cohorts import families

OTHER = Method("embedding", "size-aware", offset=0.01)


@pytest.fixture
def directory(tmp_path, rng):
    Gallery.build(tmp_path / "gallery", families(rng))
    return tmp_path / "gallery"


@pytest.fixture(scope="module")
def calibrated_once(tmp_path_factory):
    directory = tmp_path_factory.mktemp("calibrated") / "gallery"
    Gallery.build(directory, families(np.random.default_rng(20_26)))
    store_calibration(directory, calibrate(Gallery.open(directory), FULL))
    return directory


@pytest.fixture
def calibrated(tmp_path, calibrated_once):
    return shutil.copytree(calibrated_once, tmp_path / "calibrated")


def test_answers_are_calibrated_from_then_on(calibrated, rng):
    gallery, query = Gallery.open(calibrated), families(rng, patients=1, prefix="new ").queries()[0]
    [answer] = rank(gallery, query)
    assert answer.calibration.generation == 1
    assert not answer.calibration.stale
    assert answer.none_of_these is not None
    [other] = rank(gallery, query, OTHER)
    assert other.none_of_these is None  # it was made for another method
    assert list(problems(calibrated)) == []


def test_a_calibration_is_kept_for_each_method(calibrated):
    store_calibration(calibrated, calibrate(Gallery.open(calibrated), OTHER))
    store_tuned(calibrated, Gallery.open(calibrated).fingerprint, OTHER, {"patients": 60})
    gallery = Gallery.open(calibrated)
    assert gallery.calibration_for(FULL).method == FULL.as_dict()
    assert gallery.calibration_for(OTHER).method == OTHER.as_dict()
    assert gallery.tuned_method == OTHER
    assert gallery.generation == 1  # nobody came or went


def test_after_a_change_an_answer_says_that_it_is_stale(calibrated, rng):
    more = families(rng, patients=2, prefix="more ")
    Gallery.add(calibrated, more)
    [answer] = rank(Gallery.open(calibrated), more.queries()[0])
    assert answer.calibration.stale
    assert answer.calibration.generation == 1


def test_nothing_that_was_learned_from_a_removed_patient_stays(calibrated):
    documents = [document for _, document in _learned(calibrated)]
    assert documents
    Gallery.remove_patients(calibrated, ["p0-0"])
    assert Gallery.open(calibrated).learned == {}
    number = documents[0][200:260].encode()
    assert not any(number in path.read_bytes() for path in calibrated.iterdir())
    [answer] = rank(Gallery.open(calibrated), families(np.random.default_rng(5), patients=1).queries()[1])
    assert answer.calibration is None


def test_a_removal_works_in_a_gallery_that_never_learned(directory):
    assert Gallery.remove_patients(directory, ["p0-0"]) == 2


def test_what_was_learned_from_a_gallery_that_changed_meanwhile_is_not_stored(directory, rng):
    calibration = calibrate(Gallery.open(directory), FULL)
    Gallery.add(directory, families(rng, patients=1, prefix="more "))
    with pytest.raises(GalleryError, match="changed meanwhile"):
        store_calibration(directory, calibration)
    assert _learned(directory) == ()


@pytest.mark.parametrize("changed", ["document = substr(document, 1, 50)", "document = replace(document, '1', '3')"])
def test_damage_is_named_and_mended_by_calibrating_again(calibrated, changed):
    query = families(np.random.default_rng(5), patients=1).queries()[0]
    before = rank(Gallery.open(calibrated), query)
    with connection(calibrated, write=True) as database, transaction(database):
        database.execute(f"UPDATE learned SET {changed}")
    with pytest.raises(InvalidCalibrationError, match=rf"{calibrated}.*damaged .*: run 'mien calibrate' again"):
        rank(Gallery.open(calibrated), query)
    [problem] = problems(calibrated)
    assert "damaged" in problem
    store_calibration(calibrated, calibrate(Gallery.open(calibrated), FULL))
    assert rank(Gallery.open(calibrated), query) == before
    assert list(problems(calibrated)) == []


def test_a_calibration_whose_name_is_damaged_is_named_and_mended(calibrated):
    with connection(calibrated, write=True) as database, transaction(database):
        database.execute("UPDATE learned SET name = name || 'x'")
    assert len(list(problems(calibrated))) == 1
    store_calibration(calibrated, calibrate(Gallery.open(calibrated), FULL))
    assert list(problems(calibrated)) == []


def test_a_calibration_of_an_older_version_has_no_checksum(calibrated):
    with connection(calibrated, write=True) as database, transaction(database):
        database.execute("UPDATE learned SET document = substr(document, 10)")
    assert Gallery.open(calibrated).calibration_for(FULL) is not None
    assert list(problems(calibrated)) == []


def test_a_gallery_without_a_tuned_method_says_so(directory):
    with pytest.raises(GalleryError, match="run 'mien tune' first"):
        Gallery.open(directory).tuned_method  # noqa: B018


def _learned(directory):
    from mien.storage.gallery import state_of

    return state_of(directory).learned

"""Photos on a cluster."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from mien.cluster.connection import connected
from mien.cluster.photos import ClusterEncoder
from mien.encoding.photo_encoder import EncodedPhoto, Photo, RefusedPhoto
from mien.errors import EncoderMismatchError

from clusters import kill_a_worker


@pytest.fixture
def photos(faces, tmp_path):
    """Twenty photos of faces; one file that is none, and one that is not there."""
    (tmp_path / "note.txt").write_text("no photo")
    paths = sorted(faces.glob("person_00[0-3]/*"))
    listed = [Photo(str(path.relative_to(faces)), path) for path in paths]
    assert len(listed) == 20
    return [*listed[:9], Photo("note", tmp_path / "note.txt"), *listed[9:], Photo("gone", tmp_path / "gone.jpg")]


def assert_same(results, expected):
    assert [result.image_id for result in results] == [result.image_id for result in expected]
    for mine, theirs in zip(results, expected, strict=True):
        assert type(mine) is type(theirs)
        if isinstance(mine, EncodedPhoto):
            np.testing.assert_allclose(mine.embedding, theirs.embedding, atol=1e-5)
            assert mine.facts.faces == theirs.facts.faces
        else:
            assert mine == theirs


@pytest.mark.long
def test_no_photo_is_lost_with_a_worker(cluster_to_break, photos, default_encoder, photo_encoder):
    expected = list(photo_encoder.encode(photos))
    results = []
    for result in ClusterEncoder.of(cluster_to_break, default_encoder).encode(photos):
        if not results:
            kill_a_worker(cluster_to_break)
        results.append(result)
    assert_same(results, expected)
    assert sum(isinstance(result, EncodedPhoto) for result in results) > 15


def test_another_encoder_on_the_workers_is_refused(cluster, photos, default_encoder):
    encoder = ClusterEncoder.of(cluster, default_encoder)
    other = replace(encoder, encoder=replace(encoder.encoder, weights_sha256="0" * 64))
    with pytest.raises(EncoderMismatchError, match=r"a photo on a worker is encoded by .*weights"):
        list(other.encode(photos))


def die_of(photos, _address, _encoder):
    """Encodes nobody, and dies of one photo."""
    if any(photo.image_id == "deadly" for photo in photos):
        os.kill(os.getpid(), signal.SIGKILL)
    return [RefusedPhoto(photo.image_id, "seen") for photo in photos]


@pytest.mark.long
def test_only_the_photo_that_workers_die_of_is_refused_for_it(monkeypatch, default_encoder):
    import dask

    monkeypatch.setattr("mien.cluster.photos.encode_on_worker", die_of)
    photos = [Photo(name, b"") for name in ("one", "two", "deadly", "three")]
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), connected("local") as cluster:
        results = list(ClusterEncoder.of(cluster, default_encoder).encode(photos))
    assert [(result.image_id, result.reason) for result in results] == [
        ("one", "seen"),
        ("two", "seen"),
        ("deadly", "1 workers died, one after the other, at the same work: try it alone, or make it smaller"),
        ("three", "seen"),
    ]

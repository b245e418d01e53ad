"""Faces and composites over HTTP: who sees them, what is recorded, and that they are gone with their patient."""

from __future__ import annotations

import io
import json
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from mien import Cohort, Encodings, Gallery, Label
from mien.encoding.alignment import png_of
from mien.service.tokens import add_people

from pictures import noisy_crop
from services import assert_problem, client_of

ODD_ID = "Ward 3/é#1?a=%20.jpg"


@pytest.fixture
def with_faces(tmp_path, rng):
    """Six patients with d, two with e; two images have odd ids, and one of e's has no face."""
    image_ids = ["0.jpg", "1.jpg", ODD_ID, "3.jpg", "4.jpg", "5.jpg", "6.jpg", "7.jpg"]
    labels = [Label(i, f"person {n}", "d" if n < 6 else "e/f") for n, i in enumerate(image_ids)]
    embeddings = rng.standard_normal((8, 1, 4)).astype(np.float32)
    Gallery.build(tmp_path / "kept", Cohort.join(Encodings.of(image_ids, embeddings), labels))
    Gallery.add_faces(tmp_path / "kept", {image_id: png_of(noisy_crop(rng)) for image_id in image_ids[:7]})
    return tmp_path / "kept"


def pixels_of(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/png"
    assert response.headers["cache-control"] == "no-store"
    return np.asarray(Image.open(io.BytesIO(response.content)))


def test_faces_and_composites_are_shown_as_they_are_kept(with_faces):
    kept = Gallery.open(with_faces).faces
    with client_of(with_faces) as client:
        for image_id in ("1.jpg", ODD_ID):
            response = client.get(f"/v1/faces/{quote(image_id)}")
            assert pixels_of(response).shape == (112, 112, 3)
            assert response.content == kept.crop(image_id)
        np.testing.assert_array_equal(pixels_of(client.get("/v1/composites/d")), kept.composite("d"))
        assert client.get("/v1/gallery").json()["faces_kept"] == 7


def test_what_is_not_there_or_too_little_is_a_problem(with_faces, gallery):
    with client_of(with_faces) as client:
        assert_problem(client.get("/v1/faces/7.jpg"), 404, "no-face")
        assert_problem(client.get("/v1/faces/nobody"), 404, "no-face")
        assert_problem(client.get("/v1/composites/none"), 404, "no-composite")
        few = assert_problem(client.get("/v1/composites/e%2Ff"), 403, "too-few-patients")
        assert "5 patients" in few["detail"]
    with client_of(gallery) as client:
        assert_problem(client.get("/v1/faces/i0"), 404, "no-face")
        assert_problem(client.get("/v1/composites/d0"), 404, "no-composite")


def test_a_coarse_service_shows_no_faces(with_faces):
    with client_of(with_faces, coarse=True) as client:
        for path in ("/v1/faces/1.jpg", "/v1/faces/nobody", "/v1/composites/d", "/v1/composites/none"):
            assert_problem(client.get(path), 403, "coarse")


def test_only_the_right_shows_faces_and_the_log_names_each(with_faces, tmp_path):
    tokens = add_people(tmp_path / "tokens", ["anna"], ["rank", "faces"])
    tokens |= add_people(tmp_path / "tokens", ["bert"], ["rank", "gallery", "embeddings"])
    log = tmp_path / "audit.jsonl"
    with client_of(with_faces, tokens=tmp_path / "tokens", audit=log) as client:
        for name, statuses in {"anna": (200, 404, 200, 403), "bert": (403, 403, 403, 403)}.items():
            paths = ("/v1/faces/1.jpg", "/v1/faces/Mary", "/v1/composites/d", "/v1/composites/e/f")
            headers = {"authorization": f"Bearer {tokens[name]}"}
            assert tuple(client.get(path, headers=headers).status_code for path in paths) == statuses
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    shown = [
        (line["person"], line.get("image_id"), line.get("disorder_id")) for line in lines if line.get("status") == 200
    ]
    assert shown == [("anna", "1.jpg", None), ("anna", None, "d")]
    assert "Mary" not in log.read_text()  # what is not there may be anything


def test_a_removed_patients_face_is_gone_at_once_and_a_new_one_there(with_faces, rng):
    with client_of(with_faces) as client:
        before = pixels_of(client.get("/v1/composites/d"))
        gone = next(f"{n}.jpg" for n in (0, 1, 3, 4) if correlation(client.get(f"/v1/faces/{n}.jpg"), before) > 0.2)
        Gallery.remove_patients(with_faces, [f"person {gone[0]}"])
        assert_problem(client.get(f"/v1/faces/{gone}"), 404, "no-face")
        assert_problem(client.get("/v1/composites/d"), 403, "too-few-patients")
        assert_problem(client.get("/v1/faces/7.jpg"), 404, "no-face")
        Gallery.add_faces(with_faces, {"7.jpg": png_of(noisy_crop(rng))})
        pixels_of(client.get("/v1/faces/7.jpg"))


def correlation(response, picture):
    return np.corrcoef(pixels_of(response).ravel(), picture.ravel())[0, 1]

"""A client as it is written for the official service: requests and answers as that one has them."""

from __future__ import annotations

import base64
import io

import httpx
import numpy as np
import pytest
from PIL import Image

from services import TOKEN, assert_problem, client_of


def official_client(address, photo, auth):
    """Sends a photo and keeps what official scripts keep: the best syndromes with a score of their own."""
    body = {"img": base64.b64encode(photo).decode("utf-8")}
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{address}/predict", json=body, headers=headers, auth=auth, timeout=90, trust_env=False)
    response.raise_for_status()
    result = response.json()
    syndromes = result["suggested_syndromes_list"][:4]
    for syndrome in syndromes:
        distance = syndrome.get("distance") or syndrome.get("gestalt_score")
        syndrome["score"] = (1.3 - float(distance)) / 1.3
    return result, syndromes


def test_a_client_of_the_official_service_works_unchanged(people):
    directory, photos = people
    with client_of(directory, token=TOKEN) as client:
        address = str(client.base_url).rstrip("/")
        result, syndromes = official_client(address, photos[3][1], ("any user", TOKEN))
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            official_client(address, photos[3][1], ("any user", "wrong"))
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            official_client(address, b"no photo", ("any user", TOKEN))
    assert list(result) == ["model_version", "gallery_version", "suggested_genes_list", "suggested_syndromes_list"]
    assert result["suggested_genes_list"] == []
    assert len(result["suggested_syndromes_list"]) == 12
    first = syndromes[0]
    keys = ["syndrome_name", "omim_id", "distance", "gestalt_score", "image_id", "subject_id", "score"]
    assert list(first) == keys
    assert (first["syndrome_name"], first["subject_id"]) == ("Drawn syndrome 3", "patient 3")
    assert first["distance"] == first["gestalt_score"]
    distances = [syndrome["distance"] for syndrome in result["suggested_syndromes_list"]]
    assert distances == sorted(distances)


def test_a_file_gets_the_same_answer(photo_client, people):
    photo = people[1][4][0]
    by_file = photo_client.post("/predict_file", files={"file": ("x.jpg", photo)}).json()
    by_text = photo_client.post("/predict", json={"img": base64.b64encode(photo).decode()}).json()
    assert by_file == by_text
    named = f"data:image/jpeg;base64,{base64.b64encode(photo).decode()}"
    assert photo_client.post("/predict", json={"img": named}).json() == by_text


def test_embeddings_come_as_columns_of_the_official_frame(photo_client, people, photo_encoder):
    import pandas as pd

    photo = people[1][4][0]
    answer = photo_client.post("/encode", json={"img": base64.b64encode(photo).decode()}).json()
    assert photo_client.post("/encode_file", files={"file": ("x.jpg", photo)}).json() == answer
    frame = pd.DataFrame(answer["encodings"])
    assert list(frame) == ["img_name", "model", "flip", "gray", "class_conf", "representations"]
    assert list(zip(frame.flip, frame.gray, strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    from mien.encoding.photo_encoder import Photo

    [encoded] = photo_encoder.encode([Photo("x", photo)])
    assert np.allclose(np.stack(frame.representations), encoded.embedding, atol=1e-5)


def test_the_crop_is_the_aligned_face(photo_client, people):
    photo = people[1][4][0]
    answer = photo_client.post("/crop", json={"img": base64.b64encode(photo).decode()}).json()
    assert Image.open(io.BytesIO(base64.b64decode(answer["crop"]))).size == (112, 112)


def test_status_is_running(photo_client):
    assert photo_client.get("/status").json() == {"status": "running"}


@pytest.mark.parametrize("path", ["/predict", "/encode", "/crop"])
@pytest.mark.parametrize("body", [{}, {"img": ""}, {"img": "!!"}, {"img": 3}, {"img": "QUJD"}, []])
def test_errors_have_a_status_of_their_own(photo_client, path, body):
    assert_problem(photo_client.post(path, json=body), 422)


def test_a_file_route_wants_one_file(photo_client, people):
    photo = people[1][4][0]
    assert_problem(photo_client.post("/predict_file", files={"other": ("x.jpg", photo)}), 422)
    two = [("file", ("x.jpg", photo)), ("file", ("y.jpg", photo))]
    assert_problem(photo_client.post("/predict_file", files=two), 422)


def test_coarse_distances_are_ends_of_bands(people):
    with client_of(people[0], coarse=True) as client:
        answer = client.post("/predict", json={"img": base64.b64encode(people[1][3][0]).decode()}).json()
    distances = {syndrome["distance"] for syndrome in answer["suggested_syndromes_list"]}
    assert distances <= {0.6, 0.75, 0.9, 1.0}

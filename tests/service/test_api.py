from __future__ import annotations

import json

import numpy as np
import pytest

from mien import FULL, Gallery, Query, calibrate, rank
from mien.answers.examination import examine
from mien.report.rankings import coarse_document, examination_document
from mien.service.models import DisorderAnswer, GalleryAnswer, Health, RankAnswer
from mien.storage.learned import store_calibration

from cohorts import families, random_cohort, random_query_arrays
from services import as_form, assert_problem, client_of

PROPORTIONAL = {"fusion": "distance", "score": "proportional", "alpha": 0.5}


def embeddings_of(gallery, rng, images=2):
    return random_query_arrays(rng, _Rows(gallery), images)


def test_embeddings_are_ranked_as_the_core_does(client, kept_gallery, rng):
    arrays = embeddings_of(kept_gallery, rng)
    response = client.post("/v1/rank/embeddings", json={"embeddings": arrays.tolist(), "top": "all"})
    assert response.status_code == 200
    answer = response.json()
    RankAnswer.model_validate(answer)
    [expected] = rank(Gallery.open(kept_gallery), Query.of(arrays), FULL, top=None)
    found = [(line["disorder_id"], line["distance"]) for line in answer["queries"][0]["disorders"]]
    assert found == [(line.disorder_id, round(line.distance, 7)) for line in expected.disorders]
    assert answer["gallery"]["generation"] == 1
    assert answer["method"] == FULL.as_dict()
    assert "never gives a diagnosis" in answer["notice"]


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({"method": "baseline"}, {"fusion": "none", "score": "nearest"}),
        ({"lambda": 0.2}, {"fusion": "embedding", "score": "hybrid", "lambda": 0.2}),
        (PROPORTIONAL, PROPORTIONAL),
    ],
)
def test_any_method_can_be_asked_for(client, kept_gallery, rng, options, method):
    body = {"embeddings": embeddings_of(kept_gallery, rng).tolist(), **options}
    answer = client.post("/v1/rank/embeddings", json=body).json()
    assert answer["method"] == method
    assert len(answer["queries"]) == (2 if method["fusion"] == "none" else 1)


def test_each_photo_is_heard_if_that_is_wanted(client, kept_gallery, rng):
    body = {"embeddings": embeddings_of(kept_gallery, rng, 3).tolist(), "each_photo": True, "top": 3}
    answer = client.post("/v1/rank/embeddings", json=body).json()
    RankAnswer.model_validate(answer)
    lines = answer["queries"][0]["disorders"]
    assert [len(line["alone"]) for line in lines] == [len(line["without"]) for line in lines] == [3, 3, 3]
    assert all(line["nearest_cases"][0]["image_id"] == line["nearest_image_id"] for line in lines)


def test_the_own_patient_is_left_out(client, kept_gallery):
    opened = Gallery.open(kept_gallery)
    image = opened.index.raw_embeddings(np.array([0])).tolist()
    own = opened.roster.patient_ids[opened.roster.patient_of_image[0]]
    for known_by in ({}, {"patient_id": own}, {"image_ids": [opened.roster.image_ids[0]]}):
        answer = client.post("/v1/rank/embeddings", json={"embeddings": image, **known_by}).json()
        assert answer["queries"][0]["excluded_gallery_patients"] == [own]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "embeddings"),
        ({"embeddings": []}, "embeddings"),
        ({"embeddings": [[[1.0] * 8] * 3], "top": 0}, "top"),
        ({"embeddings": [[[1.0] * 8] * 3], "lambda": 2}, "lambda"),
        ({"embeddings": [[[1.0] * 8] * 3], "nonsense": 2}, "nonsense"),
        ({"embeddings": [[[1.0] * 8] * 3, [[1.0] * 7] * 3]}, "different shapes"),
        ({"embeddings": [[[1.0] * 5] * 3]}, "the gallery by"),
        ({"embeddings": [[[0.0] * 8] * 3]}, "length zero"),
        ({"embeddings": [[[1e300] * 8] * 3]}, "not a finite number"),
        ({"embeddings": [[[1.0] * 8] * 3], "image_ids": ["a", "b"]}, "2 image_ids for 1"),
        ({"embeddings": [[[1.0] * 8] * 3] * 2, "image_ids": ["a", "a"]}, "there twice"),
        ({"embeddings": [[[1.0] * 8] * 3], "score": "nearest", "lambda": 0.5}, "lambda belongs to"),
    ],
)
def test_wrong_embeddings_are_named(client, body, word):
    problem = assert_problem(client.post("/v1/rank/embeddings", json=body), 422)
    assert word in json.dumps(problem)


def test_bodies_that_are_no_json(client):
    as_json = {"content-type": "application/json"}
    assert_problem(client.post("/v1/rank/embeddings", content=b"{", headers=as_json), 422)
    assert_problem(client.post("/v1/rank/embeddings", content=b"[NaN", headers=as_json), 422)
    assert_problem(client.post("/v1/rank/embeddings", content=b"{}"), 415, "wrong-media-type")


@pytest.mark.parametrize(
    "body",
    [
        b'{"embeddings": [[' + b",".join([b'["",""]'] * 50_000) + b"]]}",
        b"{" + b",".join(b'"%d": 0' % number for number in range(100_000)) + b"}",
        b'{"embeddings": [' + b",".join([b"0"] * 500_000) + b"]}",
        b'{"%s": 0}' % (b"x" * 1_000_000),
    ],
    ids=["texts", "unknown fields", "too flat", "a long name"],
)
def test_a_body_full_of_errors_gets_a_short_answer(client, body):
    response = client.post("/v1/rank/embeddings", content=body, headers={"content-type": "application/json"})
    assert_problem(response, 422, "invalid-request")
    assert len(response.content) < 10_000


def test_the_gallery_and_its_disorders(client, kept_gallery):
    answer = client.get("/v1/gallery").json()
    GalleryAnswer.model_validate(answer)
    assert len(answer["disorder_list"]) == answer["disorders"] == 8
    one = client.get(f"/v1/disorders/{answer['disorder_list'][3]['disorder_id']}").json()
    DisorderAnswer.model_validate(one)
    assert one["generation"] == 1
    assert len(one["most_alike"]) == 7
    assert one["disorder_id"] not in one["most_alike"]
    assert_problem(client.get("/v1/disorders/no%2Fsuch%00one"), 404, "unknown-disorder")
    Health.model_validate(client.get("/v1/health").json())


def test_unknown_routes_and_methods_are_problems_too(client):
    assert_problem(client.get("/no/such/thing"), 404)
    assert_problem(client.delete("/v1/rank"), 405)
    assert_problem(client.get("/static/../app.py"), 404)


def test_an_empty_gallery_ranks_nobody(tmp_path, gallery):
    Gallery.remove_patients(gallery, Gallery.open(gallery).roster.patient_ids)
    with client_of(gallery) as client:
        body = {"embeddings": [[[1.0] * 8] * 3]}
        assert_problem(client.post("/v1/rank/embeddings", json=body), 409, "empty-gallery")
        assert client.get("/v1/gallery").json()["disorder_list"] == []
        assert client.get("/").status_code == client.get("/gallery").status_code == 200


def test_the_right_person_comes_first(photo_client, people):
    for person in (0, 7):
        response = photo_client.post("/v1/rank", files=as_form(*people[1][person]), data={"top": "4"})
        answer = response.json()
        RankAnswer.model_validate(answer)
        [query] = answer["queries"]
        assert query["disorders"][0]["disorder_id"] == f"d{person:02}"
        assert query["image_ids"] == ["0.jpg", "1.jpg", "2.jpg"]
        assert len(query["disorders"]) == 4
        assert [len(line["alone"]) for line in query["disorders"]] == [3] * 4
        assert all(photo["encoded"] for photo in answer["photos"])


def test_refused_photos_end_it_or_are_left_out(photo_client, people):
    good, broken = people[1][2][0], b"GIF89a"
    files = as_form(good, broken)
    problem = assert_problem(photo_client.post("/v1/rank", files=files), 422, "invalid-photos")
    assert [photo["image_id"] for photo in problem["photos"]] == ["1.jpg"]
    assert "GIF" in problem["detail"]
    answer = photo_client.post("/v1/rank", files=files, data={"skip_refused": "true"}).json()
    assert answer["queries"][0]["image_ids"] == ["0.jpg"]
    assert [photo["encoded"] for photo in answer["photos"]] == [True, False]
    every = photo_client.post("/v1/rank", files=as_form(broken), data={"skip_refused": "true"})
    assert_problem(every, 422, "invalid-photos")


def test_a_photo_of_two_faces_offers_both(photo_client, people):
    import io

    from PIL import Image

    one, other = (Image.open(io.BytesIO(people[1][person][0])) for person in (1, 4))
    both = Image.new("RGB", (one.width + other.width, one.height))
    both.paste(one, (0, 0))
    both.paste(other, (one.width, 0))
    buffer = io.BytesIO()
    both.save(buffer, "PNG")
    problem = assert_problem(photo_client.post("/v1/rank", files=as_form(buffer.getvalue())), 422, "invalid-photos")
    assert len(problem["photos"][0]["boxes"]) == 2
    for face, person in (("1", 1), ("2", 4)):
        answer = photo_client.post("/v1/rank", files=as_form(buffer.getvalue()), data={"face": face}).json()
        assert answer["queries"][0]["disorders"][0]["disorder_id"] == f"d{person:02}"
    assert_problem(photo_client.post("/v1/rank", files=as_form(buffer.getvalue()), data={"face": "x"}), 422)


def test_forms_that_are_none(photo_client, people):
    form = {"content-type": "multipart/form-data; boundary=x"}
    assert_problem(photo_client.post("/v1/rank", content=b"--y\r\n", headers=form), 400, "invalid-form")
    no_boundary = {"content-type": "multipart/form-data"}
    assert_problem(photo_client.post("/v1/rank", content=b"--y\r\n", headers=no_boundary), 400, "invalid-form")
    assert_problem(photo_client.post("/v1/rank", files=as_form(b"", name="elsewhere")), 422)
    assert_problem(photo_client.post("/v1/rank", data={"photos": "text"}), 415)
    many = as_form(*[b"x"] * 21)
    assert_problem(photo_client.post("/v1/rank", files=many), 413, "too-many-photos")


def test_a_form_that_is_cut_off_is_not_ranked_in_part(photo_client, people):
    request = photo_client.build_request("POST", "/v1/rank", files=as_form(*people[1][0][:2]))
    whole = request.read()
    for end in (len(whole) - 1000, len(whole) - 4):
        headers = {"content-type": request.headers["content-type"]}
        response = photo_client.post("/v1/rank", content=whole[:end], headers=headers)
        assert "cut off" in assert_problem(response, 400, "invalid-form")["detail"]
    assert_problem(photo_client.post("/v1/rank", files=as_form(people[1][0][0], name="photo")), 422)


@pytest.mark.parametrize("face", ["0", "-1", "00001", "9" * 5000, "²", "1.5", "main "])
def test_faces_have_small_numbers(photo_client, people, face):
    response = photo_client.post("/v1/rank", files=as_form(people[1][0][0]), data={"face": face})
    assert_problem(response, 422, "invalid-face")


def test_forms_are_in_utf_8(photo_client):
    headers = {"content-type": "multipart/form-data; charset=punycode; boundary=x"}
    assert_problem(photo_client.post("/v1/rank", content=b"--x--\r\n", headers=headers), 415)


def test_names_of_files_are_shown_escaped_and_told_apart(photo_client, people):
    names = ["../../etc/passwd", "a\u202egpj.exe", "x" * 300, "same.jpg", "same.jpg"]
    files = [("photos", (name, people[1][3][0], "image/jpeg")) for name in names]
    answer = photo_client.post("/v1/rank", files=files).json()
    shown = answer["queries"][0]["image_ids"]
    assert shown[0] == "passwd"
    assert "\u202e" not in "".join(shown)
    assert len(shown[2]) == 80
    assert shown[3:] == ["same.jpg", "same.jpg (2)"]


def test_photos_for_a_gallery_of_another_encoder_are_refused(client, people):
    problem = assert_problem(client.post("/v1/rank", files=as_form(people[1][0][0])), 409, "no-encoder")
    assert "encoder is not on this machine" in problem["detail"]


def test_coarse_answers_hold_no_distance(people, gallery):
    with client_of(people[0], coarse=True) as client:
        response = client.post("/v1/rank", files=as_form(*people[1][0]), data={"top": "all"})
        answer = response.json()
        RankAnswer.model_validate(answer)
        queries = json.dumps(answer["queries"])
        assert "distance" not in queries
        assert "0." not in queries.replace("0.jpg", "")
        line = answer["queries"][0]["disorders"][0]
        assert line["band"] in answer["bands"]
        assert line["alone"][0] == {"rank": 1}
        for option in ({"lambda": "0.7"}, {"score": "nearest"}, {"method": "baseline"}, {"fusion": "distance"}):
            sounding = client.post("/v1/rank", files=as_form(*people[1][0]), data=option)
            assert_problem(sounding, 403, "coarse")
        encoded = client.post("/encode_file", files={"file": ("x.jpg", people[1][0][0])})
        assert_problem(encoded, 403, "coarse")
    with client_of(gallery, coarse=True) as client:
        body = {"embeddings": random_query_arrays(np.random.default_rng(1), _Rows(gallery), 1).tolist()}
        assert_problem(client.post("/v1/rank/embeddings", json=body), 403, "coarse")


def test_a_coarse_answer_lists_the_first_disorders_and_their_order_only(tmp_path, rng):
    """The rank in a long list tells nearly as much as the distance."""
    cohort = random_cohort(rng, disorders=30)
    query = Query.of(random_query_arrays(rng, cohort, 3))
    Gallery.build(tmp_path, cohort)
    whole = examination_document(examine(cohort, query, top=None), Gallery.open(tmp_path), FULL)
    genes = [{"rank": rank, "symbol": "A"} for rank in range(1, 31)]
    [asked] = coarse_document({**whole, "queries": [{**whole["queries"][0], "genes": genes}]})["queries"]
    assert len(asked["genes"]) == 10
    first = whole["queries"][0]["disorders"][:10]
    assert [line["disorder_id"] for line in asked["disorders"]] == [line["disorder_id"] for line in first]
    assert any(standing["rank"] > 10 for line in first for standing in line["alone"])  # which is not told
    for name in ("alone", "without"):
        for photo in range(3):
            told = [line[name][photo] for line in asked["disorders"]]
            known = [line[name][photo]["rank"] for line in first]
            assert told == [{"rank": 1 + sum(other < rank for other in known)} for rank in known]


class _Rows:
    def __init__(self, gallery):
        index = Gallery.open(gallery).index
        self.embeddings = index.raw_embeddings(np.arange(len(index.images)))


def test_a_calibrated_gallery_answers_with_probabilities_but_not_coarsely(tmp_path, rng):
    Gallery.build(tmp_path / "gallery", families(rng))
    query = families(rng, disorders=1, patients=1, prefix="new ").queries()[0]
    body = {"embeddings": query.encodings.embeddings.tolist()}
    with client_of(tmp_path / "gallery") as client:
        assert "probability" not in client.post("/v1/rank/embeddings", json=body).text
        store_calibration(tmp_path / "gallery", calibrate(Gallery.open(tmp_path / "gallery")))
        answer = client.post("/v1/rank/embeddings", json=body).json()  # it was noticed without a restart
        RankAnswer.model_validate(answer)
        [asked] = answer["queries"]
        assert 0 < asked["none_of_these"] < 1
        assert asked["disorders"][0]["probability"] > 0
        assert asked["prediction_set"]["coverage"] == 0.9
    with client_of(tmp_path / "gallery", coarse=True) as client:
        text = client.post("/v1/rank/embeddings", json=body).text
        assert not any(name in text for name in ("probability", 'likelihood_ratio"', "none_of_these"))

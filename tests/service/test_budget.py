"""What answers give away: how many, how exact, and to whom."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mien import Cohort, Encoder, Gallery
from mien.service.budget import HOUR, Budget, usual_embeddings
from mien.service.models import RankAnswer
from mien.service.problems import Problem
from mien.service.tokens import add_people

from services import as_form, assert_problem, client_of

DIMENSIONS = 512
DISORDERS = 20
TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def single_photos(tmp_path, rng):
    """A gallery in which every disorder has one patient with one photo; and the embeddings of these photos."""
    photos = rng.standard_normal((DISORDERS, DIMENSIONS))
    ids = [f"{number:02}" for number in range(DISORDERS)]
    Gallery.build(tmp_path / "gallery", Cohort.of(photos, image_ids=ids, patient_ids=ids, disorder_ids=ids))
    return tmp_path / "gallery", photos / np.linalg.norm(photos, axis=1, keepdims=True)


def sounded_out(client, rng, requests):
    """Sends a hundred made-up embeddings per request; returns statuses, what was asked, distances, the last answer."""
    statuses, asked, told = [], [], []
    for _ in range(requests):
        rows = rng.standard_normal((100, DIMENSIONS))
        body = {"embeddings": rows[:, None].tolist(), "each_photo": True, "top": "all"}
        response = client.post("/v1/rank/embeddings", json=body)
        statuses.append(response.status_code)
        if response.status_code == 200:
            [query] = response.json()["queries"]
            lines = sorted(query["disorders"], key=lambda line: line["disorder_id"])
            told.append([[standing["distance"] for standing in line["alone"]] for line in lines])
            asked.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return statuses, np.concatenate(asked), np.concatenate(told, axis=1), response


def test_the_photos_behind_a_gallery_cannot_be_reconstructed_in_an_hour(single_photos, rng):
    directory, photos = single_photos
    with client_of(directory, token=TOKEN, headers=BEARER) as client:
        statuses, asked, told, last = sounded_out(client, rng, 6)
    assert statuses == [200, 200, 429, 429, 429, 429]
    assert 0 < int(last.headers["retry-after"]) <= HOUR
    assert_problem(last, 429, "budget")
    found = np.linalg.lstsq(asked, 1 - told.T, rcond=None)[0].T
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    assert (found * photos).sum(axis=1).max() < 0.75  # sqrt(200 / 512) is 0.62; without a budget it was 1


def test_small_embeddings_have_a_small_budget():
    assert [usual_embeddings(Encoder(4, dimensions)) for dimensions in (512, 128, 8)] == [204, 51, 50]
    assert usual_embeddings(None) == 50  # an empty gallery


def test_a_person_over_the_budget_waits_and_others_do_not(gallery, tmp_path, rng):
    tokens = tmp_path / "tokens"
    given = add_people(tokens, ["anna", "boris"], ["rank", "embeddings", "gallery"])
    bearer = {name: {"authorization": f"Bearer {token}"} for name, token in given.items()}
    with client_of(gallery, tokens=tokens, most_embeddings=6, most_requests=4) as client:

        def ask(name, images=2):
            body = {"embeddings": rng.standard_normal((images, 3, 8)).tolist()}
            return client.post("/v1/rank/embeddings", json=body, headers=bearer[name])

        assert [ask("anna").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert_problem(ask("anna", 1), 429, "budget")
        assert [ask("boris", 1).status_code for _ in range(5)] == [200] * 4 + [429]
        assert client.get("/v1/gallery", headers=bearer["anna"]).status_code == 200  # nothing is compared


def test_every_route_that_ranks_spends(people):
    directory, photos = people
    with client_of(directory, token=TOKEN, headers=BEARER, most_embeddings=1) as client:
        assert client.post("/v1/rank", files=as_form(photos[0][0])).status_code == 200
        assert client.post("/v1/rank", files=as_form(photos[0][0])).status_code == 200  # the same again
        other = photos[1][0]
        assert client.post("/v1/rank", files=as_form(other)).status_code == 429
        assert client.post("/predict_file", files={"file": ("x.jpg", other)}).status_code == 429
        page = client.post("/", files=as_form(other))
        assert page.status_code == 429
        assert "n an hour 200 rankings can be made, of 1 photos" in page.text


def test_what_is_an_hour_ago_is_free_again():
    clock = [0.0]
    budget = Budget(most_requests=3, most_embeddings=4, now=lambda: clock[0])
    numbers = iter(np.arange(1000, dtype=np.float32))

    def images(count):
        return np.array([[next(numbers)] for _ in range(count)])

    def seconds_to_wait(count):
        try:
            budget.spend("anna", images(count))
        except Problem as problem:
            return int(problem.headers["Retry-After"])
        return 0

    assert seconds_to_wait(3) == 0
    clock[0] = 100
    assert seconds_to_wait(1) == 0
    assert seconds_to_wait(1) == HOUR - 100
    assert seconds_to_wait(4) == HOUR
    assert seconds_to_wait(5) == HOUR
    clock[0] = HOUR
    assert [seconds_to_wait(1) for _ in range(3)] == [0, 0, 100]  # three rankings in an hour
    budget.spend("boris", images(4))


def test_accounts_that_are_over_are_forgotten(monkeypatch):
    monkeypatch.setattr("mien.service.budget.MOST_ACCOUNTS", 5)
    clock = [0.0]
    budget = Budget(10, 10, now=lambda: clock[0])
    for number in range(20):
        clock[0] += HOUR / 2
        budget.spend(str(number), np.ones((1, 1), dtype=np.float32))
    assert len(budget.accounts) <= 6


def test_an_account_that_asked_for_too_much_after_an_hour_is_forgotten_too(monkeypatch):
    clock = [0.0]
    budget = Budget(10, 10, now=lambda: clock[0])
    budget.spend("anna", np.zeros((1, 1), dtype=np.float32))
    clock[0] = HOUR
    with pytest.raises(Problem, match="rankings can be made"):
        budget.spend("anna", np.arange(11, dtype=np.float32)[:, np.newaxis])
    monkeypatch.setattr("mien.service.budget.MOST_ACCOUNTS", 0)
    budget.spend("boris", np.zeros((1, 1), dtype=np.float32))
    assert set(budget.accounts) == {"boris"}


@pytest.fixture
def sizes(tmp_path, rng):
    """A disorder of one patient with two photos, one of two patients, and one of three."""
    patients = ["a", "a", "b", "c", "d", "e", "f"]
    disorders = ["one", "one", "two", "two", "three", "three", "three"]
    rows = rng.standard_normal((7, 8))
    Gallery.build(
        tmp_path / "gallery",
        Cohort.of(rows, image_ids=list("1234567"), patient_ids=patients, disorder_ids=disorders),
    )
    return tmp_path / "gallery"


def test_small_disorders_give_no_part_of_their_distance(sizes, tmp_path, rng):
    tokens = tmp_path / "tokens"
    rights = {"anna": ["rank"], "boris": ["rank", "embeddings"]}
    given = {name: add_people(tokens, [name], rights[name])[name] for name in rights}
    body = {"embeddings": rng.standard_normal((2, 1, 8)).tolist(), "each_photo": True, "top": "all"}
    with client_of(sizes, tokens=tokens) as client:
        lines = {}
        for name, token in given.items():
            headers = {"authorization": f"Bearer {token}"}
            answer = client.post("/v1/rank/embeddings", json=body, headers=headers).json()
            RankAnswer.model_validate(answer)
            lines[name] = {line["disorder_id"]: line for line in answer["queries"][0]["disorders"]}
    for disorder, line in lines["anna"].items():
        exact = lines["boris"][disorder]
        small = disorder != "three"
        digits = 2 if small else 3
        others = [[*each["alone"], *each["without"]] for each in (line, exact)]
        for told, known in [(line, exact), *zip(*others, strict=True)]:
            assert told["distance"] == pytest.approx(known["distance"], abs=0.006)
            assert round(told["distance"], digits) == told["distance"]
            for part in ("nearest_distance", "centroid_distance"):
                assert told[part] == (None if small else round(known[part], 3))
        assert {case["distance"] is None for case in line["nearest_cases"]} == {small}
    whole = lines["boris"]["one"]["centroid_distance"]
    assert whole != round(whole, 3)  # with the right, all digits


def test_the_page_does_not_tell_more(people, tmp_path):
    """Every disorder there has one patient."""
    directory, photos = people
    token = add_people(tmp_path / "tokens", ["anna"], ["rank"])["anna"]
    with client_of(directory, tokens=tmp_path / "tokens") as client:

        def ask(**fields):
            headers = {"authorization": f"Bearer {token}"}
            return client.post("/", files=as_form(*photos[3]), data=fields, headers=headers)

        page = ask().text
        document = ask(download="json").json()
        table = ask(download="tsv").text
        assert ask(download="html").status_code == 200
    assert "its parts are not shown" in page
    data = json.loads(page.split('id="answer-data">')[1].split("</script>")[0])
    for line in data["queries"][0]["disorders"]:
        assert line["centroid_distance"] == line["nearest_distance"] == line["distance"] == round(line["distance"], 2)
    assert {line["centroid_distance"] for line in document["queries"][0]["disorders"]} == {None}
    assert len(table.splitlines()) == 13

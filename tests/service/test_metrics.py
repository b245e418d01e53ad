"""`/metrics`: Prometheus can read it, it needs its right, and it names nobody."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mien.service.tokens import add_people
from mien.service.wrong_tokens import FREE
from mien.storage.gallery import Gallery

from services import TOKEN, assert_problem, client_of

QUERY = {"embeddings": [[[1.0] * 8] * 3], "image_ids": ["secret-image"], "patient_id": "secret-patient"}


@pytest.fixture
def tokens(tmp_path):
    """A file of tokens, and how each person shows theirs."""
    path = tmp_path / "tokens"
    given = {right: add_people(path, [f"secret-{right}"], [right])[f"secret-{right}"] for right in ("rank", "metrics")}
    return path, {right: {"authorization": f"Bearer {token}"} for right, token in given.items()}


def samples(text):
    families = list(text_string_to_metric_families(text))
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_metrics_need_their_right(gallery, tokens):
    path, headers = tokens
    with client_of(gallery, tokens=path) as client:
        assert_problem(client.get("/metrics"), 401, "no-token")
        assert_problem(client.get("/metrics", headers=headers["rank"]), 403, "no-right")
        assert client.get("/metrics", headers=headers["metrics"]).status_code == 200
        assert_problem(client.post("/v1/rank/embeddings", headers=headers["metrics"], json=QUERY), 403, "no-right")


def test_metrics_count_and_name_nobody(gallery, tokens):
    path, headers = tokens
    with client_of(gallery, tokens=path) as client:
        for _ in range(2):
            assert client.post("/v1/rank/embeddings", headers=headers["rank"], json=QUERY).status_code == 200
        client.get("/secret/path", headers=headers["rank"])
        client.get("/v1/disorders/secret", headers=headers["rank"])
        client.get("/gallery", headers={"authorization": "Bearer wrong"})
        response = client.get("/metrics", headers=headers["metrics"])
        others = client.get("/metrics", headers=headers["metrics"]).text
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert "secret" not in response.text
    assert "_created" not in response.text
    found, roster = samples(response.text), Gallery.open(gallery).roster
    ranked = ("route", "/v1/rank/embeddings")
    assert found["mien_requests_total", ranked, ("status", "200")] == 2
    assert found["mien_requests_total", ("route", "none"), ("status", "404")] == 1
    assert found["mien_requests_total", ("route", "none"), ("status", "401")] == 1
    assert found["mien_request_seconds_count", ranked] == 2
    assert found["mien_request_seconds_sum", ranked] > 0
    assert found["mien_rankings_total",] == 2
    assert found["mien_rejected_logins_total",] == 1
    assert (found["mien_queue_places",], found["mien_queue_places_in_use",]) == (16, 0)
    assert found["mien_gallery_generation",] == 1
    assert found["mien_gallery_images",] == len(roster.image_ids)
    assert found["mien_gallery_patients",] == len(roster.patient_ids)
    assert found["mien_gallery_disorders",] == len(roster.disorders)
    assert samples(others)["mien_requests_total", ("route", "/metrics"), ("status", "200")] == 1


def test_wrong_tokens_are_counted_while_their_address_has_to_wait(gallery, tokens):
    path, headers = tokens
    with client_of(gallery, tokens=path) as client:
        assert client.get("/metrics", headers=headers["metrics"]).status_code == 200
        wrong = [client.get("/gallery", headers={"authorization": "Bearer wrong"}).status_code for _ in range(FREE + 2)]
        assert wrong[-1] == 429
        assert client.get("/gallery", headers=headers["rank"]).status_code == 429  # right, but never let in from there
        assert client.get("/gallery").status_code == 401
        found = samples(client.get("/metrics", headers=headers["metrics"]).text)
    assert found["mien_rejected_logins_total",] == FREE + 2


def test_each_service_counts_for_itself(gallery):
    with client_of(gallery) as first, client_of(gallery) as second:
        first.post("/v1/rank/embeddings", json=QUERY)
        assert samples(first.get("/metrics").text)["mien_rankings_total",] == 1
        assert samples(second.get("/metrics").text)["mien_rankings_total",] == 0


def test_a_gallery_that_cannot_be_read_is_no_number(gallery):
    with client_of(gallery, token=TOKEN, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        (gallery / "gallery.sqlite").write_bytes(b"no database")
        client.get("/gallery")
        found = samples(client.get("/metrics").text)
    assert found["mien_gallery_images",] != found["mien_gallery_images",]  # NaN

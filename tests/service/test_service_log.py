"""The service's log: JSON lines that name nobody but the person who asked, and that strangers cannot make grow."""

from __future__ import annotations

import json
import logging
import socket
import time
from pathlib import Path

import pytest

from mien.service.service_log import LINES_PER_MINUTE, LogLines, log_error, log_event, service_log
from mien.service.tokens import add_people

from services import client_of

QUERY = {"embeddings": [[[1.0] * 8] * 3], "image_ids": ["secret-image"], "patient_id": "secret-patient"}


def lines_of(capture):
    return [json.loads(line) for line in capture.readouterr().err.splitlines()]


@pytest.fixture
def anna(tmp_path):
    return tmp_path / "tokens", add_people(tmp_path / "tokens", ["anna"], ["rank", "gallery"])["anna"]


def test_a_request_is_a_line_that_names_the_person_and_nothing_that_was_sent(gallery, anna, capfd):
    tokens, token = anna
    with client_of(gallery, tokens=tokens, headers={"authorization": f"Bearer {token}"}) as client:
        assert client.post("/v1/rank/embeddings", json=QUERY).status_code == 200
        photo = [("photos", ("secret-file.jpg", b"no photo", "image/jpeg"))]
        assert client.post("/v1/rank", files=photo).status_code == 409
        assert client.get("/v1/disorders/secret-disorder?secret=query").status_code == 404
        assert client.get("/secret/path").status_code == 404
    text = capfd.readouterr().err
    assert "secret" not in text
    assert token not in text
    started, *asked, stopped = [json.loads(line) for line in text.splitlines()]
    assert (started["event"], stopped["event"]) == ("started", "stopped")
    assert started["generation"] == 1
    assert [(line["route"], line["status"]) for line in asked] == [
        ("/v1/rank/embeddings", 200),
        ("/v1/rank", 409),
        ("/v1/disorders/{disorder_id:path}", 404),
        (None, 404),
    ]
    for line in asked:
        assert line.keys() == {"time", "level", "event", "route", "status", "milliseconds", "person"}
        assert (line["person"], line["event"], line["level"]) == ("anna", "request", "info")


def test_who_only_looks_whether_it_lives_is_not_logged(gallery, capfd):
    with client_of(gallery) as client:
        for path in ("/v1/health", "/status", "/static/page.css", "/metrics"):
            assert client.get(path).status_code == 200
    assert [line["event"] for line in lines_of(capfd)] == ["started", "stopped"]


def test_nobody_without_a_token_makes_the_log_grow_without_bound(gallery, anna, capfd):
    tokens, token = anna
    with client_of(gallery, tokens=tokens) as client:
        where = (client.base_url.host, client.base_url.port)
        for _ in range(2 * LINES_PER_MINUTE):
            assert client.get("/gallery").status_code == 401
            with socket.create_connection(where) as connection:
                connection.sendall(b"no request\r\n\r\n")
                connection.recv(100)
        assert client.get("/gallery", headers={"authorization": f"Bearer {token}"}).status_code == 200
    lines = lines_of(capfd)
    for event in ("request", "uvicorn.error"):
        of_strangers = [line for line in lines if line["event"] == event and line.get("person") is None]
        assert LINES_PER_MINUTE <= len(of_strangers) <= 2 * LINES_PER_MINUTE  # minutes may turn
    assert [line["status"] for line in lines if line.get("person") == "anna"] == [200]


def test_strangers_cannot_keep_an_error_out_of_the_log(gallery, anna, capfd, monkeypatch):
    monkeypatch.setattr("mien.service.galleries.SECONDS_BETWEEN_CHECKS", 0.05)
    said = ""
    with client_of(gallery, tokens=anna[0]) as client:
        for _ in range(LINES_PER_MINUTE + 10):
            assert client.get("/x").status_code == 401
        (gallery / "gallery.sqlite").write_bytes(b"no database")
        for _ in range(400):
            said += capfd.readouterr().err
            if "run 'mien gallery verify'" in said:
                break
            time.sleep(0.05)
    assert "run 'mien gallery verify'" in said


def test_each_kind_of_line_has_its_own_room(capfd):
    handler = LogLines(lambda: 0.0)
    tokens = {"event": "error", "error": "FileNotFoundError", "todo": "run 'mien tokens list'"}
    damaged = {"event": "error", "error": "CorruptGalleryError", "todo": "run 'mien gallery verify'"}
    new = {"event": "new generation", "generation": 2}
    for facts in [{"event": "request"}, tokens] * (LINES_PER_MINUTE + 1) + [damaged, new]:
        handler.handle(logging.makeLogRecord({"facts": facts}))
    lines = lines_of(capfd)
    assert len(lines) == 2 * LINES_PER_MINUTE + 2
    assert [line.get("error") or line["event"] for line in lines[-2:]] == ["CorruptGalleryError", "new generation"]


def test_what_was_left_out_is_counted_in_the_next_minute(capfd):
    now = 0.0
    handler = LogLines(lambda: now)
    record = logging.makeLogRecord({"facts": {"event": "request"}})
    for _ in range(LINES_PER_MINUTE + 7):
        handler.handle(record)
    assert len(lines_of(capfd)) == LINES_PER_MINUTE
    now = 60.0
    handler.handle(record)
    assert [(line["event"], line.get("lines")) for line in lines_of(capfd)] == [
        ("lines left out", 7),
        ("request", None),
    ]


def test_an_error_is_told_without_its_message(capfd):
    with service_log():
        with pytest.raises(FileNotFoundError) as caught:
            Path("secret-file").stat()
        log_error(caught.value, "make room")
        logging.getLogger("mien.storage").warning("%s: the index is made anew", "secret-patient")
        logging.getLogger("asyncio").error("secret-patient")
        log_event("after")
    log_event("nobody listens")
    full, anew, foreign, _ = lines = lines_of(capfd)
    assert "secret" not in str(lines)
    assert (full["error"], full["reason"], full["todo"]) == (
        "FileNotFoundError",
        "No such file or directory",
        "make room",
    )
    assert full["places"][0].startswith("test_service_log.py:")
    assert (anew["message"], anew["level"]) == ("%s: the index is made anew", "warning")
    assert "message" not in foreign

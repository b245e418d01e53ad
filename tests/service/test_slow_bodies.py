"""Bodies that hardly arrive give way to those who come after them."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import httpx
import pytest

from services import assert_problem, client_of

PLACES = 4
SLOW = (
    b"POST /v1/rank/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)
BODY = {"embeddings": [[[1.0] * 8] * 3]}


def slow_body(stack, client):
    where = httpx.URL(client.base_url)
    connection = stack.enter_context(socket.create_connection((where.host, where.port)))
    connection.settimeout(30)
    connection.sendall(SLOW)
    return connection


def wait_until_under_way(client, count):
    for _ in range(1000):
        if client.get("/v1/health").json()["under_way"] == count:
            return
        time.sleep(0.01)
    raise AssertionError("they do not arrive")


@pytest.fixture
def soon_slow(monkeypatch):
    """Everybody has but a moment to begin, not a second; waits until it is over."""
    monkeypatch.setattr("mien.service.request_queue.SECONDS_TO_BEGIN", 0.2)
    return lambda: time.sleep(0.3)


def test_slow_bodies_do_not_hold_all_places(gallery, soon_slow):
    with client_of(gallery, most_waiting=PLACES) as client, ExitStack() as stack:
        slow = [slow_body(stack, client) for _ in range(PLACES)]
        wait_until_under_way(client, PLACES)
        soon_slow()
        for _ in range(3):
            assert client.post("/v1/rank/embeddings", json=BODY).status_code == 200
        assert b" 408 " in slow[0].recv(100)
        assert client.get("/v1/health").json()["under_way"] >= PLACES - 3


def test_the_slowest_gives_way(gallery, soon_slow):
    with client_of(gallery, most_waiting=2) as client, ExitStack() as stack:
        faster, slower = slow_body(stack, client), slow_body(stack, client)
        faster.sendall(b" " * 900)
        wait_until_under_way(client, 2)
        soon_slow()
        assert client.post("/v1/rank/embeddings", json=BODY).status_code == 200
        assert b" 408 " in slower.recv(100)
        faster.sendall(b" " * 98 + b"}")
        assert b" 422 " in faster.recv(100)


def test_bodies_that_have_just_begun_are_waited_for(gallery):
    with client_of(gallery, most_waiting=1) as client, ExitStack() as stack:
        begun = slow_body(stack, client)
        wait_until_under_way(client, 1)
        assert_problem(client.post("/v1/rank/embeddings", json=BODY), 503, "busy")
        begun.sendall(b" " * 998 + b"}")
        assert b" 422 " in begun.recv(100)

"""A service that really listens, and what tests send to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from io import BytesIO
from itertools import count

import httpx
import uvicorn
from PIL import Image

from mien.service.app import service
from mien.service.server import bound_socket, uvicorn_config
from mien.service.settings import Settings

AUTHORITIES = ssl.create_default_context()  # once: reading them takes longer than most requests
TOKEN = "a-long-enough-token"


def drawn_jpeg(person, rng, side=480):
    buffer = BytesIO()
    Image.fromarray(person.photo(rng, side)).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


class EagerServer(uvicorn.Server):
    """Looks ten times as often whether it should end: tests start hundreds of services."""

    async def main_loop(self):
        for tick in count():
            if await self.on_tick(tick // 10):
                break
            await asyncio.sleep(0.01)


@contextmanager
def serving(directory, *, patients=None, tls=None, **settings):
    """The address of a service on loopback, in a thread of this process."""
    bound = bound_socket("127.0.0.1", 0)
    server = EagerServer(uvicorn_config(service(Settings(directory, **settings), patients), tls))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.005)
        yield f"http{'s' if tls else ''}://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


@contextmanager
def client_of(directory, *, patients=None, headers=None, **settings):
    with (
        serving(directory, patients=patients, **settings) as address,
        httpx.Client(base_url=address, timeout=60, headers=headers, trust_env=False, verify=AUTHORITIES) as client,
    ):
        yield client


def closed_of(connections, *, at_least):
    """Whether each was closed by the service: waits until so many are, and a moment longer for others."""
    ends = time.monotonic() + 30
    while sum(map(_is_closed, connections)) < at_least and time.monotonic() < ends:
        time.sleep(0.01)
    time.sleep(0.3)
    return [_is_closed(connection) for connection in connections]


def _is_closed(connection):
    connection.settimeout(0)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except ConnectionResetError:
        return True
    except BlockingIOError:
        return False


def as_form(*contents, name="photos"):
    return [(name, (f"{number}.jpg", content, "image/jpeg")) for number, content in enumerate(contents)]


def assert_problem(response, status, kind=None):
    """Every error has the one shape."""
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert response.status_code == document["status"] == status, document
    assert document["type"].startswith("urn:mien:")
    assert document["title"]
    assert document["detail"]
    if kind:
        assert document["type"] == f"urn:mien:{kind}"
    return document

"""What somebody without a token can send, and how many connections they can hold."""

from __future__ import annotations

import gc
import resource
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, suppress

import httpx
import pytest

from mien.service import server
from mien.service.access_checks import address_group

from services import TOKEN, assert_problem, closed_of, serving

MEGABYTE = 10**6
BEGUN = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {  # what comes first, and what then comes without end
    "many headers": (BEGUN, b"X: y\r\n"),
    "one long header": (BEGUN + b"X: ", b"y"),
    "one long name": (BEGUN, b"y"),
    "a long address": (b"GET /", b"y"),
    "many trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n"),
    "one long trailer": (CHUNKED + b"1\r\nx\r\n0\r\nX: ", b"y"),
    "many requests": (b"", BEGUN + b"\r\n"),
}


@pytest.fixture
def many_files():
    """Each connection takes two files of this process: one here, one in the service."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(address):
    where = httpx.URL(address)
    connection = socket.create_connection((where.host, where.port))
    connection.settimeout(60)
    return connection


def sent_until_closed(connection, begin, repeated, most):
    """How many bytes the service takes before it closes the connection."""
    sent, block = len(begin), repeated * (65_536 // len(repeated))
    try:
        connection.sendall(begin)
        while sent < most:
            connection.sendall(block)
            sent += len(block)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize("flood", FLOODS)
def test_headers_without_end_are_not_read(gallery, flood):
    with serving(gallery, token=TOKEN) as address, connected(address) as connection:
        sent = sent_until_closed(connection, *FLOODS[flood], most=100 * MEGABYTE)
        assert sent < 30 * MEGABYTE  # buffers of the system take some
        assert httpx.get(f"{address}/v1/health", auth=("", TOKEN), trust_env=False).status_code == 200


@pytest.mark.parametrize(
    "flood", sorted(FLOODS.keys() - {"many requests"})
)  # whole requests are uvicorn's, in many small things
def test_nothing_of_refused_connections_is_kept(gallery, monkeypatch, flood):
    """Not even until garbage is collected: that happens by the number of things, and these are few and large."""
    monkeypatch.setattr(server, "SECONDS_FOR_A_REQUEST", 0.2)

    def kept():
        return sum(isinstance(each, server.LimitedProtocol) for each in gc.get_objects())

    with serving(gallery, token=TOKEN) as address:
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                with connected(address) as connection:
                    sent_until_closed(connection, *FLOODS[flood], most=100 * MEGABYTE)
            waited = time.monotonic() + 5
            while kept() > 2 and time.monotonic() < waited:
                time.sleep(0.1)
            assert kept() <= 2
        finally:
            gc.enable()


@pytest.mark.parametrize(
    "headers", [{f"x-{number}": "y" for number in range(101)}, {"x": "y" * 33_000}], ids=["too many", "too long"]
)
def test_too_many_headers_are_a_problem(gallery, headers):
    with serving(gallery) as address:
        response = httpx.get(f"{address}/v1/health", headers=headers, trust_env=False)
        assert_problem(response, 431, "too-many-headers")
        assert response.headers["content-security-policy"]
        usual = {f"x-{number}": "y" * 100 for number in range(60)}
        assert httpx.get(f"{address}/v1/health", headers=usual, trust_env=False).status_code == 200


def test_what_is_no_http_is_a_problem_too(gallery):
    with serving(gallery) as address, connected(address) as connection:
        connection.sendall(b"SSH-2.0-x\r\n\r\n")
        answer = connection.recv(10_000)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    assert b"urn:mien:invalid-http" in answer


@pytest.mark.parametrize("begun", [b"", b"GET /v1/hea"], ids=["silent", "half a request"])
def test_many_idle_connections_shut_nobody_out(gallery, many_files, begun):
    """Not even somebody who comes from the same address, as all do who come through a proxy."""
    with serving(gallery, token=TOKEN) as address, ExitStack() as idle:
        for _ in range(540):
            idle.enter_context(connected(address)).sendall(begun)
        for own in ("127.0.0.1", "127.0.0.2"):
            transport = httpx.HTTPTransport(local_address=own)
            with httpx.Client(transport=transport, trust_env=False, timeout=10) as client:
                for _ in range(3):
                    started = time.monotonic()
                    assert client.get(f"{address}/v1/health", auth=("", TOKEN)).status_code == 200
                    assert time.monotonic() - started < 5


def test_an_address_holds_only_so_many_connections(gallery, monkeypatch):
    monkeypatch.setattr(server, "MOST_OF_AN_ADDRESS", 3)
    with serving(gallery) as address, ExitStack() as stack:
        idle = [stack.enter_context(connected(address)) for _ in range(8)]
        where = httpx.URL(address)
        other = stack.enter_context(socket.create_connection((where.host, where.port), source_address=("127.0.0.2", 0)))
        assert closed_of([*idle, other], at_least=5) == [True] * 5 + [False] * 4


def test_a_request_under_way_is_not_closed_for_others(gallery, monkeypatch):
    monkeypatch.setattr(server, "MOST_OF_AN_ADDRESS", 1)
    with serving(gallery) as address, connected(address) as busy:
        busy.sendall(b"POST /v1/rank/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n")
        busy.sendall(b"Content-Type: application/json\r\nConnection: close\r\n\r\n")
        time.sleep(0.5)
        with connected(address) as refused:
            assert is_closed(refused)
        busy.sendall(b"{}")
        assert b" 422 " in busy.recv(100)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate with its key, for this machine."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    paths = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return paths


def test_connections_count_before_tls_is_agreed_upon(gallery, certificate, monkeypatch):
    monkeypatch.setattr(server, "MOST_OF_AN_ADDRESS", 3)
    trusted = ssl.create_default_context(cafile=certificate[0])
    with serving(gallery, token=TOKEN, tls=server.tls_context(*certificate)) as address, ExitStack() as stack:
        idle = [stack.enter_context(connected(address)) for _ in range(8)]
        idle[-1].sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a handshake
        assert closed_of(idle, at_least=5) == [True] * 5 + [False] * 3
        with httpx.Client(verify=trusted, trust_env=False, auth=("", TOKEN)) as client:
            for _ in range(5):
                assert client.get(f"{address}/v1/health").status_code == 200
            assert client.get(f"{address}/static/page.css").text.startswith(":root")
            body = {"embeddings": [[[1.0] * 8] * 3] * 90, "top": "all"}
            assert client.post(f"{address}/v1/rank/embeddings", json=body).status_code == 200
        with connected(address) as plain:
            plain.sendall(BEGUN + b"\r\n")
            assert is_closed(plain)


def test_a_handshake_that_does_not_end_is_not_waited_for(gallery, certificate, monkeypatch):
    monkeypatch.setattr(server, "SECONDS_FOR_A_REQUEST", 0.2)
    with serving(gallery, tls=server.tls_context(*certificate)) as address, connected(address) as idle:
        assert is_closed(idle)


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(gallery, certificate):
    """Both in one packet, as clients in a hurry send them."""
    with serving(gallery, tls=server.tls_context(*certificate)) as address, connected(address) as connection:
        sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=certificate[0])
        client = context.wrap_bio(received, sent, server_hostname="127.0.0.1")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(sent.read())
                received.write(connection.recv(65_536))
        client.write(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.sendall(sent.read())
        answer = b""
        while b"}" not in answer:
            received.write(connection.recv(65_536))
            with suppress(ssl.SSLWantReadError):
                while some := client.read(65_536):  # one record at a time, and several may have come
                    answer += some
    assert answer.startswith(b"HTTP/1.1 200 ")


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
    ],
)
def test_a_network_of_addresses_counts_as_one(address, group):
    assert address_group(address) == group

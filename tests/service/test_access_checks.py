from __future__ import annotations

import base64
import struct
import threading
import zlib

import httpx
import pytest

from mien.service.access_checks import SECURITY_HEADERS
from mien.service.request_queue import RequestQueue
from mien.service.settings import Settings, SettingsError

from pictures import PNG_MAGIC, png_chunk
from services import TOKEN, as_form, assert_problem, client_of, closed_of, serving

ROUTES = [
    ("GET", "/"),
    ("POST", "/"),
    ("GET", "/gallery"),
    ("GET", "/static/page.css"),
    ("GET", "/openapi.json"),
    ("POST", "/v1/rank"),
    ("POST", "/v1/rank/embeddings"),
    ("GET", "/v1/gallery"),
    ("GET", "/v1/disorders/d0"),
    ("GET", "/v1/faces/i0"),
    ("GET", "/v1/composites/d0"),
    ("GET", "/v1/health"),
    ("POST", "/predict"),
    ("POST", "/predict_file"),
    ("POST", "/encode"),
    ("POST", "/encode_file"),
    ("POST", "/crop"),
    ("GET", "/status"),
    ("GET", "/metrics"),
    ("GET", "/no/such/route"),
]


def huge_png():
    """900 megapixels in 110 kB."""
    side = 30_000
    packed = zlib.compressobj(9)
    rows = b"".join(packed.compress(bytes(side // 8 + 1) * 1000) for _ in range(side // 1000)) + packed.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return PNG_MAGIC + b"".join(png_chunk(*chunk) for chunk in [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")])


def test_the_routes_are_all_there_are(gallery):
    from fastapi.routing import APIRoute

    from mien.service.app import service

    app = service(Settings(gallery))
    known = {
        (method, path.replace("d0", "{disorder_id:path}").replace("i0", "{image_id:path}")) for method, path in ROUTES
    }
    for route in app.routes:
        if isinstance(route, APIRoute):
            assert {(method, route.path) for method in route.methods} <= known


def test_every_route_needs_the_token_where_there_is_one(gallery, monkeypatch):
    monkeypatch.setattr("mien.service.wrong_tokens.FREE", 1000)
    wrong = [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic " + base64.b64encode(b"anna:wrong").decode()},
        {"authorization": "Basic !!!"},
        {"authorization": "Basic " + base64.b64encode(b"\xff\xfe").decode()},
        {"authorization": TOKEN},
    ]
    with client_of(gallery, token=TOKEN) as client:
        for method, path in ROUTES:
            for headers in wrong[path == "/v1/health" :]:  # that it lives is no secret
                response = client.request(method, path, headers=headers)
                has_token = headers in wrong[1:3]
                assert_problem(response, 401, "unknown-token" if has_token else "no-token")
                assert response.headers["www-authenticate"].startswith("Basic")
        assert client.get("/v1/health").json() == {"status": "ok"}
        right = base64.b64encode(f"anna:{TOKEN}".encode()).decode()
        for value in (f"Bearer {TOKEN}", f"Basic {right}"):
            assert client.get("/v1/health", headers={"authorization": value}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:5000", "", "10.0.0.1"])
def test_another_host_is_refused(client, host):
    for method, path in ROUTES:
        assert_problem(client.request(method, path, headers={"host": host}), 400, "wrong-host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:5000"])
def test_the_names_of_loopback_are_known(client, host):
    assert client.get("/v1/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "file://", "http://["])
def test_a_foreign_origin_is_refused(client, origin):
    for method, path in ROUTES:
        assert_problem(client.request(method, path, headers={"origin": origin}), 403, "foreign-origin")
    sent_by_form = {"sec-fetch-site": "cross-site"}
    assert_problem(client.post("/v1/rank", headers=sent_by_form, files=as_form(b"x")), 403, "foreign-origin")
    assert client.get("/", headers=sent_by_form).status_code == 200  # a link is no harm


def test_the_own_origin_is_welcome(client):
    own = str(client.base_url).rstrip("/")
    assert client.get("/v1/health", headers={"origin": own}).status_code == 200


def test_every_answer_carries_the_policy(client):
    for method, path in ROUTES:
        response = client.request(method, path)
        for name, value in SECURITY_HEADERS.items():
            assert response.headers[name] == value
    assert "server" not in client.get("/").headers


def test_bodies_have_a_limit(gallery):
    with client_of(gallery, most_bytes=10_000) as client:
        assert_problem(client.post("/v1/rank", files=as_form(bytes(20_000))), 413, "too-large")
        chunks = iter([b'{"embeddings": [', *[b"1" * 1000] * 20])
        headers = {"content-type": "application/json"}
        assert_problem(client.post("/v1/rank/embeddings", content=chunks, headers=headers), 413, "too-large")
        for length in ("-1", "abc", "1e3"):
            raw = f"POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
            assert " 400 " in answered_raw(client, raw) or " 413 " in answered_raw(client, raw)


def answered_raw(client, text):
    import socket

    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.sendall(text.encode())
        return connection.recv(200).decode().partition("\r\n")[0]


def test_a_huge_picture_is_refused_while_others_are_answered(people):
    directory, photos = people
    picture = huge_png()
    assert len(picture) < 150_000
    with client_of(directory) as client:
        address, refusals = f"{client.base_url}/v1/rank", []

        def send():
            refusals.append(httpx.post(address, files=as_form(picture), trust_env=False))

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        answer = client.post("/v1/rank", files=as_form(photos[3][0])).json()
        for thread in threads:
            thread.join()
    assert answer["queries"][0]["disorders"][0]["disorder_id"] == "d03"
    assert len(refusals) == 4
    for refused in refusals:
        assert "900.0 megapixels" in assert_problem(refused, 422, "invalid-photos")["detail"]


def test_whoever_comes_when_the_queue_is_full_is_told_when_to_come_back(gallery, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr("mien.service.api.ranked_embeddings", lambda *_: begun.set() or (go_on.wait(30) and {}) or {})
    body = {"embeddings": [[[1.0] * 8] * 3]}
    with client_of(gallery, most_waiting=1) as client:
        address = f"{client.base_url}/v1/rank/embeddings"
        waiting = threading.Thread(target=lambda: httpx.post(address, json=body, trust_env=False))
        waiting.start()
        assert begun.wait(30)
        response = client.post("/v1/rank/embeddings", json=body)
        assert_problem(response, 503, "busy")
        assert int(response.headers["retry-after"]) > 0
        assert client.get("/v1/health").json()["under_way"] == 1  # looking is always possible
        go_on.set()
        waiting.join()
        assert client.post("/v1/rank/embeddings", json=body).status_code == 200


def test_a_job_that_takes_too_long_is_not_waited_for(gallery, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr("mien.service.api.ranked_embeddings", lambda *_: (go_on.wait(30) and {}) or {})
    with client_of(gallery, seconds=0.2, most_waiting=2) as client:
        assert_problem(client.post("/v1/rank/embeddings", json={}), 503, "busy")
        assert client.get("/v1/health").json()["under_way"] == 1  # it still keeps its place
        go_on.set()
        for _ in range(1000):
            if client.get("/v1/health").json()["under_way"] == 0:
                break
        assert client.get("/v1/health").json()["under_way"] == 0


def test_a_body_that_does_not_arrive_is_not_waited_for(gallery):
    with client_of(gallery, seconds=0.2) as client:
        raw = "POST /v1/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        assert " 408 " in answered_raw(client, raw + "Content-Length: 1000\r\n\r\n--x\r\n")


def test_whoever_only_looks_does_not_wait_for_jobs(gallery, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr("mien.service.api.ranked_embeddings", lambda *_: (go_on.wait(30) and {}) or {})
    with client_of(gallery) as client:
        address = f"{client.base_url}/v1/rank/embeddings"
        threads = [threading.Thread(target=lambda: httpx.post(address, json={}, trust_env=False)) for _ in range(6)]
        for thread in threads:
            thread.start()
        while client.get("/v1/health").json()["under_way"] < 6:
            pass
        assert client.get("/").status_code == client.get("/v1/gallery").status_code == 200
        go_on.set()
        for thread in threads:
            thread.join()


def test_a_connection_on_which_nothing_is_asked_is_closed(gallery, monkeypatch):
    import socket

    monkeypatch.setattr("mien.service.server.SECONDS_FOR_A_REQUEST", 0.1)
    with client_of(gallery) as client, socket.create_connection((client.base_url.host, client.base_url.port)) as idle:
        idle.sendall(b"GET / HT")
        idle.settimeout(20)
        assert idle.recv(100) == b""
        assert client.get("/v1/health").status_code == 200


def test_there_are_only_so_many_connections(gallery, monkeypatch):
    import socket

    monkeypatch.setattr("mien.service.server.MOST_CONNECTIONS", 3)
    with serving(gallery) as address:
        where = httpx.URL(address)
        idle = [socket.create_connection((where.host, where.port)) for _ in range(6)]
        ended = sum(closed_of(idle, at_least=3))
        for connection in idle:
            connection.close()
    assert ended == 3


def test_an_error_nobody_thought_of_is_a_problem_too(gallery, monkeypatch, capfd):
    def broken(*_):
        raise RuntimeError("patient Smith")

    monkeypatch.setattr("mien.service.api.ranked_embeddings", broken)
    with client_of(gallery) as client:
        problem = assert_problem(client.post("/v1/rank/embeddings", json={}), 500, "internal-error")
    said = capfd.readouterr().err
    assert "RuntimeError" in said
    assert "Smith" not in said + str(problem)  # values may be a patient's


def test_unsafe_settings_do_not_exist(tmp_path):
    with pytest.raises(SettingsError, match="token"):
        Settings(tmp_path, host="0.0.0.0")
    with pytest.raises(SettingsError, match="token"):
        Settings(tmp_path, host="192.168.1.5")
    with pytest.raises(SettingsError, match="--name"):
        Settings(tmp_path, host="0.0.0.0", token=TOKEN)
    for token in ("secret", "a token with blanks in it", "a-token-of-two\nlines-in-it", "päßwörter-sind-länger-als-16"):
        with pytest.raises(SettingsError, match="at least 16 characters"):
            Settings(tmp_path, token=token)
    for anywhere in ("::", "0", "0:0:0:0:0:0:0:0"):
        with pytest.raises(SettingsError, match="--name"):
            Settings(tmp_path, host=anywhere, token=TOKEN)
    for nowhere in ("", "a b", "http://x.example", "[::1]:5000"):
        with pytest.raises(SettingsError, match="is no address"):
            Settings(tmp_path, host=nowhere, token=TOKEN)
        with pytest.raises(SettingsError, match="a name is one like"):
            Settings(tmp_path, token=TOKEN, names=(nowhere,))
    names = Settings(tmp_path, host="0.0.0.0", token=TOKEN, names=("Mien.Clinic.example",)).host_names
    assert "mien.clinic.example" in names
    assert "0.0.0.0" not in names


def test_a_service_known_by_another_name_answers_to_it(gallery):
    with client_of(gallery, token=TOKEN, names=("mien.clinic.example",)) as client:
        headers = {"host": "mien.clinic.example:443", "authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/health", headers=headers).status_code == 200


def test_work_ends_with_the_service(gallery):
    before = set(threading.enumerate())
    with serving(gallery) as address:
        assert httpx.get(f"{address}/v1/health", trust_env=False).status_code == 200
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith(("job", "photo")):
            thread.join(10)
    assert len(set(threading.enumerate()) - before) <= 1
    assert RequestQueue(most_waiting=1, seconds=1).places_taken == 0

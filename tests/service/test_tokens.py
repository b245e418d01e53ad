"""People with a token each: what each may do, who is let in, and who has to wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from starlette.routing import Route

from mien.errors import InvalidFileError, MienError
from mien.service.access_checks import NEEDED_RIGHT
from mien.service.app import service
from mien.service.settings import Settings
from mien.service.tokens import RIGHTS, USUAL_RIGHTS, People, add_people, read_people, revoke_people
from mien.service.wrong_tokens import FREE, LONGEST, WrongTokens

from services import assert_problem, client_of

BODY = {"embeddings": [[[1.0] * 8] * 3]}
RIGHT_OF_ROUTE = {
    ("GET", "/"): "rank",
    ("POST", "/"): "rank",
    ("POST", "/v1/rank"): "rank",
    ("POST", "/v1/rank/embeddings"): "rank",
    ("POST", "/predict"): "rank",
    ("POST", "/predict_file"): "rank",
    ("POST", "/encode"): "embeddings",
    ("POST", "/encode_file"): "embeddings",
    ("POST", "/crop"): "faces",
    ("GET", "/gallery"): "gallery",
    ("GET", "/v1/gallery"): "gallery",
    ("GET", "/v1/disorders/d0"): "gallery",
    ("GET", "/metrics"): "metrics",
}
FOR_EVERYBODY = ["/static/page.css", "/openapi.json", "/v1/health", "/status"]


@pytest.fixture
def tokens(tmp_path):
    return tmp_path / "tokens"


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_each_person_may_do_what_their_rights_say(gallery, tokens):
    token_of = {right: add_people(tokens, [f"only-{right}"], [right])[f"only-{right}"] for right in RIGHTS}
    with client_of(gallery, tokens=tokens) as client:
        for (method, path), needed in RIGHT_OF_ROUTE.items():
            for right, token in token_of.items():
                response = client.request(method, path, headers=bearer(token))
                if right == needed:
                    assert response.status_code not in {401, 403, 429}, (path, right)
                else:
                    problem = assert_problem(response, 403, "no-right")
                    assert needed in problem["detail"]
        for path in FOR_EVERYBODY:
            assert {client.get(path, headers=bearer(token)).status_code for token in token_of.values()} == {200}


def test_every_route_has_its_right(gallery):
    listed = {path.replace("d0", "{disorder_id:path}") for _, path in RIGHT_OF_ROUTE} | {*FOR_EVERYBODY}
    assert {route.path for route in service(Settings(gallery)).routes if isinstance(route, Route)} <= listed
    assert set(RIGHT_OF_ROUTE.values()) == set(RIGHTS) == set(NEEDED_RIGHT.values()) - {None}


def test_the_audit_log_names_the_person_and_not_what_is_typed(gallery, tokens, tmp_path):
    anna = add_people(tokens, ["anna"], USUAL_RIGHTS)["anna"]
    with client_of(gallery, tokens=tokens, audit=tmp_path / "audit.jsonl") as client:
        assert client.get("/v1/gallery", auth=("boris", anna)).status_code == 200
        assert client.post("/encode", auth=("boris", anna)).status_code == 403
        assert client.get("/v1/gallery", auth=("boris", "wrong")).status_code == 401
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line.get("person") for line in lines if line["event"] == "request"] == ["anna", "anna", None]
    assert "boris" not in (tmp_path / "audit.jsonl").read_text()


def test_a_revoked_token_ends_without_a_restart(gallery, tokens):
    given = add_people(tokens, ["anna", "boris"], USUAL_RIGHTS)
    with client_of(gallery, tokens=tokens) as client:
        for token in given.values():
            assert client.get("/v1/gallery", headers=bearer(token)).status_code == 200
        revoke_people(tokens, ["anna"])
        revoked, unknown = (client.get("/v1/gallery", headers=bearer(token)) for token in (given["anna"], "guess"))
        assert "mistyped, or revoked" in assert_problem(revoked, 401, "unknown-token")["detail"]
        assert revoked.content == unknown.content  # nobody learns that a token was once a person's
        assert {**revoked.headers, "date": ""} == {**unknown.headers, "date": ""}
        assert client.get("/v1/gallery", headers=bearer(given["boris"])).status_code == 200
        new = add_people(tokens, ["anna"], ["metrics"])["anna"]
        assert_problem(client.get("/v1/gallery", headers=bearer(given["anna"])), 401, "unknown-token")
        assert_problem(client.get("/v1/gallery", headers=bearer(new)), 403, "no-right")


@pytest.mark.parametrize("broken", ["gone", "open", "nonsense"])
def test_nobody_is_let_in_where_the_file_cannot_be_read(gallery, tokens, broken, capfd):
    anna = add_people(tokens, ["anna"], USUAL_RIGHTS)["anna"]
    with client_of(gallery, tokens=tokens) as client:
        content = tokens.read_text()
        if broken == "gone":
            tokens.unlink()
        else:
            tokens.write_text(content + ("boris\n" if broken == "nonsense" else "\n"[:0]))
            os.utime(tokens, ns=(1, 1))
            tokens.chmod(0o644 if broken == "open" else 0o600)
        problem = assert_problem(client.get("/v1/gallery", headers=bearer(anna)), 500, "tokens-unreadable")
        assert str(tokens) not in str(problem)
        assert "run 'mien tokens list'" in capfd.readouterr().err
        tokens.write_text(content)
        tokens.chmod(0o600)
        assert client.get("/v1/gallery", headers=bearer(anna)).status_code == 200


def test_ten_wrong_tokens_in_a_row_are_slowed_down(gallery, tokens):
    given = add_people(tokens, ["anna", "boris"], USUAL_RIGHTS)
    with client_of(gallery, tokens=tokens) as client:
        assert client.get("/v1/gallery", headers=bearer(given["anna"])).status_code == 200
        answers = [client.get("/v1/gallery", headers=bearer(f"guess-{number}")) for number in range(10)]
        assert [answer.status_code for answer in answers] == [401] * FREE + [429] * (10 - FREE)
        assert int(assert_waits(answers[-1])) >= 1
        # a new token from there waits as well: otherwise guessing would go on
        assert_waits(client.get("/v1/gallery", headers=bearer(given["boris"])))
        assert_problem(client.get("/v1/gallery"), 401, "no-token")
        assert client.get("/v1/gallery", headers=bearer(given["anna"])).status_code == 200  # was let in before
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=client.base_url, transport=elsewhere, trust_env=False) as other:
            assert other.get("/v1/gallery", headers=bearer(given["boris"])).status_code == 200


def assert_waits(response):
    assert_problem(response, 429, "wrong-tokens")
    return response.headers["retry-after"]


def test_each_wrong_token_doubles_the_wait_until_it_is_forgotten():
    clock = [0.0]
    wrong, waits = WrongTokens(now=lambda: clock[0]), []
    for _ in range(FREE + 8):
        wrong.count("address")
        waits.append(wrong.seconds_to_wait("address", None))
        clock[0] += waits[-1]
    assert waits == [0] * (FREE - 1) + [1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST]
    clock[0] += 3601
    wrong.count("another")
    assert list(wrong.wrong) == ["another"]
    for _ in range(2000):
        wrong.count("another")
    assert wrong.seconds_to_wait("another", None) == LONGEST


def test_addresses_without_number_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("mien.service.wrong_tokens.MOST_REMEMBERED", 10)
    wrong = WrongTokens()
    for number in range(50):
        wrong.count(str(number))
        wrong.remember(str(number), "hash")
    assert len(wrong.wrong) == len(wrong.let_in) == 10


def test_the_token_is_printed_once_and_stored_nowhere(mien, tokens):
    code, out, _ = mien("tokens", "add", tokens, "anna", "boris@clinic.example", "--rights", "rank,embeddings")
    assert code == 0
    printed = dict(line.split() for line in out.splitlines())
    assert list(printed) == ["anna", "boris@clinic.example"]
    assert all(len(token) >= 43 for token in printed.values())
    assert tokens.stat().st_mode & 0o777 == 0o600
    assert not any(token in tokens.read_text() for token in printed.values())
    assert mien("tokens", "list", tokens)[1] == "anna rank,embeddings\nboris@clinic.example rank,embeddings\n"
    assert json.loads(mien("tokens", "list", tokens, "--json")[1])["anna"] == ["rank", "embeddings"]
    assert mien("tokens", "revoke", tokens, "anna")[0] == 0
    assert mien("tokens", "list", tokens)[1] == "boris@clinic.example rank,embeddings\n"
    assert list(json.loads(mien("tokens", "add", tokens, "clara", "--json")[1])) == ["clara"]
    assert [path.name for path in tokens.parent.iterdir()] == ["tokens"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("add", "anna"), "has a token already"),
        (("add", "a b"), "a name has"),
        (("add", "../x\n"), "a name has"),
        (("add", "boris", "--rights", "rank,all"), "there is no right 'all'"),
        (("revoke", "boris"), "there is no 'boris'"),
        (("revoke", "anna", "boris"), "there is no 'boris'"),
    ],
)
def test_what_cannot_be_done_changes_nothing(mien, tokens, arguments, word):
    add_people(tokens, ["anna"], USUAL_RIGHTS)
    before = tokens.read_bytes()
    code, out, err = mien("tokens", arguments[0], tokens, *arguments[1:])
    assert (code, out) == (1, "")
    assert word in err
    assert tokens.read_bytes() == before


def test_lines_that_are_none_are_named(tokens):
    tokens.write_text(f"anna {'0' * 64} rank\nanna {'1' * 64} rank\nboris {'0' * 64} all\nclara secret rank\n")
    tokens.chmod(0o600)
    with pytest.raises(MienError) as refused:
        read_people(tokens)
    for word in ("line 2: anna is there twice", "line 3 is not", "line 4 is not"):
        assert word in str(refused.value)
    assert "secret" not in str(refused.value)


def test_no_flipped_bit_makes_somebody_else_of_a_person(tokens):
    token = add_people(tokens, ["anna"], ["rank", "gallery"])["anna"]
    whole = tokens.read_bytes()
    refused = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        tokens.write_bytes(damaged)
        try:
            holder = People(path=tokens).holder_of(token)
        except InvalidFileError:
            refused += 1
            continue
        assert holder is None or (holder.name, holder.rights) == ("anna", {"rank", "gallery"})
    assert refused > len(whole)


KILLED = """
import os, signal, sys
from pathlib import Path
from mien.service.tokens import add_people
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
add_people(Path(sys.argv[1]), ["boris"], ["rank"])
"""


def test_a_killed_change_leaves_no_file_for_ever(tokens):
    add_people(tokens, ["anna"], ["rank"])
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tokens)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(read_people(tokens)) == ["anna"]
    add_people(tokens, ["boris"], ["rank"])
    assert [path.name for path in tokens.parent.iterdir()] == ["tokens"]


def test_people_added_at_the_same_time_are_all_there(tokens):
    names = [f"person-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add_people(tokens, [name], USUAL_RIGHTS), names))
    assert sorted(read_people(tokens)) == sorted(names)


def test_one_token_or_many(mien, gallery, tokens, tmp_path):
    (tmp_path / "one").write_text("a-long-enough-token")
    (tmp_path / "one").chmod(0o600)
    add_people(tokens, ["anna"], USUAL_RIGHTS)
    serve = ("serve", "--gallery", gallery, "--port", "0")
    code, _, err = mien(*serve, "--tokens", tokens, "--token-file", tmp_path / "one")
    assert code == 1
    assert "not both" in err
    tokens.chmod(0o640)
    code, _, err = mien(*serve, "--tokens", tokens)
    assert code == 1
    assert "chmod 600" in err

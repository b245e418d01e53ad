from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mien import Gallery
from mien.errors import InvalidFileError, MienError
from mien.service.audit import FIRST, AuditLog, Head, verify_log

from services import TOKEN, as_form, client_of


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path, now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    for number in range(5):
        audit.write("request", route="/v1/rank", status=200, photos=number)
    audit.close()
    return path


def test_an_untouched_log_is_verified(log, mien):
    last = json.loads(log.read_text().splitlines()[-1])
    assert verify_log(log) == (Head(5, last["hash"]), 0)
    code, out, _ = mien("audit", "verify", log)
    assert code == 0
    assert last["hash"] in out.replace("\n", "")
    assert json.loads(mien("audit", "verify", log, "--json")[1]) == {"lines": 5, "head": last["hash"]}


CHANGES = {
    "a value": lambda lines: [*lines[:2], lines[2].replace('"photos": 2', '"photos": 9'), *lines[3:]],
    "a line gone": lambda lines: [*lines[:2], *lines[3:]],
    "the first gone": lambda lines: lines[1:],
    "two swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "one twice": lambda lines: [*lines[:2], lines[1], *lines[2:]],
    "not JSON": lambda lines: [*lines[:2], "x" + lines[2], *lines[3:]],
    "an empty line": lambda lines: [*lines[:2], "", *lines[2:]],
    "a list": lambda lines: [*lines[:2], "[]", *lines[2:]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_line_is_found(log, mien, change):
    lines = CHANGES[change](log.read_text().splitlines())
    log.write_text("\n".join(lines) + "\n")
    code, _, err = mien("audit", "verify", log)
    assert code == 1
    assert re.search(r"line \d was changed|line \d does not follow", err)


def test_every_changed_character_is_found(log):
    text = log.read_text()
    for place in range(0, len(text), 7):
        other = "0" if text[place] != "0" else "1"
        log.write_text(text[:place] + other + text[place + 1 :])
        with pytest.raises(InvalidFileError):
            verify_log(log)


def test_a_line_made_anew_needs_all_that_follow(log):
    from mien.service.audit import hash_of

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[2]["photos"] = 9
    lines[2]["hash"] = hash_of(lines[2])
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InvalidFileError, match="line 4 does not follow"):
        verify_log(log)


def test_lines_cut_off_at_the_end_are_found_by_a_noted_hash(log, mien):
    head = verify_log(log)[0].hash
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    assert verify_log(log)[0].number == 3
    code, _, err = mien("audit", "verify", log, "--head", head)
    assert code == 1
    assert "cut off" in err


def test_a_log_goes_on_after_a_restart_and_a_power_cut(log):
    with log.open("a") as file:
        file.write('{"number": 6, "ti')
    audit = AuditLog(log)
    audit.write("request", status=200)
    audit.close()
    assert verify_log(log)[0].number == 7
    assert json.loads(log.read_text().splitlines()[5])["bytes_cut_off"] == 17


def test_a_changed_log_is_not_continued(log):
    log.write_text(log.read_text().replace('"photos": 1', '"photos": 3'))
    with pytest.raises(InvalidFileError, match="line 2"):
        AuditLog(log)


@pytest.mark.parametrize("content", [b"no newline here", b"some\nother\nfile", b"{}\n", b"\x00" * 50, b"[" * 200_000])
def test_another_file_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidFileError):
        AuditLog(path)
    assert path.read_bytes() == content


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(MienError, match="not a file"):
            AuditLog(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b'"status": 200', b'"status": 500, "status": 200'),
        lambda line: line.replace(b"\n", b"\r\n"),
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: line.replace(b"\n", b" \n"),
        lambda line: line.replace(b"request", b"\\u0072equest"),
    ],
    ids=["a key twice", "line end", "byte-order mark", "blank", "another spelling"],
)
def test_a_line_that_means_the_same_is_changed_as_well(log, change):
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], change(lines[3]), *lines[4:]]))
    with pytest.raises(InvalidFileError, match="line 4 was changed"):
        verify_log(log)


def test_a_line_is_written_whole_or_not_at_all(log, monkeypatch):
    """A disk that takes half of it leaves the log as it was, and the next line follows the one before."""
    audit, before, write = AuditLog(log), log.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[: len(line) // 2]))
    with pytest.raises(OSError, match="No space left"):
        audit.write("request", status=200)
    assert log.read_bytes() == before
    monkeypatch.undo()
    audit.write("request", status=200)
    audit.close()
    assert verify_log(log)[0].number == 6


def test_two_services_do_not_share_a_log(log):
    audit = AuditLog(log)
    with pytest.raises(MienError, match="another service"):
        AuditLog(log)
    audit.close()
    AuditLog(log).close()


def test_a_new_log_begins_with_nothing(tmp_path):
    audit = AuditLog(tmp_path / "new.jsonl")
    assert audit.head == Head(0, FIRST)
    audit.close()
    assert (tmp_path / "new.jsonl").stat().st_mode & 0o777 == 0o600


def test_requests_are_recorded_without_anything_of_patients(people, tmp_path):
    directory, photos = people
    path = tmp_path / "audit.jsonl"
    basic = ("anna", TOKEN)
    with client_of(directory, audit=path, token=TOKEN) as client:
        secret = [("photos", ("Mary_Smith.jpg", photos[3][0], "image/jpeg"))]
        assert client.post("/v1/rank", files=secret, auth=basic).status_code == 200
        assert client.post("/v1/rank", files=as_form(b"GIF8"), auth=basic).status_code == 422
        assert client.post("/v1/rank", files=secret).status_code == 401
        assert client.get("/v1/disorders/d03", auth=basic).status_code == 200
        assert client.get("/v1/health", auth=basic).status_code == 200
        assert client.get("/v1/gallery", headers={"x-forwarded-for": "10.9.8.7"}).status_code == 401
    text = path.read_text()
    without_hashes = re.sub(r'"(previous|hash)": "[0-9a-f]+"', "", text)  # which may hold the letters of an id
    for private in ("Smith", "d03", "Drawn", "patient 3", TOKEN, "distance", "embedding"):
        assert private not in without_hashes
    events = [json.loads(line) for line in text.splitlines()]
    assert [event["event"] for event in events] == ["started", *["request"] * 5, "stopped"]
    assert [event.get("status") for event in events[1:6]] == [200, 422, 401, 200, 401]
    assert {event.get("client") for event in events[1:6]} == {"127.0.0.1"}
    first = events[1]
    assert (first["person"], first["route"], first["photos"], first["generation"]) == ("token holder", "/v1/rank", 1, 1)
    assert "anna" not in text  # a name that anybody can type
    assert verify_log(path)[0].number == 7


def test_what_cannot_be_recorded_is_not_answered(gallery, tmp_path, monkeypatch):
    with client_of(gallery, audit=tmp_path / "audit.jsonl") as client:
        assert client.get("/v1/gallery").status_code == 200
        monkeypatch.setattr(AuditLog, "write", _full)
        assert client.get("/v1/gallery").status_code == 503
        monkeypatch.undo()


def _full(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_new_generation_is_recorded(gallery, tmp_path):
    path = tmp_path / "audit.jsonl"
    with client_of(gallery, audit=path) as client:
        Gallery.remove_patients(gallery, [Gallery.open(gallery).roster.patient_ids[0]])
        for _ in range(1200):
            if "new generation" in path.read_text():
                break
            client.get("/v1/health")
            time.sleep(0.05)
    assert "new generation" in path.read_text()

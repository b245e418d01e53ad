from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mien import Gallery

from cohorts import random_cohort


@pytest.fixture
def gallery(tmp_path, rng):
    Gallery.build(tmp_path / "gallery", random_cohort(rng))
    return tmp_path / "gallery"


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("a-long-enough-token\n")
    path.chmod(0o600)
    return path


def test_another_address_than_loopback_needs_a_token(mien, gallery):
    code, _, err = mien("serve", "--gallery", gallery, "--host", "0.0.0.0", "--port", "0")
    assert code == 1
    assert "give a token (--token-file)" in err


def test_any_address_needs_a_name(mien, gallery, token_file):
    code, _, err = mien("serve", "--gallery", gallery, "--host", "0.0.0.0", "--token-file", token_file, "--port", "0")
    assert code == 1
    assert "--name" in err


def test_tokens_must_be_good_and_private(mien, gallery, token_file, tmp_path):
    serve = ("serve", "--gallery", gallery, "--port", "0", "--token-file")
    token_file.chmod(0o644)
    code, _, err = mien(*serve, token_file)
    assert code == 1
    assert "chmod 600" in err
    token_file.chmod(0o600)
    for content in ("", "short", "päßwörter sind länger als sechzehn"):
        token_file.write_text(content)
        code, _, err = mien(*serve, token_file)
        assert code == 1
        assert "at least 16 characters" in err
    code, _, err = mien(*serve, tmp_path / "nowhere")
    assert code == 1
    assert "No such file" in err


def test_what_cannot_be_served_is_refused_at_once(mien, gallery, tmp_path):
    code, _, err = mien("serve", "--gallery", tmp_path / "nowhere", "--port", "0")
    assert code == 1
    assert "holds no gallery" in err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = mien("serve", "--gallery", gallery, "--port", taken.getsockname()[1])
    assert code == 1
    assert "choose another --port" in err
    code, _, err = mien("serve", "--gallery", gallery, "--port", "0", "--certificate", tmp_path / "c.pem")
    assert code == 2
    assert "--key" in err
    code, _, err = mien("serve", "--gallery", gallery, "--port", "0", "--encoder", "no-such-encoder")
    assert code == 1
    assert "no encoder" in err


def test_certificates_are_tried_before_anything_listens(mien, gallery, tmp_path):
    (tmp_path / "c.pem").write_text("no certificate")
    for key in ("nowhere.pem", "c.pem"):
        given = ("--certificate", tmp_path / "c.pem", "--key", tmp_path / key)
        code, out, err = mien("serve", "--gallery", gallery, "--port", "0", *given)
        assert (code, out) == (1, "")
        assert key in err


def test_a_log_that_cannot_be_written_is_refused_at_once(mien, gallery, tmp_path):
    code, out, err = mien("serve", "--gallery", gallery, "--port", "0", "--audit", gallery / "gallery.sqlite")
    assert (code, out) == (1, "")
    assert "no line of an audit log" in err
    assert mien("gallery", "verify", gallery)[0] == 0


SMALL_DEMO = """
from mien.cli.main import main
from mien.service import demo
from studies import small_gmdb

demo.simulated_gmdb = small_gmdb
main()
"""


@pytest.mark.parametrize(
    ("program", "number"),
    [
        (["-c", SMALL_DEMO], signal.SIGHUP),  # it is passed on as SIGTERM: both handlers run
        *(
            pytest.param(["-c", SMALL_DEMO], number, marks=pytest.mark.long)
            for number in (signal.SIGINT, signal.SIGTERM)
        ),
        pytest.param(["-m", "mien"], signal.SIGTERM, marks=pytest.mark.long),
    ],
    ids=["SIGHUP", "SIGINT", "SIGTERM", "the whole demo"],
)
def test_the_demo_leaves_nothing_behind(tmp_path, program, number):
    command = [sys.executable, *program, "demo", "--serve", "--port", "0"]
    places = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(places)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as demo:
        try:
            address = re.search(r"http://\S+(?=/)", demo.stdout.readline())[0]
            assert "nobody here exists" in httpx.get(address, trust_env=False).text
            assert list(tmp_path.iterdir())
        finally:
            demo.send_signal(number)
        assert demo.wait(30) == 0
        assert demo.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []

"""The unit and the container: checked as far as that goes without running systemd or a container engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from mien import Gallery
from mien.service.server import bound_socket
from mien.service.tokens import add_people

from cohorts import families
from services import serving

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "mien.service"
MOST_EXPOSURE = 15  # tenths, as systemd counts; an unprotected service has 96


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that is on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: Debian's package is systemd")
    path = tmp_path / "mien.service"
    path.write_text(UNIT.read_text().replace("/opt/mien/bin/mien", str(Path(sys.executable).with_name("mien"))))
    return path


def analyzed(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_systemd_understands_the_unit(unit):
    ended = analyzed("verify", str(unit))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_systemd_finds_the_unit_well_protected(unit):
    ended = analyzed("security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", str(unit))
    if "unrecognized option" in ended.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit that is not loaded: it needs version 250")
    assert ended.returncode == 0, ended.stdout


def test_the_unit_protects_what_must_be_protected():
    settings = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), flags=re.MULTILINE):
        settings.setdefault(name, []).append(value)
    for name, value in {"ProtectSystem": "strict", "NoNewPrivileges": "yes", "LimitCORE": "0", "User": "mien"}.items():
        assert settings[name] == [value]
    assert settings["MemoryMax"]
    assert settings["IPAddressDeny"] == ["any"]


def instructions():
    """(name, rest) of each line of the Containerfile."""
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def test_both_run_a_service_that_these_files_start(tmp_path):
    """Their commands, with this machine's files and a port that is free."""
    [unit_command] = re.findall(r"^ExecStart=\S+ (.*)$", UNIT.read_text(), flags=re.MULTILINE)
    [container_command] = [json.loads(rest) for name, rest in instructions() if name == "CMD"]
    for command, where in ((shlex.split(unit_command), "/var/lib/mien"), (container_command, "/data")):
        data = tmp_path / where[1:]
        Gallery.build(data / "gallery", families(np.random.default_rng(1)))
        add_people(data / "tokens", ["anna"], ["rank"])
        arguments = [each.replace(where, str(data)).replace("0.0.0.0", "127.0.0.1") for each in command]
        assert_serves([sys.executable, "-m", "mien"], arguments)
        assert (data / "audit.jsonl").exists()


def assert_serves(program, arguments):
    started = subprocess.Popen(
        [*program, *arguments, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert "mien is at http://127.0.0.1:" in started.stdout.readline()
    finally:
        started.terminate()
        started.communicate()


@pytest.fixture
def proxied(tmp_path):
    """The address of an nginx with our configuration, on ports of loopback, before a service with tokens."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=mien.clinic.example"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([*make, *files], check=True, capture_output=True)
    Gallery.build(tmp_path / "gallery", families(np.random.default_rng(1)))
    token = add_people(tmp_path / "tokens", ["anna"], ["rank"])["anna"]
    with bound_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    settings = {"tokens": tmp_path / "tokens", "audit": tmp_path / "audit.jsonl", "names": ("mien.clinic.example",)}
    with serving(tmp_path / "gallery", **settings) as address:
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        for ours, here in {
            "/etc/ssl/mien": str(tmp_path),
            "/var/log/nginx": str(tmp_path),
            "listen 443": f"listen 127.0.0.1:{port}",
            "http://127.0.0.1:5000": address,
        }.items():
            assert ours in text
            text = text.replace(ours, here)
        folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi"))
        folders += "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("uwsgi", "scgi"))
        head = f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}"
        (tmp_path / "nginx.conf").write_text(f"{head} http {{ {folders}\n{text}\n}}")
        command = [nginx, "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "error.log")]
        with subprocess.Popen(command) as proxy:
            try:
                while not (tmp_path / "pid").exists():
                    assert proxy.poll() is None, (tmp_path / "error.log").read_text()
                yield f"https://127.0.0.1:{port}", {"host": "mien.clinic.example", "authorization": f"Bearer {token}"}
            finally:
                proxy.terminate()


def test_the_proxy_passes_requests_on_and_keeps_none_of_them(proxied, tmp_path):
    address, headers = proxied
    # made for this test, by nobody: there is nothing to verify
    with httpx.Client(base_url=address, headers=headers, verify=False, trust_env=False, timeout=60) as client:
        page = client.get("/", headers={"origin": "https://mien.clinic.example"})
        assert page.status_code == 200
        assert page.headers["strict-transport-security"]
        query = {"embeddings": [[[1.0] * 24]] * 9000, "patient_id": "secret-patient"}
        assert len(json.dumps(query)) > 1_000_000  # more than nginx keeps in memory
        assert client.post("/v1/rank/embeddings", json={**query, "embeddings": query["embeddings"][:1]}).is_success
        assert client.post("/v1/rank/embeddings", json=query).status_code in {413, 422, 429}
        assert client.get("/v1/disorders/secret-disorder").status_code == 403
    assert not any((tmp_path / "client_body").iterdir())
    log = (tmp_path / "mien.log").read_text()
    assert "secret" not in log
    assert log
    audited = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {line["client"] for line in audited if "client" in line} == {"127.0.0.1"}  # the proxy's


def test_the_container_is_built_in_two_stages_and_needs_no_root():
    names = [name for name, _ in instructions()]
    assert names.count("FROM") == 2
    assert "ADD" not in names
    last_stage = instructions()[names.index("FROM", 1) :]
    assert {name for name, _ in last_stage} <= {"FROM", "COPY", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
    [user] = [rest for name, rest in last_stage if name == "USER"]
    assert all(int(number) >= 10_000 for number in user.split(":"))
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            assert all((ROOT / source).exists() for source in rest.split()[:-1])


@pytest.mark.long
def test_the_steps_of_the_container_give_a_program_that_serves(tmp_path):
    """COPY and RUN of both stages in a plain folder in the place of /; it installs mien with all that it needs."""
    root, stages = tmp_path / "root", {}

    def inside(text):
        return re.sub(r"(?<![\w/.])/(?=(src|opt)\b)", f"{root}/", text)

    for name, rest in instructions():
        if name == "FROM":
            if root.exists():
                stages["build"] = root.rename(tmp_path / "build")
            root.mkdir()
        elif name == "COPY":
            *sources, target = rest.split()
            here = ROOT
            if sources[0].startswith("--from="):
                here = stages[sources.pop(0).removeprefix("--from=")]
            for source in sources:
                copy(here / source.lstrip("/"), root / target.lstrip("/"), into=target.endswith("/"))
        elif name == "RUN":
            quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            subprocess.run(inside(rest), shell=True, check=True, env=quiet, cwd=root)
    [[program]] = [json.loads(rest) for name, rest in instructions() if name == "ENTRYPOINT"]
    program = root / program.lstrip("/")
    Gallery.build(tmp_path / "gallery", families(np.random.default_rng(1)))
    assert not (root / "src").exists()
    assert_serves([str(program)], ["serve", "--gallery", str(tmp_path / "gallery")])


def copy(source, target, *, into):
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        target.mkdir(parents=True, exist_ok=True) if into else target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

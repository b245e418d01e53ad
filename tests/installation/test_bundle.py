"""An installation without a network: from the bundle, checked, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "install.sh"
NO_NETWORK = {
    "PIP_NO_INDEX": "1",
    **dict.fromkeys(["PIP_INDEX_URL", "UV_INDEX_URL", "http_proxy", "https_proxy"], "http://127.0.0.1:9/"),
}


def run(*command, folder):
    """Runs a command as somebody would who has only the bundle."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    environment |= {**NO_NETWORK, "PYTHON": sys.executable, "MIEN_CACHE": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def listed(bundle):
    """Writes the list of hashes anew."""
    files = sorted(path for path in bundle.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    hashes = {path.relative_to(bundle): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (bundle / "SHA256SUMS").write_text("".join(f"{value}  {path}\n" for path, value in hashes.items()))


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture
def small_bundle(tmp_path):
    """The files that the script looks at first, and one wheel, which is none."""
    folder = tmp_path / "small"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "a.whl").write_bytes(b"some wheel")
    (folder / "install.sh").write_bytes(SCRIPT.read_bytes())
    (folder / "PLATFORM").write_text("cpython-27 amiga\n")
    listed(folder)
    return folder


def test_a_bundle_with_a_changed_byte_is_refused(small_bundle, tmp_path):
    change_a_byte(small_bundle / "wheels" / "a.whl")
    refused = run("sh", small_bundle / "install.sh", "here", folder=tmp_path)
    assert refused.returncode == 1
    assert "wheels/a.whl: FAILED" in refused.stdout
    assert "the bundle is damaged or was changed" in refused.stderr
    assert not (tmp_path / "here").exists()


def test_a_bundle_for_another_python_is_refused(small_bundle, tmp_path):
    refused = run("sh", small_bundle / "install.sh", "here", folder=tmp_path)
    assert refused.returncode == 1
    assert "this bundle is for cpython-27 amiga" in refused.stderr
    assert not (tmp_path / "here").exists()


def test_a_file_that_is_not_listed_is_refused(small_bundle, tmp_path):
    (small_bundle / "wheels" / "b.whl").write_bytes(b"another wheel")
    refused = run("sh", small_bundle / "install.sh", "here", folder=tmp_path)
    assert refused.returncode == 1
    assert "wheels/b.whl" in refused.stderr
    assert "not in SHA256SUMS" in refused.stderr
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("name", ["here", "-"])
def test_the_folder_is_the_one_that_was_named(small_bundle, tmp_path, monkeypatch, name):
    (tmp_path / "elsewhere" / name).mkdir(parents=True)
    monkeypatch.setenv("CDPATH", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("OLDPWD", str(tmp_path / "elsewhere"))
    refused = run("sh", "small/install.sh", name, folder=tmp_path)
    assert "this bundle is for cpython-27 amiga" in refused.stderr
    assert not (tmp_path / name).exists()
    assert (tmp_path / "elsewhere" / name).exists()


def test_a_folder_that_exists_is_left_alone(small_bundle, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    refused = run("sh", small_bundle / "install.sh", "here", folder=tmp_path)
    assert refused.returncode == 2
    assert "FOLDER must not exist" in refused.stderr
    assert (tmp_path / "here" / "file").exists()


@pytest.mark.long
def test_the_bundle_is_installed_without_an_index_and_runs_the_demo(bundle, tmp_path):
    installed = run("sh", bundle / "install.sh", "here", folder=tmp_path)
    assert installed.returncode == 0, installed.stderr
    programs = tmp_path / "here" / "bin"
    assert run(programs / "pip", "check", folder=tmp_path).returncode == 0
    shown = run(programs / "mien", "demo", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "2. One patient with 3 photos" in shown.stdout
    assert "sound" in run(programs / "mien", "weights", "verify", folder=tmp_path).stdout


@pytest.mark.long
def test_a_wheel_that_is_not_the_locked_one_is_refused_even_with_its_hash_in_the_list(bundle, tmp_path):
    [wheel] = (bundle / "wheels").glob("typer-*.whl")
    change_a_byte(wheel)
    refused = run("sh", bundle / "install.sh", "here", folder=tmp_path)
    assert (refused.returncode, f"wheels/{wheel.name}: FAILED" in refused.stdout) == (1, True)
    listed(bundle)
    refused = run("sh", bundle / "install.sh", "here", folder=tmp_path)
    assert refused.returncode == 1
    assert "DO NOT MATCH THE HASHES" in refused.stderr
    assert not (tmp_path / "here").exists()

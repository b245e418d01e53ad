"""No output is written over in silence: it is refused, and --force replaces it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import typer
from PIL import Image

from mien import Gallery
from mien.cli.main import app
from mien.encoding.store import stored_encoder
from mien.errors import MienError
from mien.storage.formats.cohort_parquet import write_cohort_parquet
from mien.storage.outputs import refuse_existing

from cohorts import random_cohort
from pictures import two_portraits

KEPT = b"somebody's only copy"


@pytest.fixture
def lab(tmp_path, rng):
    """A gallery, its table and a portrait."""
    cohort = random_cohort(rng, disorders=4, representations=2, dimensions=6)
    write_cohort_parquet(
        tmp_path / "c.parquet", cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images]
    )
    Gallery.build(tmp_path / "gallery", cohort)
    Image.fromarray(two_portraits()[:, :300]).save(tmp_path / "portrait.png")
    return tmp_path


def commands(lab):
    """Every command that writes a file of the user's choice."""
    return {
        "rank": ("rank", "--gallery", lab / "gallery", "--encodings", lab / "c.parquet", "--out", lab / "out.tsv"),
        "export": ("gallery", "export", lab / "gallery", "--out", lab / "out.parquet"),
        "encode": ("encode", lab / "portrait.png", "--out", lab / "out.parquet"),
        "convert": (
            "weights",
            "convert",
            stored_encoder("mobilefacenet").folder / "m0.onnx",
            "--out",
            lab / "out.onnx",
        ),
    }


@pytest.mark.parametrize("name", ["rank", "export", "encode", "convert"])
def test_a_file_that_exists_is_refused_and_replaced_by_force(mien, lab, default_encoder, name):
    command = commands(lab)[name]
    out = command[-1]
    out.write_bytes(KEPT)
    before = sorted(lab.iterdir())
    code, printed, err = mien(*command)
    assert (code, printed) == (1, "")
    assert f"{out} exists already" in err
    assert "--force" in err
    assert out.read_bytes() == KEPT
    assert sorted(lab.iterdir()) == before
    assert mien(*command, "--force")[0] == 0
    assert out.read_bytes() != KEPT


def test_a_run_that_was_cut_off_goes_on_without_force(mien, lab, default_encoder, monkeypatch):
    command = commands(lab)["encode"]
    monkeypatch.setattr("mien.storage.loading.write_encodings", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert mien(*command)[0] == 130
    monkeypatch.undo()
    assert (lab / "out.parquet.partial").exists()
    assert mien(*command)[0] == 0
    assert len(pq.read_table(lab / "out.parquet")) == 1
    (lab / "out.parquet").rename(lab / "mine.parquet")
    code, _, err = mien(*command)  # the table of photos of what is called mine now
    assert code == 1
    assert "out.parquet.photos.csv exists already" in err


def test_a_network_of_an_encoder_is_not_replaced_by_another_one(mien, default_encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path))
    detector, other = (tmp_path / name for name in ("detector.onnx", "other.onnx"))
    shutil.copy(default_encoder.folder / "retinaface.onnx", detector)
    shutil.copy(detector, other)
    other.write_bytes(
        other.read_bytes() + b"\x72\x02hi"
    )  # a field of ONNX that says nothing: other bytes, same network
    convert = ("weights", "convert", "--as", "gm-arc/detector")
    for _ in range(2):
        assert mien(*convert, detector)[0] == 0
    stored = tmp_path / "gm-arc" / "retinaface.onnx"
    code, _, err = mien(*convert, other)
    assert code == 1
    assert f"{stored} exists already" in err
    assert stored.read_bytes() == detector.read_bytes()
    stored.write_bytes(b"damaged")
    assert mien(*convert, detector)[0] == 0  # which is what the advice on a damaged one says
    assert mien(*convert, other, "--force")[0] == 0
    assert stored.read_bytes() == other.read_bytes()


def test_links_and_folders_are_there_too_but_an_empty_folder_is_free(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    refuse_existing(tmp_path / "new")
    refuse_existing(tmp_path / "empty")
    for name in ("full", "link"):
        with pytest.raises(
            MienError, match=f"{name} exists already: choose another name, or write over it with --force"
        ):
            refuse_existing(tmp_path / name)
        refuse_existing(tmp_path / name, force=True)


def test_every_command_with_an_output_has_force():
    def leaves(command, name=""):
        for child in getattr(command, "commands", {}).values():
            yield from leaves(child, f"{name} {child.name}".strip())
        if not hasattr(command, "commands"):
            yield name, {parameter.name for parameter in command.params}

    with_output = {name: names for name, names in leaves(typer.main.get_command(app)) if "out" in names}
    assert {"encode", "rank", "gallery export", "simulate", "train", "weights convert"} <= set(with_output)
    assert {name for name, names in with_output.items() if "force" not in names} == {"gallery backup"}  # always new


@pytest.mark.parametrize("suffix", [".json", ".tsv", ".parquet"])
def test_what_names_patients_is_for_its_owner_and_follows_no_link(mien, lab, suffix):
    out, victim = lab / f"out{suffix}", lab / "victim"
    victim.write_bytes(KEPT)
    out.symlink_to(victim)
    out.with_name(f"{out.name}.new").symlink_to(victim)
    rank = ("rank", "--gallery", lab / "gallery", "--encodings", lab / "c.parquet", "--out", out, "--force")
    assert mien(*rank)[0] == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert not out.is_symlink()
    assert victim.read_bytes() == KEPT


def test_encoded_photos_are_for_their_owner_and_follow_no_link(mien, lab, default_encoder):
    victim = lab / "victim"
    victim.touch()
    (lab / "out.parquet.partial").symlink_to(victim)
    assert mien(*commands(lab)["encode"])[0] == 1
    assert victim.read_bytes() == b""
    (lab / "out.parquet.partial").unlink()
    assert mien(*commands(lab)["encode"])[0] == 0
    assert {path.stat().st_mode & 0o777 for path in lab.glob("out.*")} == {0o600}


def test_a_figure_is_for_its_owner(tmp_path):
    from mien.evaluation.calibration_measures import ReliabilityPoint
    from mien.report.reliability import write_reliability

    points = [ReliabilityPoint(set="all", said=0.5, right=0.5, patients=3)]
    for suffix in ("png", "svg", "pdf"):
        write_reliability(tmp_path / f"figure.{suffix}", points, simulated=True)
        assert (tmp_path / f"figure.{suffix}").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "command", [["--help"], ["weights", "list"], ["weights", "list", "--json"], ["tokens", "--help"]]
)
def test_a_reader_who_has_enough_is_no_error(command):
    """As `mien ... | head`: the pipe is closed before anything is read."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "mien", *command], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert ended.stderr == b""
    assert ended.returncode == 141


def test_a_name_that_looks_like_markup_is_printed_as_it_is(mien, tmp_path):
    log = tmp_path / "x[" / "b].jsonl"
    log.parent.mkdir()
    log.touch()
    code, out, err = mien("audit", "verify", log)
    assert (code, err) == (0, "")
    assert f"{log}: 0 lines, none changed" in out

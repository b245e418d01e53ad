"""Galleries that earlier versions wrote: each opens, is upgraded, is verified, and gives back what was put in.

`older_galleries/README.md` says how they were made.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from mien import Gallery, Query, rank
from mien.storage.database import FORMAT
from mien.storage.gallery import state_of
from mien.storage.loading import Source, load_cohort
from mien.storage.verification import problems

OLDER = Path(__file__).parent / "older_galleries"
FORMATS = {  # which each has, and what is in it beside the cohort
    "format-1-first": (1, set()),
    "format-1-calibrated": (1, {"learned"}),
    "format-2-first": (2, {"learned"}),
    "format-2-described": (2, {"learned", "described"}),
}


@pytest.fixture(params=FORMATS)
def older(request, tmp_path):
    with tarfile.open(OLDER / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path / "gallery", filter="data")
    return tmp_path / "gallery", *FORMATS[request.param]


def cohort_of(path):
    return load_cohort(Source(path), lambda *_: None)[0]


def content(cohort):
    """Labels, and embeddings by image."""
    embeddings = {name: row.tolist() for name, row in zip(cohort.roster.image_ids, cohort.embeddings, strict=True)}
    return sorted(cohort.roster.labels()), embeddings


def answer(directory):
    query = Query.of(np.random.default_rng(1).standard_normal((2, 1, 8)))
    return rank(Gallery.open(directory), query, top=None)


def test_every_earlier_format_is_kept_and_small():
    assert {path.name.removesuffix(".tar.gz") for path in OLDER.glob("*.tar.gz")} == FORMATS.keys()
    assert {number for number, _ in FORMATS.values()} == set(range(1, FORMAT + 1))
    assert all(path.stat().st_size < 60_000 for path in OLDER.iterdir())


def test_it_is_exported_as_it_is(older, tmp_path, mien):
    directory, number, _ = older
    assert mien("gallery", "export", directory, "--out", tmp_path / "out.parquet")[0] == 0
    assert content(cohort_of(tmp_path / "out.parquet")) == content(cohort_of(OLDER / "cohort.csv"))
    assert state_of(directory).format == number  # reading changes nothing


def test_it_is_upgraded_when_asked_and_gives_back_what_was_put_in(older, tmp_path, mien):
    directory, number, beside = older
    before = state_of(directory)
    assert before.format == number
    code, out, err = mien("gallery", "upgrade", directory)
    assert (code, err) == (0, "")
    assert f"format {FORMAT}" in out
    assert f"before: {number}" in out or number == FORMAT
    now = state_of(directory)
    assert (now.format, now.generation, now.fingerprint) == (FORMAT, before.generation, before.fingerprint)
    assert {name for name in ("learned", "described") if getattr(now, name)} == beside
    assert list(problems(directory)) == []
    mien("gallery", "export", directory, "--out", tmp_path / "out.parquet")
    assert content(cohort_of(tmp_path / "out.parquet")) == content(cohort_of(OLDER / "cohort.csv"))
    assert "as before" in mien("gallery", "upgrade", directory)[1]


def test_it_answers_like_a_gallery_that_is_built_now(older, tmp_path):
    directory, _, _ = older
    Gallery.build(tmp_path / "now", cohort_of(OLDER / "cohort.csv"))
    [found], [expected] = answer(directory), answer(tmp_path / "now")
    named = [(line.disorder_id, line.distance, line.nearest_image_id) for line in found.disorders]
    assert named == [(line.disorder_id, line.distance, line.nearest_image_id) for line in expected.disorders]
    assert state_of(directory).fingerprint == state_of(tmp_path / "now").fingerprint


def test_it_is_backed_up_as_it_is_and_restored(older, tmp_path, mien):
    directory, number, _ = older
    assert mien("gallery", "backup", directory, "--out", tmp_path / "backup")[0] == 0
    assert state_of(tmp_path / "backup").format == number
    assert mien("gallery", "restore", tmp_path / "backup", tmp_path / "restored")[0] == 0
    assert state_of(tmp_path / "restored").format == FORMAT
    assert answer(tmp_path / "restored") == answer(directory)

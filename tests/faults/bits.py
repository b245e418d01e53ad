"""Flipped bits: refused by name, named by verify, repaired loudly, or without effect on any answer."""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
import traceback
from contextlib import closing, suppress
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mien import Cohort, Encodings, Gallery
from mien.errors import MienError
from mien.service.tokens import People, add_people
from mien.storage.verification import problems

from cohorts import families
from faults.children import command, result, results
from faults.operations import answer, first_cohort
from faults.tally import Tally

SMALL = 4096  # files of fewer bytes are small
NUMBERS = 6144  # of an embedding of the large gallery, as GM-Arc's has: its rows stay in their file


class Case(NamedTuple):
    """A bit of a file."""

    path: Path  # in the folder that is copied
    what: str
    bit: int


def small_gallery(folder):
    """A gallery so small that every bit of its index can be flipped."""
    rows = np.random.default_rng(4).standard_normal((5, 24)).astype(np.float32)
    disorders = ["a", "a", "a", "b", "b"]
    cohort = Cohort.of(rows, image_ids=list("12345"), patient_ids=list("ppqrs"), disorder_ids=disorders)
    Gallery.build(folder / "gallery", cohort)


def calibrated_gallery(folder):
    """A gallery with what was learned from it."""
    Gallery.build(folder / "gallery", first_cohort())
    assert command("calibrate", "--gallery", folder / "gallery").code == 0


def large_gallery(folder):
    """A gallery whose rows stay in their file, and whose last import lies in SQLite's log, as after a power cut."""

    def wide(cohort):
        embeddings = np.tile(cohort.embeddings, NUMBERS // cohort.embeddings.shape[2])
        return Cohort.join(Encodings.of(cohort.encodings.image_ids, embeddings), cohort.roster.labels())

    first = folder / "first"
    Gallery.build(first, wide(families(np.random.default_rng(1), patients=22)))
    with closing(sqlite3.connect(first / "gallery.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM image").fetchone()
        Gallery.add(first, wide(families(np.random.default_rng(2), patients=1, prefix="more-")))
        shutil.copytree(first, folder / "gallery", ignore=shutil.ignore_patterns("*-shm"))
    shutil.rmtree(first)


def small_bits(most, seed, folder):
    """Every bit of small files, and of what the database says of itself; at most so many of them."""
    result(small_gallery, _made(folder / "small"))
    tokens = add_people(folder / "small" / "tokens", ["anna", "boris"], ["rank", "gallery"])
    cases = []
    for path in sorted((folder / "small").rglob("*")):
        if path.is_file() and path.stat().st_size < SMALL:
            what = re.sub(r"index-\d+\.(?!json)\w+", "matrices of the index", path.name)
            cases += [Case(path, what, bit) for bit in range(8 * path.stat().st_size)]
    result(calibrated_gallery, _made(folder / "calibrated"))
    path, calibrated = (folder / name / "gallery" / "gallery.sqlite" for name in ("small", "calibrated"))
    data, learned = path.read_bytes(), calibrated.read_bytes().index(b"calibration {")
    with closing(sqlite3.connect(calibrated)) as database:
        [(length,)] = database.execute("SELECT length(name) + length(document) FROM learned")
    described = data.index(b'{"representations"')
    for file, what, start, end in (
        (path, "gallery.sqlite: header", 0, 100),
        (path, "gallery.sqlite: state, encoder", described - 90, data.index(b"}", described) + 33),
        (calibrated, "gallery.sqlite: calibration", learned, learned + length),
    ):
        cases += [Case(file, what, bit) for bit in range(8 * start, 8 * end)]
    if len(cases) > most:
        cases = [cases[number] for number in np.random.default_rng(seed).choice(len(cases), most, replace=False)]
    return _flipped("bit of small files", cases, folder, tokens)


def large_bits(count, seed, folder):
    """Random bits of large files, of each as many."""
    result(large_gallery, _made(folder / "large"))
    files = sorted(path for path in (folder / "large" / "gallery").iterdir() if path.stat().st_size >= SMALL)
    places = [(path, path.name, 0, path.stat().st_size) for path in files]
    rng = np.random.default_rng(seed)
    drawn = [places[number % len(places)] for number in range(count)]
    cases = [Case(path, what, int(rng.integers(8 * start, 8 * end))) for path, what, start, end in drawn]
    return _flipped("bit of large files", cases, folder, {})


def _flipped(kind, cases, folder, tokens):
    tally = Tally(kind, len(cases))
    before = {}
    for name in {case.path.relative_to(folder).parts[0] for case in cases}:
        before[name] = result(answer, shutil.copytree(folder / name, folder / "work") / "gallery")
        assert "all" in before[name], before
        shutil.rmtree(folder / "work")

    def examine(case):
        shutil.rmtree(folder / "work", ignore_errors=True)
        begin = case.path.relative_to(folder).parts[0]
        damaged = shutil.copytree(folder / begin, folder / "work") / case.path.relative_to(folder / begin)
        with damaged.open("r+b") as file:
            file.seek(case.bit // 8)
            [byte] = file.read(1)
            file.seek(case.bit // 8)
            file.write(bytes([byte ^ 1 << case.bit % 8]))
        try:
            if damaged.name == "tokens":
                return _of_tokens(damaged, tokens)
            return _of_gallery(damaged.parent, before[begin])
        except MienError as error:
            return "refused", str(error)
        except Exception:
            return "fault: traceback", traceback.format_exc()

    for case, found in zip(cases, results(examine, cases), strict=True):
        outcome, detail = found if isinstance(found, list) else (f"fault: {found}", "")
        tally.count(case.what, outcome, case.bit, detail)
    return tally


def _of_tokens(path, tokens):
    """Whether every token still opens the doors of its owner, or none."""
    people = People(path=path)
    for name, token in tokens.items():
        holder = people.holder_of(token)
        if holder is None:
            return "token refused", name
        if (holder.name, holder.rights) != (name, {"rank", "gallery"}):
            return "fault: another person or other rights", str(holder)
    return "harmless", ""


def _of_gallery(directory, before):
    said = StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("mien").addHandler(handler)
    try:
        now = answer(directory)
    except MienError as error:
        with suppress(MienError):
            list(problems(directory))  # it may refuse it too
        return "refused" if str(directory) in str(error) else "fault: refused without a name", str(error)
    finally:
        logging.getLogger("mien").removeHandler(handler)
    if "anew" in said.getvalue():
        return ("repaired", "") if now == before else ("fault: repaired to something else", said.getvalue())
    try:
        found = list(problems(directory))
    except MienError as error:
        found = [str(error)]
    if found:
        return "named by verify", found[0]
    return ("harmless", "") if now == before else ("fault: another answer, and verify calls it sound", str(now))


def _made(folder):
    folder.mkdir()
    return folder

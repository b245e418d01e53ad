"""The commands that are interrupted: each is one entry here, with what it begins with and what can be seen of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from mien import Cohort, Gallery, Query, rank
from mien.core.method import FULL
from mien.errors import GalleryError
from mien.report.rankings import ranking_document
from mien.service.tokens import add_people, read_people
from mien.storage.backup import back_up
from mien.storage.formats.cohort_parquet import write_cohort_parquet
from mien.storage.index_files import index_paths

from cohorts import families

REMOVED = "p2-3"  # a patient with two photos, as every third has


def first_cohort():
    return families(np.random.default_rng(1))


def second_cohort():
    return families(np.random.default_rng(2), patients=4, prefix="more-")


def queries(numbers):
    """Three patients who are in no gallery, with embeddings of so many numbers."""
    others = np.tile(families(np.random.default_rng(3), disorders=3, patients=1).embeddings, numbers // 24)
    return [Query.of(others[row : row + 2]) for row in (0, 2, 4)]


def answer(directory):
    """Who is in a gallery, and a hash of all it says; None where no build was finished."""
    try:
        gallery = Gallery.open(directory)
    except GalleryError as error:
        if "holds no gallery" in str(error) or "never finished" in str(error):
            return None
        raise
    if not gallery.roster.image_ids:
        return None
    patients = {}
    for image_id, patient_id, disorder_id in sorted(gallery.roster.labels()):
        patients.setdefault(patient_id, []).append([image_id, disorder_id])
    document = ranking_document(rank(gallery, queries(gallery.encoder.dimensions), top=None), gallery, FULL)
    text = json.dumps([document, gallery.fingerprint, str(gallery.descriptions)], sort_keys=True, default=str)
    return {"patients": patients, "all": hashlib.sha256(text.encode()).hexdigest()}


def bytes_of_removed(folder):
    """Files in which something of the removed patient is left."""
    cohort = first_cohort()
    patient = cohort.roster.patient_ids.index(REMOVED)
    images = np.flatnonzero(cohort.roster.patient_of_image == patient)
    rows = cohort.embeddings[images]
    patterns = [REMOVED.encode(), *(cohort.roster.image_ids[image].encode() for image in images)]
    patterns += [row.tobytes()[:32] for row in rows]
    patterns += [(row / np.linalg.norm(row)).astype(np.float32).tobytes()[:32] for row in rows]
    found = [path for path in folder.iterdir() if any(pattern in path.read_bytes() for pattern in patterns)]
    return [path.name for path in found]


def nothing(folder):
    write(folder / "cohort.parquet", first_cohort())


def a_gallery(folder):
    Gallery.build(folder / "gallery", first_cohort())
    write(folder / "cohort.parquet", second_cohort())
    genes = "".join(f"d{number},Disorder {number},GENE{number}\n" for number in range(6))
    (folder / "disorders.csv").write_text(f"disorder_id,name,gene_symbol\n{genes}")


def a_gallery_without_index(folder):
    a_gallery(folder)
    for path in index_paths(folder / "gallery", 1):
        path.unlink()


def a_gallery_and_an_older_backup(folder):
    a_gallery(folder)
    back_up(folder / "gallery", folder / "backup")
    Gallery.add(folder / "gallery", second_cohort())


def two_people(folder):
    a_gallery(folder)
    add_people(folder / "tokens", ["anna", "boris"], ["rank"])


def write(path, cohort: Cohort):
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])


def of_gallery(folder):
    return answer(folder / "gallery")


def of_export(folder):
    out = folder / "out.parquet"
    return {**answer(folder / "gallery"), "out": hashlib.sha256(out.read_bytes()).hexdigest() if out.exists() else ""}


def of_backup(folder):
    """The gallery and its copies: opened elsewhere, because opening makes an index."""
    with TemporaryDirectory(dir=folder.parent) as elsewhere:
        there = [name for name in ("backup", "restored") if (folder / name).exists()]
        copies = {name: answer(shutil.copytree(folder / name, Path(elsewhere) / name)) for name in there}
        return {**answer(folder / "gallery"), **copies}


def of_tokens(folder):
    return {name: sorted(person.rights) for name, person in read_people(folder / "tokens").items()}


class Operation(NamedTuple):
    """A command; `done` is what it may say when it is repeated although it was done."""

    name: str
    share: int
    begin: Callable[[Path], None]
    arguments: Callable[[Path], list[Any]]
    seen: Callable[[Path], Any] = of_gallery
    done: str | None = None
    erases: bool = False


OPERATIONS = [
    Operation(
        "gallery build",
        6,
        nothing,
        lambda at: ["gallery", "build", at / "gallery", "--encodings", at / "cohort.parquet"],
    ),
    Operation(
        "gallery add", 6, a_gallery, lambda at: ["gallery", "add", at / "gallery", "--encodings", at / "cohort.parquet"]
    ),
    Operation(
        "gallery remove-patient",
        6,
        a_gallery,
        lambda at: ["gallery", "remove-patient", at / "gallery", REMOVED],
        done="no patient",
        erases=True,
    ),
    Operation(
        "gallery describe",
        4,
        a_gallery,
        lambda at: ["gallery", "describe", at / "gallery", "--disorders", at / "disorders.csv"],
    ),
    Operation("making the index anew", 3, a_gallery_without_index, lambda at: ["gallery", "info", at / "gallery"]),
    Operation(
        "gallery export",
        3,
        a_gallery,
        lambda at: ["gallery", "export", at / "gallery", "--out", at / "out.parquet", "--force"],
        of_export,
    ),
    Operation(
        "tokens add", 2, two_people, lambda at: ["tokens", "add", at / "tokens", "carla"], of_tokens, done="has a token"
    ),
    Operation(
        "gallery backup",
        4,
        a_gallery,
        lambda at: ["gallery", "backup", at / "gallery", "--out", at / "backup"],
        of_backup,
        done="is taken",
    ),
    Operation(
        "gallery restore",
        4,
        a_gallery_and_an_older_backup,
        lambda at: ["gallery", "restore", at / "backup", at / "restored"],
        of_backup,
        done="is taken",
    ),
    Operation("calibrate", 1, a_gallery, lambda at: ["calibrate", "--gallery", at / "gallery"]),
]

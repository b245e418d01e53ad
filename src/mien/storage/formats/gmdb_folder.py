"""A version of GMDB as a folder: its tables, and beside them the encodings of its images. Read and written.

Everything is first written into a temporary folder inside it. `gmdb_metadata` is moved last: if it is there, all is.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from mien.core.cohort import Encodings
from mien.core.roster import Label
from mien.core.study import Fold, Release, Split, Study
from mien.errors import InvalidFileError, InvalidStudyError, MienError, shown
from mien.progress import Progress, silent
from mien.storage.formats.annotations import Annotations
from mien.storage.formats.gmdb_tables import read_images, read_names
from mien.storage.formats.image_metadata import read_image_metadata, write_image_metadata
from mien.storage.formats.text_tables import read_table, write_table
from mien.storage.loading import missing_encodings, read_encodings, write_encodings
from mien.storage.outputs import refuse_existing

METADATA = "gmdb_metadata"
ENCODINGS, GM_ARC_ENCODINGS = "encodings.parquet", "all_encodings.csv"
NEEDED = tuple(f"{kind}_{side}_images" for kind in ("frequent", "rare") for side in ("gallery", "test"))
IMAGES = ("train_images", "val_images", *NEEDED)
NAMES = {kind: f"gmdb_{kind}_{{}}.csv" for kind in IMAGES} | {  # what stands before and after the version
    "syndromes": "gmdb_syndromes_{}.tsv",
    "image_metadata": "image_metadata_{}.tsv",
}
SIMULATED = "simulated"  # stands in the version of a database that never existed
VERSION = re.compile(r"[\w.+-]+", re.ASCII)


class FolderRemarks(NamedTuple):
    """What was left out of a folder and its encodings, and for how many images facts are missing."""

    other_encodings: int  # of images that no table names
    side_tables: tuple[str, ...]  # names of tables that are not of the version that was read
    images_without_facts: int


def read_gmdb(
    folder: Path,
    encodings: Path,
    *,
    encoder_name: str | None = None,
    progress: Progress = silent,
) -> tuple[Study, FolderRemarks]:
    """The study that the tables of a folder describe, with the encodings of its images.

    The folder is the one with the tables, or the one with `gmdb_metadata` in it. The tables of training and validation
    images, of disorders' names and of facts may be missing, but not training images alone.
    """
    version, tables, side_tables = _tables(folder, needed=NEEDED)
    annotations = Annotations()
    if "syndromes" in tables:
        read_names(read_table(tables["syndromes"]), annotations)

    def labels(kind: str) -> tuple[Label, ...]:
        return _unique(read_images(read_table(tables[kind]), annotations).get(0, ())) if kind in tables else ()

    train, validation = labels("train_images"), labels("val_images")
    frequent = Split(labels("frequent_gallery_images"), labels("frequent_test_images"))
    rare = _rare_splits(tables, annotations)
    known = read_image_metadata(tables["image_metadata"]) if "image_metadata" in tables else {}
    facts = {image_id: known[image_id] for image_id in annotations.patient_of if image_id in known}
    file = read_encodings(encodings, wanted=annotations.patient_of, labelled=False, progress=progress)
    if missing := file.missing(annotations.patient_of):
        raise missing_encodings(encodings, missing, otherwise=f"take them out of the tables in {folder}")
    study = Study(
        source=f"GMDB {version}",
        encodings=file.with_encoder_name(encoder_name),
        folds=tuple(Fold(frequent, split) for split in rare),  # one object: what is compared with it is compared once
        train=train,
        validation=validation,
        disorders={**file.annotations.disorders, **annotations.disorders},
        facts_of_image=facts,
        simulated=SIMULATED in version,
    )
    return study, FolderRemarks(file.left_out, side_tables, len(annotations.patient_of) - len(facts))


def read_releases(path: Path) -> list[Release]:
    """Several versions of a database, the oldest first, from a table `version,released,folder`."""
    listed: dict[str, tuple[date, Path]] = {}

    def take(row: dict[str, str]) -> str | None:
        folder = path.parent / row["folder"]
        try:
            released = date.fromisoformat(row["released"])
        except ValueError:
            return f"released is {shown(row['released'])}: give a date like 2024-12-31"
        if not row["version"].strip():
            return "the version is blank: fill it in or take the row out"
        if row["version"] in listed:
            return f"version {shown(row['version'])} is in an earlier row too: keep one"
        if not row["folder"].strip() or not folder.is_dir():
            return f"{shown(row['folder'])} is no folder beside this table: check the path"
        listed[row["version"]] = (released, folder)
        return None

    read_table(path).each_row(["version", "released", "folder"], take)
    if not listed:
        raise InvalidFileError(path, ["it lists no version: add a row for each"])
    versions = [Release(version, released, _all_labels(folder)) for version, (released, folder) in listed.items()]
    return sorted(versions, key=lambda version: version.released)


def _tables(folder: Path, *, needed: Sequence[str]) -> tuple[str, dict[str, Path], tuple[str, ...]]:
    """The version that a folder holds, its tables by kind, and the names of tables that are not of it."""
    inside = folder / METADATA if (folder / METADATA).is_dir() else folder
    try:
        paths = sorted(inside.iterdir())
    except OSError as error:
        raise InvalidFileError(inside, [f"{error.strerror}: give the folder with the tables of GMDB"]) from error
    tables_of_version: dict[str, dict[str, Path]] = {}
    for path in paths:
        for kind, name in NAMES.items():
            before, after = name.split("{}")
            if path.name.startswith(before) and path.name.endswith(after):
                version = path.name.removeprefix(before).removesuffix(after)
                tables_of_version.setdefault(version, {})[kind] = path
    versions = _versions(tables_of_version)
    if not versions:
        raise InvalidFileError(inside, [f"no tables of GMDB here: expected {_name(NEEDED[0], '<version>')} and others"])
    if len(versions) > 1:
        problems = [
            f"version {shown(version)}: {', '.join(shown(path.name) for path in tables_of_version[version].values())}"
            for version in versions
        ]
        raise InvalidFileError(inside, problems, advice="several versions in one folder: give each a folder of its own")
    [version] = versions
    tables = tables_of_version.pop(version)
    if needed and "val_images" in tables:
        needed = ("train_images", *needed)  # the gallery that validation images are compared with
    if missing := [f"the table {shown(_name(kind, version))} is missing" for kind in needed if kind not in tables]:
        raise InvalidFileError(inside, missing, advice="copy the tables of one version into one folder")
    return version, tables, tuple(path.name for others in tables_of_version.values() for path in others.values())


def _versions(tables_of_version: Mapping[str, Collection[str]]) -> list[str]:
    """What the tables of images call their version: those that a study needs, or else any.

    >>> _versions({"v1": {"rare_test_images"}, "v1_short": {"rare_test_images"}, "v0": {"syndromes"}})
    ['v1']
    """
    for kinds in (NEEDED, IMAGES):
        if named := [version for version, tables in tables_of_version.items() if set(kinds) & set(tables)]:
            return [version for version in named if not any(version.startswith(f"{other}_") for other in named)]
    return []


def _name(kind: str, version: str) -> str:
    return NAMES[kind].format(version)


def _rare_splits(tables: Mapping[str, Path], annotations: Annotations) -> list[Split]:
    """The rare part of every fold; one without anybody where the tables have no rows."""
    paths = [tables[f"rare_{side}_images"] for side in ("gallery", "test")]
    gallery, test = (read_images(read_table(path), annotations, by_split=True) for path in paths)
    problems = [
        f"split {number} is not in {here.name}, but in {there.name}: add its rows, or take them out there"
        for here, there, only_there in (
            (paths[1], paths[0], gallery.keys() - test.keys()),
            (paths[0], paths[1], test.keys() - gallery.keys()),
        )
        for number in sorted(only_there)
    ]
    if problems:
        raise InvalidFileError(paths[0].parent, problems)
    return [Split(_unique(gallery[number]), _unique(test[number])) for number in sorted(gallery)] or [Split((), ())]


def _unique(labels: Iterable[Label]) -> tuple[Label, ...]:
    return tuple(dict.fromkeys(labels))


def _all_labels(folder: Path) -> tuple[Label, ...]:
    _, tables, _ = _tables(folder, needed=())
    annotations = Annotations()
    for kind in IMAGES:
        if kind in tables:
            read_images(read_table(tables[kind]), annotations)
    if not annotations.labels:
        raise InvalidFileError(folder, ["its tables name no image: give a folder with tables of images"])
    return _unique(annotations.labels)


def write_gmdb(
    out: Path,
    study: Study,
    version: str,
    *,
    csv: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> None:
    """Writes a study as a new folder with tables and encodings; with `csv`, also encodings in the GM-Arc layout.

    `force` replaces the tables and encodings of a study that is there; other files stay.
    """
    if not VERSION.fullmatch(version):
        raise MienError(f"the version {shown(version)} becomes part of file names: use letters, digits, '.', '-', '+'")
    _check_folds(study)
    try:
        refuse_existing(out, force=force)
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="unfinished-", dir=out) as name:
            unfinished = Path(name)
            (unfinished / METADATA).mkdir()
            _write_tables(unfinished / METADATA, study, version)
            _write_encodings(unfinished, study.encodings, csv=csv, progress=progress)
            for old in (GM_ARC_ENCODINGS, ENCODINGS, METADATA):
                if (out / old).exists():
                    (out / old).rename(unfinished / f"old-{old}")
            for finished in (*([GM_ARC_ENCODINGS] if csv else []), ENCODINGS, METADATA):
                (unfinished / finished).rename(out / finished)
    except OSError as error:
        raise MienError(f"{out}: {error.strerror or error}: choose a folder with room that you may write to") from error


def _check_folds(study: Study) -> None:
    """Refuses folds that these tables cannot hold."""
    if any(fold.frequent != study.folds[0].frequent for fold in study.folds):
        raise InvalidStudyError(
            f"{study.source}: the frequent part is not the same in all folds, but the tables of GMDB hold it once"
        )
    filled = [bool(labels) for fold in study.folds for labels in fold.rare]
    if not all(filled) and (any(filled) or len(study.folds) > 1):
        number = filled.index(False) // 2
        raise InvalidStudyError(
            f"{study.source}, fold {number}: no rare gallery or no rare test images, but the tables of GMDB need both"
        )


def _write_tables(folder: Path, study: Study, version: str) -> None:
    frequent = study.folds[0].frequent
    parts: dict[str, tuple[Label, ...]] = {
        "train_images": study.train,
        "val_images": study.validation,
        "frequent_gallery_images": frequent.gallery,
        "frequent_test_images": frequent.test,
    }
    for kind, labels in parts.items():
        if kind in NEEDED or study.train or study.validation:
            write_table(folder / _name(kind, version), ["image_id", "subject", "label"], labels)
    for side in ("gallery", "test"):
        rows = [(*label, str(k)) for k, fold in enumerate(study.folds) for label in getattr(fold.rare, side)]
        write_table(folder / _name(f"rare_{side}_images", version), ["image_id", "subject", "label", "split"], rows)
    if study.disorders:
        rows = [tuple(value or "" for value in disorder) for disorder in study.disorders.values()]
        write_table(folder / _name("syndromes", version), ["syndrome_id", "syndrome_name", "OMIM"], rows)
    if study.facts_of_image:
        write_image_metadata(folder / _name("image_metadata", version), study.facts_of_image)


def _write_encodings(folder: Path, encodings: Encodings, *, csv: bool, progress: Progress) -> None:
    images = len(encodings.image_ids)
    before, everything = (images, 2 * images) if csv else (0, images)
    if csv:
        write_encodings(folder / GM_ARC_ENCODINGS, encodings, lambda done, _: progress(done, everything))
    write_encodings(folder / ENCODINGS, encodings, lambda done, _: progress(before + done, everything))

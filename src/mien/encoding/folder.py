"""Finds photos on disk, and their image ids."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from mien.core.errors import InvalidFileError, shown


def find_photos(
    paths: Sequence[Path],
    *,
    short_ids: bool = False,
    wanted: Collection[str] | None = None,
    own_files: Collection[Path] = (),
) -> dict[str, Path]:
    """Files and the files of folders, by image id: a file's name, or its path below the folder.

    `short_ids`: what stands before the first "_" or "." of the name, as GMDB's photos are numbered. `wanted`: the
    names of others do not matter. `own_files`: what an earlier run wrote.
    """
    found: dict[str, Path] = {}
    problems: list[str] = []
    for path, image_id in _listed(paths, problems):
        key = _short(path.name) if short_ids else image_id
        if path.resolve() in own_files:
            continue
        if wanted is not None and key not in wanted:
            found.setdefault(key, path)
        elif not key or not key.isprintable():
            what = "has no number to begin with" if not key else "has characters that cannot be shown"
            problems.append(f"the name {shown(path.name)} {what}: rename the photo")
        elif found.setdefault(key, path) != path:
            advice = "write .parquet, or leave --short-ids out" if short_ids else "give the folder that holds both"
            both = f"{shown(str(found[key]))} and {shown(str(path))}"
            problems.append(f"{both} are both image {shown(key)}: rename one, or {advice}")
    if problems:
        raise InvalidFileError("photos", problems)
    return found


def _listed(paths: Sequence[Path], problems: list[str]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if not path.exists():
            raise InvalidFileError(shown(str(path)), ["there is no such file or folder: check the path"])
        if not path.is_dir():
            yield path, path.name
            continue
        empty = True
        for file in _files_below(path, problems):
            empty = False
            yield file, file.relative_to(path).as_posix()
        if empty and not problems:
            raise InvalidFileError(shown(str(path)), ["there are no files in this folder"])


def _files_below(folder: Path, problems: list[str]) -> Iterator[Path]:
    """All files, sorted by name. Links are followed, each folder is read once, hidden folders never."""
    entered = set()

    def unreadable(error: OSError) -> None:
        problems.append(f"the folder {shown(str(error.filename))} cannot be read: {error.strerror}")

    for below, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        status = Path(below).stat()
        if (status.st_dev, status.st_ino) in entered:
            folders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            yield Path(below, name)


def _short(name: str) -> str:
    """The number that a photo's name begins with.

    >>> _short("1234_rot_aligned.jpg"), _short("1234.jpg")
    ('1234', '1234')
    """
    return name.partition("_")[0].partition(".")[0]

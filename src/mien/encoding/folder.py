"""Photos on disk, each with the image id that it goes by."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mien.core.errors import InvalidFileError, shown


def find_photos(paths: Sequence[Path], *, short_ids: bool = False) -> dict[str, Path]:
    """Files and the files of folders, by image id: a file's name, or its path below the folder.

    `short_ids`: what stands before the first "_" or "." of the name, as GMDB's photos are numbered.
    """
    found: dict[str, Path] = {}
    problems = []
    for path, image_id in _listed(paths):
        key = _short(path.name) if short_ids else image_id
        if not key.isprintable() or not key:
            problems.append(f"the name {shown(key)} has characters that cannot be shown: rename the photo")
        elif key in found and found[key] != path:
            problems.append(f"{found[key]} and {path} are both image {shown(key)}: rename one, or give their folder")
        found[key] = path
    if problems:
        raise InvalidFileError("photos", problems)
    return found


def _listed(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if not path.exists():
            raise InvalidFileError(path, ["there is no such file or folder: check the path"])
        if not path.is_dir():
            yield path, path.name
            continue
        empty = True
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(name for name in names if not name.startswith(".")):
                empty = False
                yield Path(folder, name), Path(folder, name).relative_to(path).as_posix()
        if empty:
            raise InvalidFileError(path, ["there are no files in this folder"])


def _short(name: str) -> str:
    """The number that a photo's name begins with.

    >>> _short("1234_rot_aligned.jpg"), _short("1234.jpg")
    ('1234', '1234')
    """
    return name.partition("_")[0].partition(".")[0]

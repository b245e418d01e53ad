"""Finds photos on disk, and their image ids."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from mien.errors import InvalidFileError, shown, shown_ids


def find_photos(
    paths: Sequence[Path],
    *,
    short_ids: bool = False,
    wanted: Collection[str] | None = None,
    own_files: Collection[Path] = (),
    follow_links: bool = False,
    say: Callable[[str], object] = warnings.warn,
) -> dict[str, Path]:
    """Files and the files of folders, by image id: a file's name, or its path below the folder.

    `short_ids`: an id is what stands before the first "_" or "." of the name, as GMDB numbers its photos. `wanted`:
    only the names of these images are checked. `own_files`: what an earlier run wrote, which is left out. Links below
    a folder may lead to photos of others: without `follow_links` they are left out, and `say` gets a notice.
    """
    found: dict[str, Path] = {}
    problems: list[str] = []
    links: list[str] | None = None if follow_links else []
    for path, image_id in _listed(paths, problems, links):
        key = _short(path.name) if short_ids else image_id
        if Path(os.path.realpath(path)) in own_files:  # Path.resolve would refuse links that go in circles
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
    if links:
        say(f"{len(links):,} links were not followed, --follow-links does that: {shown_ids(links)}")
    return found


def _listed(paths: Sequence[Path], problems: list[str], links: list[str] | None) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if not path.exists():
            raise InvalidFileError(shown(str(path)), ["there is no such file or folder: check the path"])
        if not path.is_dir():
            yield path, path.name
            continue
        files = list(_files_below(path, problems, links))
        yield from ((file, file.relative_to(path).as_posix()) for file in files)
        if not files and not problems:
            but = ", only links: --follow-links follows them" if links else ""
            raise InvalidFileError(shown(str(path)), [f"there are no files in this folder{but}"])


def _files_below(folder: Path, problems: list[str], links: list[str] | None) -> Iterator[Path]:
    """All files, sorted by name; each folder is read once, hidden folders never. Adds to `links`, or follows them."""
    entered = set()

    def unreadable(error: OSError) -> None:
        problems.append(f"the folder {shown(str(error.filename))} cannot be read: {error.strerror}")

    for below, folders, names in os.walk(folder, onerror=unreadable, followlinks=links is None):
        status = Path(below).stat()
        if (status.st_dev, status.st_ino) in entered:
            folders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = [Path(below, name) for name in sorted(names) if not name.startswith(".")]
        if links is not None:
            here = [*(Path(below, name) for name in folders), *files]
            links += [path.relative_to(folder).as_posix() for path in here if path.is_symlink()]
            files = [path for path in files if not path.is_symlink()]
        yield from files


def _short(name: str) -> str:
    """The number that a photo's name begins with.

    >>> _short("1234_rot_aligned.jpg"), _short("1234.jpg")
    ('1234', '1234')
    """
    return name.partition("_")[0].partition(".")[0]

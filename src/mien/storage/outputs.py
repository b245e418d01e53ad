"""What is there already is not written over in silence."""

from __future__ import annotations

from pathlib import Path

from mien.core.errors import MienError


def refuse_existing(path: Path, *, force: bool = False) -> None:
    """Refuses an output whose name is taken, by a link that leads nowhere too; an empty folder is free."""
    try:
        path.lstat()
    except FileNotFoundError:
        return
    if not force and not (path.is_dir() and not any(path.iterdir())):
        raise MienError(f"{path} exists already: choose another name, or write over it with --force")

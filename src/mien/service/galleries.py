"""Serves the newest generation of a gallery, and the map of its disorders."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mien.errors import GalleryBusyError, GalleryError, MienError
from mien.service.disorder_map import Place
from mien.service.service_log import log_error
from mien.storage.database import DATABASE, State
from mien.storage.gallery import Gallery, state_of
from mien.storage.index_files import index_paths

SECONDS_BETWEEN_CHECKS = 1.0
MAP = "mien.service.disorder_map"

FileStates = tuple[tuple[int, ...] | None, ...]  # inode, size and time of change of each; None: not there
# generation; fingerprint, because a gallery that is made anew counts generations from 1 again; what was learned; the
# index's files, because damaged ones are made anew
Identity = tuple[object, ...]


class ServedGallery:
    """A gallery that changes while it is served.

    Each request takes the newest generation and keeps it to its end. `watch` checks once a second, so that an old
    generation is closed even if no request comes: deleted files take up the disk as long as they are open.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self.checked_files: FileStates = ()
        self.opened: Gallery | None = None
        self.opened_at: Identity | None = None
        self.map: dict[str, Place] = {}  # by disorder id
        self.map_of: Identity | None = None
        self.map_wanted = False
        self.newest()

    def newest(self, *, trust_files: bool = True) -> Gallery:
        """The gallery as it is now.

        Every commit changes the size or the time of a file. With `trust_files`, the database is read only after such a
        change. `watch` always reads it, because two commits might leave the same size and time.
        """
        files = self._files()
        with self.lock:
            if self.opened is not None and files == self.checked_files and trust_files:
                return self.opened
        try:
            now = state_of(self.directory)
            with self.lock:
                if self.opened is None or self._identity(now) != self.opened_at:
                    self.opened = Gallery.open(self.directory)
                    self.opened_at = self._identity(now)
                self.checked_files = files
                return self.opened
        except GalleryBusyError:
            raise
        except GalleryError:
            with self.lock:
                self.opened = None  # a gallery that was deleted must not stay in memory
            raise

    def points(self, gallery: Gallery) -> list[dict[str, Any]]:
        """The places on the map of this gallery's disorders. A new generation has the old map for some seconds."""
        known = gallery.roster.disorder_of_id
        return [{"disorder_id": key, "x": x, "y": y} for key, (x, y) in self.map.items() if key in known]

    def want_map(self) -> None:
        """Has a map drawn of this and later generations. Whoever asks for numbers only needs none."""
        self.map_wanted = True

    @property
    def map_drawn(self) -> bool:
        """Whether the map is that of the newest generation."""
        return self.map_of == self.opened_at

    def _identity(self, now: State) -> Identity:
        files = _file_states(index_paths(self.directory, now.generation))
        return now.generation, now.fingerprint, now.learned, files

    def _files(self) -> FileStates:
        opened = self.opened  # another thread may set it to None
        index = [] if opened is None else index_paths(self.directory, opened.generation)
        return _file_states([self.directory / DATABASE, self.directory / f"{DATABASE}-wal", *index])

    async def watch(self, changed: Callable[[int], None]) -> None:
        """Checks for new generations, and has wanted maps drawn. Runs until it is cancelled; errors do not end it."""
        known, last_error = self.opened_at, ""
        drawing: asyncio.Task[None] | None = None
        try:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
                try:
                    # not the gallery itself: a name here would keep it open while its directory is away
                    generation = (await asyncio.to_thread(self.newest, trust_files=False)).generation
                    if self.opened_at != known:
                        known = self.opened_at
                        changed(generation)
                    if (drawing is None or drawing.done()) and self.map_wanted and not self.map_drawn:
                        drawing = asyncio.create_task(self._draw())
                    last_error = ""
                except Exception as error:  # it may be repaired; meanwhile requests answer with the error
                    if repr(error) != last_error:
                        log_error(error, "run 'mien gallery verify'")
                    last_error = repr(error)
        finally:
            if drawing is not None:
                drawing.cancel()
                await asyncio.wait([drawing])

    async def _draw(self) -> None:
        """Draws the map in another process: t-SNE takes seconds, and would block the threads of this one."""
        identity = self.opened_at
        # -P: never import a module of the same name from the working directory
        command = [sys.executable, "-P", "-m", MAP, str(self.directory)]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            log_error(MienError("no map"), f"see why there is no map: python -m {MAP} {self.directory}")
        drawn: dict[str, Any] = {} if process.returncode else json.loads(output)
        self.map = {disorder_id: (x, y) for disorder_id, (x, y) in drawn.items()}
        self.map_of = identity


def _file_states(paths: Iterable[Path]) -> FileStates:
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # reading the gallery will say why
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)

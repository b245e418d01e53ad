"""The newest generation of a gallery, and the map of its disorders."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mien.core.errors import GalleryBusyError, GalleryError
from mien.service.disorder_map import Place
from mien.service.problems import log
from mien.storage.database import DATABASE, connection, state
from mien.storage.gallery import Gallery

SECONDS_BETWEEN_LOOKS = 1.0
MAP = "mien.service.disorder_map"

Files = tuple[tuple[int, ...] | None, ...]  # inode, size and time of change of each; None: not there
Identity = tuple[int, str]  # generation and fingerprint: a gallery that was made anew counts from 1 again


class ServedGallery:
    """A gallery that changes while it is served.

    Every request asks for the newest generation; who has begun with an older one ends with it. A look once a second
    lets go of old generations also when nobody asks: their files are deleted, but stay on the disk while they are open.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self.looked_at: Files = ()
        self.opened: Gallery | None = None
        self.opened_at: Identity | None = None
        self.map: dict[str, Place] = {}  # by disorder id
        self.map_of: Identity | None = None
        self.newest()

    def newest(self, *, trust_files: bool = True) -> Gallery:
        """The gallery as it is now.

        The database is asked only if its files look changed: their sizes and times change with every commit. The watch
        asks it anyway, should two commits ever look the same.
        """
        files = self._files()
        with self.lock:
            if self.opened is not None and files == self.looked_at and trust_files:
                return self.opened
        try:
            with connection(self.directory) as database:
                now = state(database)
            identity = now.generation, now.fingerprint
            with self.lock:
                if self.opened is None or identity != self.opened_at:
                    self.opened, self.opened_at = Gallery.open(self.directory), identity
                self.looked_at = files
                return self.opened
        except GalleryBusyError:
            raise
        except GalleryError:
            with self.lock:
                self.opened = None  # what is gone must not stay in memory
            raise

    def points(self, gallery: Gallery) -> list[dict[str, Any]]:
        """The map, as far as it shows disorders of this gallery: a new generation has an old map for some seconds."""
        known = gallery.roster.disorder_of_id
        return [{"disorder_id": key, "x": x, "y": y} for key, (x, y) in self.map.items() if key in known]

    @property
    def map_drawn(self) -> bool:
        """Whether the map is that of the newest generation."""
        return self.map_of == self.opened_at

    def _files(self) -> Files:
        found: list[tuple[int, ...] | None] = []
        for name in (DATABASE, f"{DATABASE}-wal"):
            try:
                status = (self.directory / name).stat()
            except OSError:  # asking the database will tell
                found.append(None)
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    async def watch(self, changed: Callable[[int], None]) -> None:
        """Looks for new generations, and has a map drawn of each; for ever, whatever happens."""
        known, last_error = self.opened_at, ""
        drawing: asyncio.Task[None] | None = None
        try:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                try:
                    gallery = await asyncio.to_thread(self.newest, trust_files=False)
                    if self.opened_at != known:
                        known = self.opened_at
                        changed(gallery.generation)
                    if (drawing is None or drawing.done()) and not self.map_drawn:
                        drawing = asyncio.create_task(self._draw())
                    last_error = ""
                except Exception as error:  # it may be mended: requests say what is wrong meanwhile
                    if repr(error) != last_error:
                        log(error)
                    last_error = repr(error)
        finally:
            if drawing is not None:
                drawing.cancel()
                await asyncio.wait([drawing])

    async def _draw(self) -> None:
        """In a process of its own: t-SNE takes a core for seconds, and a thread of it would stop the others."""
        identity = self.opened_at
        # -P: a module of the same name in the folder where the service was started is not ours
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
        drawn: dict[str, Any] = json.loads(output) if process.returncode == 0 else {}
        self.map = {disorder_id: (x, y) for disorder_id, (x, y) in drawn.items()}
        self.map_of = identity

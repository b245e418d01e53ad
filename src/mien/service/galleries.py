"""The newest generation of a gallery, and the map of its disorders."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mien.core.errors import GalleryError
from mien.service.disorder_map import Place
from mien.service.problems import log
from mien.storage.database import DATABASE, connection, state
from mien.storage.gallery import Gallery

SECONDS_BETWEEN_LOOKS = 1.0
MAP = "mien.service.disorder_map"

Files = tuple[tuple[int, ...] | None, ...]  # inode, size and time of change of each; None: not there


class ServedGallery:
    """A gallery that changes while it is served.

    Every request asks for the newest generation; who has begun with an older one ends with it. A look once a second
    lets go of old generations also when nobody asks: their files are deleted, but stay on the disk while they are open.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self.looked_at: Files = ()
        self.opened_at = (0, "")
        self.opened = self.newest()
        self.map: dict[str, Place] = {}  # by disorder id
        self.map_generation = 0

    def newest(self, *, trust_files: bool = True) -> Gallery:
        """The gallery as it is now.

        The database is asked only if its files look changed: their sizes and times change with every commit. The watch
        asks it anyway, should two commits ever look the same.
        """
        files = self._files()
        with self.lock:
            if files == self.looked_at and trust_files:
                return self.opened
        with connection(self.directory) as database:
            now = state(database)
        with self.lock:
            # a gallery that was made anew counts its generations from 1 again, but has another fingerprint
            if (now.generation, now.fingerprint) != self.opened_at:
                self.opened = Gallery.open(self.directory)
                self.opened_at = now.generation, now.fingerprint
            self.looked_at = files
            return self.opened

    def points(self, gallery: Gallery) -> list[dict[str, Any]]:
        """The map, as far as it shows disorders of this gallery: a new generation has an old map for some seconds."""
        known = gallery.roster.disorder_of_id
        return [{"disorder_id": key, "x": x, "y": y} for key, (x, y) in self.map.items() if key in known]

    def _files(self) -> Files:
        found: list[tuple[int, ...] | None] = []
        for name in (DATABASE, f"{DATABASE}-wal"):
            try:
                status = (self.directory / name).stat()
            except FileNotFoundError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    async def watch(self, changed: Callable[[int], None]) -> None:
        """Looks for new generations, and has a map drawn of each; for ever."""
        known, drawing = self.opened.generation, asyncio.create_task(self._draw(self.opened.generation))
        try:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                try:
                    generation = (await asyncio.to_thread(self.newest, trust_files=False)).generation
                except GalleryError as error:  # it may be mended: requests say what is wrong meanwhile
                    log(error)
                    continue
                if generation != known:
                    known = generation
                    changed(generation)
                if drawing.done() and generation != self.map_generation:
                    drawing = asyncio.create_task(self._draw(generation))
        finally:
            drawing.cancel()
            await asyncio.wait([drawing])

    async def _draw(self, generation: int) -> None:
        """In a process of its own: t-SNE takes a core for seconds, and a thread of it would stop the others."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MAP, str(self.directory), stdout=asyncio.subprocess.PIPE
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        drawn: dict[str, Any] = json.loads(output) if process.returncode == 0 else {}
        self.map = {disorder_id: (x, y) for disorder_id, (x, y) in drawn.items()}
        self.map_generation = generation

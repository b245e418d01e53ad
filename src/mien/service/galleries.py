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
from mien.storage.database import connection, state
from mien.storage.gallery import Gallery

SECONDS_BETWEEN_LOOKS = 1.0
MAP = "mien.service.disorder_map"


class ServedGallery:
    """A gallery that changes while it is served.

    Every request asks for the newest generation; who has begun with an older one ends with it. A look once a second
    lets go of old generations also when nobody asks: their files are deleted, but stay on the disk while they are open.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self.opened_at = self._state()
        self.opened = Gallery.open(directory)
        self.map: dict[str, Place] = {}  # by disorder id
        self.map_generation = 0

    def newest(self) -> Gallery:
        """The gallery as it is now."""
        now = self._state()
        with self.lock:
            if now != self.opened_at:
                self.opened, self.opened_at = Gallery.open(self.directory), now
            return self.opened

    def _state(self) -> tuple[int, str]:
        """Changes with every change; a gallery that was made anew counts its generations from 1 again."""
        with connection(self.directory) as database:
            now = state(database)
        return now.generation, now.fingerprint

    async def watch(self, changed: Callable[[int], None]) -> None:
        """Looks for new generations, and has a map drawn of each; for ever."""
        known, drawing = self.opened.generation, asyncio.create_task(self._draw(self.opened.generation))
        try:
            while True:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                try:
                    generation = (await asyncio.to_thread(self.newest)).generation
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

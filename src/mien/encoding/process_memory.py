"""Memory of a process that holds photos: bounded, given back after large ones, never dumped to a file."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

PR_SET_DUMPABLE = 4  # of Linux
LARGE = 8_000_000  # pixels


@cache
def _c_function(name: str) -> Callable[..., Any] | None:
    """A function of the C library; None where it has none of this name."""
    return getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None


def forbid_core_dumps() -> None:
    """A crash leaves no file with the photos in it; nor can other programs of this user read the memory."""
    if os.name != "posix":
        return
    import resource  # noqa: PLC0415 not everywhere

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if prctl := _c_function("prctl"):  # the limit alone does not stop a program that the kernel pipes dumps to
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def return_memory() -> None:
    """Gives memory that is free back to the system: decoders take it in pieces that glibc would keep."""
    if malloc_trim := _c_function("malloc_trim"):
        malloc_trim(0)


class PixelsInWork:
    """Limits how many pixels are in work at once. Photos wait for room, in the order in which they came."""

    def __init__(self, most: int) -> None:
        self.free = most
        self.freed = threading.Condition()
        self.first_in_line = threading.Lock()  # a large photo must not wait for ever while small ones pass

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        """Waits for room, and takes it until the block ends."""
        with self.first_in_line, self.freed:
            self.freed.wait_for(lambda: self.free >= pixels)
            self.free -= pixels
        try:
            yield
        finally:
            if pixels > LARGE:
                return_memory()
            with self.freed:
                self.free += pixels
                self.freed.notify()

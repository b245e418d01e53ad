"""Memory of a process that holds photos: bounded, given back after large ones, never dumped to a file."""

from __future__ import annotations

import ctypes
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_DUMPABLE = 4  # of Linux
LARGE = 8_000_000  # pixels
C_LIBRARY = ctypes.CDLL(None)  # not each has all functions


def forbid_core_dumps() -> None:
    """A crash leaves no file with the photos in it; nor can other programs of this user read the memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(C_LIBRARY, "prctl"):  # the limit alone does not stop a program that the kernel pipes dumps to
        C_LIBRARY.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


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
            if pixels > LARGE and hasattr(C_LIBRARY, "malloc_trim"):
                C_LIBRARY.malloc_trim(0)  # decoders take memory in pieces that glibc would keep
            with self.freed:
                self.free += pixels
                self.freed.notify()

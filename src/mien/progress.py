"""The type of functions that are told the progress of long work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # what is done, and all there is to do


def silent(_done: int, _all: int) -> None:
    """Progress that nobody wants to hear of."""

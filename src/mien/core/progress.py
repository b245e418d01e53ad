"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # what is done, and all there is to do


def silent(_done: int, _all: int) -> None:
    """Progress that nobody wants to hear of."""

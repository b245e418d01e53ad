"""What answers may give away in an hour: each compared embedding tells something of the gallery."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from mien.core.arrays import Float32s
from mien.service.problems import Problem

HOUR = 3600.0
MOST_ACCOUNTS = 10_000  # that are kept although their hour may be over


class Ranked(NamedTuple):
    """A ranking that was made."""

    time: float
    embeddings: frozenset[bytes]  # hashes: whoever sends a photo again learns nothing new


class Budget:
    """Counts rankings, and different embeddings in them, of each account over the last hour.

    An account is a person, or an address where there are no tokens.
    """

    def __init__(self, most_requests: int, most_embeddings: int, now: Callable[[], float] = time.monotonic) -> None:
        self.most_requests = most_requests
        self.most_embeddings = most_embeddings
        self.now = now
        self.lock = threading.Lock()
        self.ranked: dict[str, list[Ranked]] = {}  # by account, the oldest first

    def spend(self, account: str, embeddings: Float32s) -> None:
        """Counts a ranking before it is made, or raises a problem that says when there is room for it."""
        now = self.now()
        asked = Ranked(now, frozenset(hashlib.sha256(image.tobytes()).digest() for image in embeddings))
        with self.lock:
            if len(self.ranked) > MOST_ACCOUNTS:
                self.ranked = {each: ranked for each, ranked in self.ranked.items() if ranked[-1].time > now - HOUR}
            ranked = [each for each in self.ranked.get(account, []) if each.time > now - HOUR]
            if seconds := self._seconds_to_wait(ranked, asked):
                detail = f"in an hour {self.most_requests:,} rankings can be made, of {self.most_embeddings:,} photos"
                raise Problem(429, "budget", f"{detail} in all", headers={"Retry-After": str(ceil(seconds))})
            self.ranked[account] = [*ranked, asked]

    def _seconds_to_wait(self, ranked: list[Ranked], asked: Ranked) -> float:
        """Until enough of what was ranked is an hour ago."""
        for first in range(len(ranked) + 1):
            left = ranked[first:]
            embeddings = asked.embeddings.union(*(each.embeddings for each in left))
            if len(left) < self.most_requests and len(embeddings) <= self.most_embeddings:
                return ranked[first - 1].time + HOUR - asked.time if first else 0
        return HOUR  # more at once than an hour has room for

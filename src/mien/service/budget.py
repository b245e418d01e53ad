"""Limits what answers give away in an hour, because each compared embedding tells something about the gallery."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Set
from math import ceil

from mien.core.arrays import Float32s
from mien.core.embeddings import Encoder
from mien.service.problems import Problem

HOUR = 3600.0
SHARE_OF_DIMENSIONS = 0.4  # so many comparisons in an hour reconstruct an embedding to a similarity of sqrt(0.4) = 0.63
FEWEST_EMBEDDINGS = 50  # in an hour, however small the embeddings are
MOST_ACCOUNTS = 10_000  # beyond so many, those whose hour is over are dropped


def usual_embeddings(encoder: Encoder | None) -> int:
    """How many embeddings a person can have compared in an hour, where nothing else is said."""
    return max(FEWEST_EMBEDDINGS, int(SHARE_OF_DIMENSIONS * encoder.dimensions) if encoder else 0)


class Account:
    """The last hour of a person, or of an address where there are no tokens; the oldest first."""

    def __init__(self) -> None:
        self.ranked: deque[float] = deque()  # when each ranking was made
        self.compared: dict[bytes, float] = {}  # when each embedding was last compared, by its hash

    def add(self, now: float, embeddings: Iterable[bytes]) -> None:
        self.ranked.append(now)
        for embedding in embeddings:
            self.compared.pop(embedding, None)  # so that it stands last
            self.compared[embedding] = now

    def forget(self, until: float) -> None:
        while self.ranked and self.ranked[0] <= until:
            self.ranked.popleft()
        while self.compared and self.compared[oldest := next(iter(self.compared))] <= until:
            del self.compared[oldest]


class Budget:
    """Limits rankings, and the different embeddings in them, of each account in an hour."""

    def __init__(self, most_requests: int, most_embeddings: int, now: Callable[[], float] = time.monotonic) -> None:
        self.most_requests = most_requests
        self.most_embeddings = most_embeddings
        self.now = now
        self.lock = threading.Lock()
        self.accounts: dict[str, Account] = {}

    def spend(self, name: str, embeddings: Float32s) -> None:
        """Counts a ranking before it is made, or raises a problem that says when there is room for it."""
        asked = {hashlib.sha256(image.tobytes()).digest() for image in embeddings}
        with self.lock:
            now = self.now()
            if len(self.accounts) > MOST_ACCOUNTS:
                for account in self.accounts.values():
                    account.forget(now - HOUR)
                self.accounts = {each: account for each, account in self.accounts.items() if account.ranked}
            account = self.accounts.get(name, Account())
            account.forget(now - HOUR)
            if seconds := self._room_from(account, asked, now) - now:
                detail = f"in an hour {self.most_requests:,} rankings can be made, of {self.most_embeddings:,} photos"
                raise Problem(429, "budget", f"{detail} in all", headers={"Retry-After": str(ceil(seconds))})
            account.add(now, asked)
            self.accounts[name] = account

    def _room_from(self, account: Account, asked: Set[bytes], now: float) -> float:
        """When enough is an hour old that a ranking has room; whoever sends an embedding again learns nothing new."""
        times = [now]
        if (rankings := len(account.ranked) + 1 - self.most_requests) > 0:
            times.append(account.ranked[rankings - 1] + HOUR)
        if len(account.compared) + len(asked) > self.most_embeddings:
            others = [when for embedding, when in account.compared.items() if embedding not in asked]
            if (embeddings := len(others) + len(asked) - self.most_embeddings) > 0:
                # more at once than an hour has room for never fits
                times.append((others[embeddings - 1] if embeddings <= len(others) else now) + HOUR)
        return max(times)

"""Limits what answers give away in an hour, because each compared embedding tells something about the gallery."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from math import ceil
from typing import NamedTuple

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


class Ranked(NamedTuple):
    """A ranking that was made."""

    time: float
    embeddings: frozenset[bytes]  # hashes: whoever sends a photo again learns nothing new


class Account:
    """The rankings of a person in the last hour, or of an address where there are no tokens."""

    def __init__(self, ranked: Iterable[Ranked] = ()) -> None:
        self.ranked = deque(ranked)  # the oldest first
        self.times_of = Counter(embedding for each in self.ranked for embedding in each.embeddings)

    def add(self, asked: Ranked) -> None:
        self.ranked.append(asked)
        self.times_of.update(asked.embeddings)

    def drop_oldest(self) -> Ranked:
        oldest = self.ranked.popleft()
        for embedding in oldest.embeddings:
            self.times_of[embedding] -= 1
            if not self.times_of[embedding]:
                del self.times_of[embedding]
        return oldest

    def different_embeddings(self, asked: Ranked) -> int:
        """How many different embeddings were compared, counting those of another ranking."""
        return len(self.times_of) + sum(embedding not in self.times_of for embedding in asked.embeddings)


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
        now = self.now()
        asked = Ranked(now, frozenset(hashlib.sha256(image.tobytes()).digest() for image in embeddings))
        with self.lock:
            if len(self.accounts) > MOST_ACCOUNTS:
                ended = [each for each, account in self.accounts.items() if account.ranked[-1].time <= now - HOUR]
                for each in ended:
                    del self.accounts[each]
            account = self.accounts.get(name, Account())
            while account.ranked and account.ranked[0].time <= now - HOUR:
                account.drop_oldest()
            if seconds := self._seconds_to_wait(account, asked):
                detail = f"in an hour {self.most_requests:,} rankings can be made, of {self.most_embeddings:,} photos"
                raise Problem(429, "budget", f"{detail} in all", headers={"Retry-After": str(ceil(seconds))})
            account.add(asked)
            self.accounts[name] = account

    def _seconds_to_wait(self, account: Account, asked: Ranked) -> float:
        """How long it takes until enough rankings are more than an hour old."""
        if self._fits(account, asked):
            return 0
        later = Account(account.ranked)
        while later.ranked:
            oldest = later.drop_oldest()
            if self._fits(later, asked):
                return oldest.time + HOUR - asked.time
        return HOUR  # more at once than an hour has room for

    def _fits(self, account: Account, asked: Ranked) -> bool:
        embeddings = account.different_embeddings(asked)
        return len(account.ranked) < self.most_requests and embeddings <= self.most_embeddings

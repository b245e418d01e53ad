"""Slows down whoever sends wrong tokens."""

from __future__ import annotations

import time
from collections.abc import Callable

FREE = 5  # wrong tokens of an address in an hour before it has to wait
LONGEST = 60.0  # seconds of waiting
FORGOTTEN = 3600.0
MOST_REMEMBERED = 10_000


class WrongTokens:
    """Counts wrong tokens by address. After some of them the address waits, twice as long after each.

    A person who was let in from the same address before does not wait: all who come through a proxy have its address.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.wrong: dict[str, tuple[int, float]] = {}  # by address: how many, and when the last
        self.let_in: dict[tuple[str, str], None] = {}  # address and hash of the token; the oldest first

    def seconds_to_wait(self, address: str, token_sha256: str | None) -> float:
        """How long an address has to wait until its token is checked. Give the token's hash if the token is right."""
        count, last = self.wrong.get(address, (0, 0.0))
        if count < FREE or (address, token_sha256) in self.let_in:
            return 0
        return max(0.0, last + min(LONGEST, 2.0 ** min(count - FREE, 60)) - self.now())

    def count(self, address: str) -> None:
        now = self.now()
        self.wrong = {each: (count, last) for each, (count, last) in self.wrong.items() if last > now - FORGOTTEN}
        if address in self.wrong or len(self.wrong) < MOST_REMEMBERED:
            self.wrong[address] = self.wrong.get(address, (0, 0.0))[0] + 1, now

    def remember(self, address: str, token_sha256: str) -> None:
        """Remembers that somebody was let in."""
        self.let_in[address, token_sha256] = None
        if len(self.let_in) > MOST_REMEMBERED:
            del self.let_in[next(iter(self.let_in))]

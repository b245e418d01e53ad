"""Rankings take turns, and whoever waits for the same gallery and method is ranked together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mien.core.answers import Ranking
from mien.core.cohort import Query
from mien.core.method import Method
from mien.core.ranking import rank
from mien.storage.gallery import Gallery

MOST_TOGETHER = 16


class _Ticket:
    """A query that waits, and what became of it."""

    def __init__(self, query: Query, like: Any) -> None:
        self.query = query
        self.like = like  # equal for those that can be ranked together
        self.rankings: list[Ranking] | None = None


class Turns:
    """One product keeps all cores and the memory busy, but costs hardly more for a few queries than for one."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.waiting: list[_Ticket] = []
        self.list_lock = threading.Lock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A turn for other work of that kind."""
        with self.turn:
            yield

    def rank(self, gallery: Gallery, query: Query, method: Method, top: int | None) -> list[Ranking]:
        """Ranks a query, with those that came while another one had its turn."""
        ticket = _Ticket(query, (id(gallery), query.encodings.encoder, method, top))
        with self.list_lock:
            self.waiting.append(ticket)
        with self.turn:
            if ticket.rankings is None:
                self._take(gallery, ticket, method, top)
        assert ticket.rankings is not None
        return ticket.rankings

    def _take(self, gallery: Gallery, first: _Ticket, method: Method, top: int | None) -> None:
        with self.list_lock:
            others = [ticket for ticket in self.waiting if ticket is not first and ticket.like == first.like]
            together = [first, *others[: MOST_TOGETHER - 1]]
            self.waiting = [ticket for ticket in self.waiting if ticket not in together]
        try:
            rankings = iter(rank(gallery, [ticket.query for ticket in together], method, top=top))
        except Exception:
            if len(together) == 1:
                raise
            with self.list_lock:  # somebody's query is refused: each for itself, so that it is only theirs
                self.waiting += together[1:]
            first.rankings = rank(gallery, first.query, method, top=top)
            return
        for ticket in together:
            count = len(ticket.query.encodings.image_ids) if method.fusion == "none" else 1
            ticket.rankings = [next(rankings) for _ in range(count)]

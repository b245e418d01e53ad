"""Ranks the queries of several requests in one batch, where they ask the same gallery by the same method."""

from __future__ import annotations

import threading
from typing import Any

from mien.answers.ranking import Ranking, rank
from mien.core.cohort import Query
from mien.core.method import Method
from mien.storage.gallery import Gallery

MOST_TOGETHER = 16


class _WaitingQuery:
    """A query that waits to be ranked, and its rankings once they are there."""

    def __init__(self, query: Query, batch_key: Any) -> None:
        self.query = query
        self.batch_key = batch_key  # queries with equal keys can be ranked together
        self.rankings: list[Ranking] | None = None


class RankingBatcher:
    """Ranks one batch at a time: a batch keeps all cores busy, and costs hardly more than a single query."""

    def __init__(self) -> None:
        self.ranking_lock = threading.Lock()  # held while anything is ranked
        self.waiting: list[_WaitingQuery] = []
        self.waiting_lock = threading.Lock()

    def rank(self, gallery: Gallery, query: Query, method: Method, top: int | None) -> list[Ranking]:
        """Ranks a query, together with those that arrived while others were ranked."""
        own = _WaitingQuery(query, (id(gallery), query.encodings.encoder, method, top))
        with self.waiting_lock:
            self.waiting.append(own)
        with self.ranking_lock:
            if own.rankings is None:
                self._rank_batch(gallery, own, method, top)
        assert own.rankings is not None
        return own.rankings

    def _rank_batch(self, gallery: Gallery, first: _WaitingQuery, method: Method, top: int | None) -> None:
        with self.waiting_lock:
            others = [other for other in self.waiting if other is not first and other.batch_key == first.batch_key]
            batch = [first, *others[: MOST_TOGETHER - 1]]
            self.waiting = [other for other in self.waiting if other not in batch]
        try:
            rankings = iter(rank(gallery, [each.query for each in batch], method, top=top))
        except Exception:
            if len(batch) == 1:
                raise
            with self.waiting_lock:  # one query is refused: each is ranked by itself, so that only this one fails
                self.waiting += batch[1:]
            first.rankings = rank(gallery, first.query, method, top=top)
            return
        for each in batch:
            count = len(each.query.encodings.image_ids) if method.fusion == "none" else 1
            each.rankings = [next(rankings) for _ in range(count)]

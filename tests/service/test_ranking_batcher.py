from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mien import BASELINE, FULL, Gallery, Query, rank
from mien.errors import InvalidCohortError
from mien.service import ranking_batcher
from mien.service.ranking_batcher import RankingBatcher

from cohorts import random_cohort, random_query_arrays


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=12)


@pytest.fixture
def opened(cohort, tmp_path):
    Gallery.build(tmp_path, cohort)
    return Gallery.open(tmp_path)


def test_those_who_wait_are_ranked_together_and_get_their_own_answers(cohort, opened, rng, monkeypatch):
    """One query cannot be ranked: its photos cancel out. That is its own affair."""
    queries = [Query.of(random_query_arrays(rng, cohort, 1 + number % 3)) for number in range(30)]
    one = random_query_arrays(rng, cohort, 1)
    queries[7] = Query.of(np.concatenate([one, -one]))
    methods = [BASELINE if number % 5 == 0 else FULL for number in range(30)]
    sizes = []

    def counted(gallery, asked, *more, **options):
        sizes.append(1 if isinstance(asked, Query) else len(asked))
        return rank(gallery, asked, *more, **options)

    monkeypatch.setattr(ranking_batcher, "rank", counted)
    batcher = RankingBatcher()
    with ThreadPoolExecutor(30) as pool:
        with batcher.ranking_lock:
            futures = [
                pool.submit(batcher.rank, opened, query, method, 5)
                for query, method in zip(queries, methods, strict=True)
            ]
            waiting = threading.Event()
            while len(batcher.waiting) < 30:
                waiting.wait(0.01)
        for number, future in enumerate(futures):
            if number == 7:
                with pytest.raises(InvalidCohortError, match="cancel out"):
                    future.result()
            else:
                assert future.result() == rank(opened, queries[number], methods[number], top=5)
    assert max(sizes) > 4
    assert batcher.waiting == []

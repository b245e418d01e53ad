from __future__ import annotations

from mien.benchmark.studying import studying_benchmarks

from studies import small_gmdb


def test_the_four_official_pairs_are_timed_against_the_usual_way():
    line = next(studying_benchmarks(small_gmdb(1)))
    assert line.amount > 0
    assert line.reference > 0

"""All benchmarks, one line after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mien.benchmark import encoding, large, serving
from mien.benchmark.importing import importing_benchmarks
from mien.benchmark.measure import Line
from mien.benchmark.ranking import ranking_benchmarks
from mien.benchmark.studying import studying_benchmarks
from mien.encoding.store import DEFAULT, stored_encoder
from mien.simulation.embeddings import GM_ARC, Layout
from mien.simulation.study import simulated_gmdb

LINES = 9 + serving.LINES + large.LINES
STUDY_LINES = 2
SMALL = 0.1  # a size that only shows whether all of it runs: embeddings are small too


def line_count(size: float) -> int:
    """How many lines there will be."""
    return LINES + (STUDY_LINES if size == 1 else 0) + (encoding.LINES if can_encode() else 0)


def can_encode() -> bool:
    """Whether the default encoder's weights are there."""
    return not stored_encoder(DEFAULT).missing()


def benchmarks(size: float) -> Iterator[Line]:
    """`size` is the gallery's as a share of GMDB's; the CSV has a tenth of that."""
    rng = np.random.default_rng(1)
    if can_encode():
        yield from encoding.encoding_benchmarks(rng, size)
    yield from importing_benchmarks(rng, size / 10)
    study = simulated_gmdb(1, layout=GM_ARC if size > SMALL else Layout(views=1, dimensions=None))
    yield from ranking_benchmarks(study, rng, size)
    yield from large.large_benchmarks(size)
    if size == 1:  # the study has one size
        yield from studying_benchmarks(study)

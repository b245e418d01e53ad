"""All benchmarks, one line after the other."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from mien.benchmark.importing import importing_benchmarks
from mien.benchmark.measure import Line
from mien.benchmark.ranking import ranking_benchmarks
from mien.core.errors import MienError

LINES = 7


def benchmarks(size: float) -> Iterator[Line]:
    """`size` is the gallery's as a share of GMDB's; the CSV has a tenth of that."""
    if missing := [name for name in ("pandas", "sklearn") if find_spec(name) is None]:
        raise MienError(f"the usual way needs {' and '.join(missing)}: pip install 'mien[bench]'")
    rng = np.random.default_rng(1)
    yield from importing_benchmarks(rng, size / 10)
    yield from ranking_benchmarks(rng, size)

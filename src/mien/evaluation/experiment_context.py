"""What every experiment works with."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from mien.core.method import Method
from mien.core.study import Release, Study
from mien.evaluation.comparison import Comparison, Ranks, SetName

Tables = dict[str, Sequence[NamedTuple]]  # what an experiment finds: rows by the name of their table
Row = TypeVar("Row", bound=NamedTuple)


def rows_of(tables: Tables, name: str, kind: type[Row]) -> list[Row]:
    """The rows of a table, as the kind that its experiment writes; none where the experiment did not run."""
    return [row for row in tables.get(name, ()) if isinstance(row, kind)]


@dataclass(frozen=True, eq=False)
class ExperimentContext:
    """A study, compared with itself once; the seed stands behind every random number of an experiment."""

    study: Study
    comparison: Comparison
    seed: int = 0
    releases: Sequence[Release] = ()

    def rng(self, purpose: str) -> np.random.Generator:
        """Random numbers of their own for each purpose, so that no experiment depends on which ran before."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    @property
    def sets(self) -> tuple[SetName, ...]:
        """The test sets that have patients."""
        return self.comparison.sets

    @property
    def all_patients(self) -> list[SetName]:
        """Those of them that have patients with one image too."""
        return [name for name in self.sets if not name.startswith("multi")]

    @property
    def multi_image_patients(self) -> list[SetName]:
        """Those of them that have only patients with several images."""
        return [name for name in self.sets if name.startswith("multi")]

    def ranks(self, test_set: SetName, method: Method) -> list[Ranks]:
        """The rankings of a set in the unified gallery, fold by fold."""
        return self.comparison.ranks(test_set, "unified", method)

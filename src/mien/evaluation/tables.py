"""Distances of test images and fused patients to the disorders of all galleries, a table for each block of cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.centroids import joined_sums
from mien.core.cohort import Encodings
from mien.core.embeddings import unit_rows
from mien.core.fusion import fuse_distances
from mien.core.index import CentroidKind
from mien.core.method import Method
from mien.core.outcomes import true_ranks_in_lists
from mien.core.parts import Everywhere
from mien.core.scores import Parts
from mien.core.scores.proportional import proportional_nearest_distances
from mien.evaluation.cases import Case
from mien.evaluation.pool import DECIMALS, IMAGES_PER_BLOCK, Groups, Pool, joined_distances
from mien.evaluation.probe_rows import Probe, ProbeRows

IMAGE_SCORES = {"nearest", "proportional"}  # they look at no centroid
NUMBERS_PER_BLOCK = 2**25  # that are kept of a block's probes: 256 MB
MOST_PROBES = 1024  # progress is told between two blocks, and a block travels to every part
ROWS_SCORED = 64  # at a time: they stay in the cache
CASES_RANKED = 64
GROUPS_PER_QUESTION = 256  # whose sums are held at a time


@dataclass(frozen=True, eq=False)
class Table:
    """Distances (probes, groups) of the cases of a block, a group's images reduced to one distance."""

    cases: range  # numbers
    row_of_probe: dict[Probe, int]
    groups: Ints  # sorted
    nearest: Floats
    centroid: dict[CentroidKind, Floats]
    proportional: dict[float, Floats]  # by alpha

    def scored(self, method: Method) -> Floats:
        """The distances (probes, groups) by a method's score."""
        images = self.proportional[method.alpha] if "alpha" in method.scoring.uses else self.nearest
        if method.score in IMAGE_SCORES:
            return images
        centroid = self.centroid[method.scoring.centroid]
        each_its_own = np.arange(len(self.groups))  # a group has one distance left, as if it had one image
        scored = np.empty_like(centroid)
        for start in range(0, len(scored), ROWS_SCORED):
            rows = slice(start, start + ROWS_SCORED)
            parts = Parts(images[rows], each_its_own, centroid[rows])
            scored[rows] = method.scoring.distance(parts, method.weights)
        return scored

    def ranks(self, scored: Floats, cases: Sequence[Case], true_column: Ints, in_list: Float32s, fusion: str) -> Ints:
        """Ranks (lists, rankings) of the cases' disorders by scored distances: one for each case, or for each image.

        `true_column` says which column each case's disorder has, -1 where it has none; `in_list` (columns, lists) which
        columns a list has.
        """
        ranks = []
        for start in range(0, len(cases), CASES_RANKED):
            some, columns = cases[start : start + CASES_RANKED], true_column[start : start + CASES_RANKED]
            images = np.array([len(case.images) for case in some], dtype=np.intp)
            probes: list[Probe] = [(image,) for case in some for image in case.images]
            if fusion == "embedding":
                probes = [case.images for case in some]
            distances: Floats = scored[[self.row_of_probe[probe] for probe in probes]]
            if fusion == "distance":
                distances = fuse_distances(distances, np.cumsum(images) - images)
            columns = np.repeat(columns, images) if fusion == "none" else columns
            ranks.append(true_ranks_in_lists(distances, columns, in_list))
        return np.concatenate(ranks, axis=1)


@dataclass(frozen=True, eq=False)
class Comparer:
    """Compares probes with the groups of all parts."""

    encodings: Encodings  # of the test images
    groups: Groups
    everywhere: Everywhere[Pool]
    centroid_rows: dict[CentroidKind, Float64s]  # (groups, representations * dimensions)
    alphas: tuple[float, ...]

    @classmethod
    def of(
        cls,
        encodings: Encodings,
        groups: Groups,
        everywhere: Everywhere[Pool],
        *,
        centroids: Sequence[CentroidKind],
        alphas: Sequence[float],
    ) -> Comparer:
        """Makes the centroids, once."""
        width = encodings.embeddings[0].size
        rows = {kind: _centroid_rows(groups, everywhere, kind, width) for kind in centroids}
        return cls(encodings, groups, everywhere, rows, tuple(alphas))

    @property
    def most_probes(self) -> int:
        """How many may be in one block."""
        kept = len(self.groups.labels) * (2 + len(self.centroid_rows) + len(self.alphas))  # and those scored
        representations, dimensions = self.encodings.embeddings.shape[1:]
        passing: int = representations * dimensions + (1 + representations) * IMAGES_PER_BLOCK
        if self.alphas:
            passing += 2 * int(self.groups.sizes.sum())  # once as parts answer, once joined
        return max(1, min(MOST_PROBES, NUMBERS_PER_BLOCK // (kept + passing)))

    def table(self, cases: range, probes: Sequence[Probe], groups: Ints) -> Table:
        """The distances of a block's probes to the groups that they meet."""
        rows = ProbeRows.of(self.encodings.embeddings, probes)
        ask = partial(Pool.distances, rows=rows, groups=groups, each=bool(self.alphas))
        [found] = self.everywhere.combined([ask], joined_distances)
        centroid: dict[CentroidKind, Floats] = {
            kind: rows.distances(_some(of_kind, groups)).round(DECIMALS) for kind, of_kind in self.centroid_rows.items()
        }
        row_of_probe = {probe: row for row, probe in enumerate(probes)}
        return Table(cases, row_of_probe, groups, found.nearest, centroid, self._proportional(found.each, groups))

    def _proportional(self, image_distances: Float64s, groups: Ints) -> dict[float, Floats]:
        if not self.alphas:
            return {}
        sizes = self.groups.sizes[groups]
        by_alpha = proportional_nearest_distances(image_distances, np.cumsum(sizes) - sizes, alphas=self.alphas)
        return {alpha: distances.round(DECIMALS) for alpha, distances in by_alpha.items()}


def blocks_of(cases: Sequence[Case], most_probes: int, *, fused: bool = True) -> Iterator[tuple[range, list[Probe]]]:
    """Cases one after the other in blocks, each with its distinct probes, fused ones if asked; a case is in one block.

    >>> cases = [Case("p", "A", (0, 1)), Case("q", "A", (2,)), Case("r", "B", (3,))]
    >>> list(blocks_of(cases, 4))
    [(range(0, 2), [(0,), (1,), (0, 1), (2,)]), (range(2, 3), [(3,)])]
    """
    start = 0
    block: dict[Probe, None] = {}
    for number, case in enumerate(cases):
        probes = dict.fromkeys([*((image,) for image in case.images), *[case.images] * fused])
        if block and len(block) + len(probes.keys() - block.keys()) > most_probes:
            yield range(start, number), list(block)
            start, block = number, {}
        block |= probes
    if block:
        yield range(start, len(cases)), list(block)


def _centroid_rows(groups: Groups, everywhere: Everywhere[Pool], kind: CentroidKind, width: int) -> Float64s:
    rows = np.empty((len(groups.labels), width))
    for start in range(0, len(rows), GROUPS_PER_QUESTION):
        asked = np.arange(start, min(start + GROUPS_PER_QUESTION, len(rows)))
        [sums] = everywhere.combined([partial(Pool.sums, groups=asked, kind=kind)], joined_sums)
        for group, of_group in sums.items():
            rows[group] = unit_rows(of_group.means)[0]
    return rows


def _some(rows: Float64s, chosen: Ints) -> Float64s:
    """Some rows; without a copy where it is all of them."""
    return rows if len(chosen) == len(rows) else rows[chosen]

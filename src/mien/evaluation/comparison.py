"""Every test image and every fused patient against every gallery: the distances that all measures are made of.

Products are in float64 and distances are kept to twelve decimals: what BLAS does with the last bits, in whichever
blocks and threads, decides no rank, and equal embeddings tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float64s, Floats, Ints
from mien.core.cohort import Encodings
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.fusion import fuse_distances, fuse_embeddings
from mien.core.index import CentroidKind, disorder_sums
from mien.core.method import Method
from mien.core.outcomes import MISSED, true_ranks
from mien.core.progress import Progress, silent
from mien.core.roster import Label, Roster
from mien.core.scores import Parts
from mien.core.scores.nearest import nearest_distance
from mien.core.scores.patient_centroid import centroid_distance
from mien.core.scores.proportional import proportional_nearest_distances
from mien.evaluation.cases import Case, Round

SetName = Literal["freq", "rare", "multi-freq", "multi-rare"]
GalleryName = Literal["unified", "split"]

SETS: tuple[SetName, ...] = ("freq", "rare", "multi-freq", "multi-rare")
GALLERIES: tuple[GalleryName, ...] = ("unified", "split")
CENTROIDS: tuple[CentroidKind, ...] = ("image", "patient")
IMAGE_SCORES = {"nearest", "proportional"}  # they look at no centroid
PROBES_PER_BLOCK = 512
DECIMALS = 12


class Ranks(NamedTuple):
    """One fold's rankings: the rank of the true disorder in each, and whose ranking it is."""

    ranks: Ints
    case_of_ranking: Ints  # rankings of one case stand together
    cases: tuple[Case, ...]
    round: Round


@dataclass(frozen=True, eq=False)
class Table:
    """Distances (probes, disorders) of some probes to one gallery, its images reduced to one distance per disorder."""

    roster: Roster
    row_of_probe: Ints  # -1 where a probe does not meet this gallery
    nearest: Float64s
    centroid: dict[CentroidKind, Float64s]
    proportional: dict[float, Float64s]  # by alpha

    @classmethod
    def empty(
        cls,
        gallery: Sequence[Label],
        probes: set[int],
        probe_count: int,
        alphas: Sequence[float],
        centroids: Sequence[CentroidKind],
    ) -> Table:
        """A table to be filled."""
        roster = Roster.of_labels(gallery)
        row_of_probe = np.full(probe_count, -1)
        row_of_probe[sorted(probes)] = np.arange(len(probes))
        shape = len(probes), len(roster.disorders)
        centroid: dict[CentroidKind, Float64s] = {kind: np.empty(shape) for kind in centroids}
        return cls(roster, row_of_probe, np.empty(shape), centroid, {alpha: np.empty(shape) for alpha in alphas})

    def distances(self, probes: Ints, method: Method) -> Floats:
        """The disorders' distances by a method's score."""
        rows = self.row_of_probe[probes]
        per_image = self.proportional[method.alpha] if method.score == "proportional" else self.nearest
        each_its_own = np.arange(per_image.shape[1])  # a disorder has one distance left, as if it had one image
        centroid = per_image if method.score in IMAGE_SCORES else self.centroid[method.scoring.centroid]
        parts = Parts(per_image[rows], each_its_own, centroid[rows])
        return method.scoring.distance(parts, method.weights)

    def true_disorders(self, cases: Sequence[Case]) -> Ints:
        """Where each case's disorder stands in the table; -1 where the gallery lacks it."""
        place = {disorder.disorder_id: place for place, disorder in enumerate(self.roster.disorders)}
        return np.array([place.get(case.disorder_id, -1) for case in cases], dtype=np.intp)


class Comparison:
    """The rounds of a study, compared once; ranks by any method follow from the tables."""

    def __init__(
        self,
        encodings: Encodings,
        rounds: Sequence[Round],
        *,
        alphas: Sequence[float] = (),
        centroids: Sequence[CentroidKind] = CENTROIDS,
        progress: Progress = silent,
    ) -> None:
        """`alphas` of the proportional score and kinds of `centroids` are those that will be asked for."""
        self.rounds = tuple(rounds)
        self._probe_of: dict[tuple[int, ...], int] = {}  # by the images that are fused in it
        self._tables = self._compare(encodings, self._empty_tables(alphas, centroids), progress)
        self._known: dict[tuple[str, str, Method], list[Ranks]] = {}

    @property
    def sets(self) -> tuple[SetName, ...]:
        """The test sets that have cases."""
        cases = {
            "freq": [case for one in self.rounds for case in one.frequent_cases],
            "rare": [case for one in self.rounds for case in one.rare_cases],
        }
        multi = {f"multi-{part}": [case for case in of if len(case.images) > 1] for part, of in cases.items()}
        return tuple(name for name in SETS if {**cases, **multi}[name])

    @property
    def galleries(self) -> tuple[GalleryName, ...]:
        """The galleries that differ: with frequent disorders only, or rare ones only, there is but one."""
        both = any(one.frequent_gallery for one in self.rounds) and any(one.rare_gallery for one in self.rounds)
        return GALLERIES if both else ("unified",)

    def ranks(self, test_set: SetName, gallery: GalleryName, method: Method) -> list[Ranks]:
        """The rankings of one test set, fold by fold; a fold without cases is left out."""
        part = test_set.removeprefix("multi-")
        if (part, gallery, method) not in self._known:
            self._known[part, gallery, method] = [self._ranks(part, gallery, method, one) for one in self.rounds]
        ranks = self._known[part, gallery, method]
        chosen = ranks if part == test_set else [multi_image_only(fold) for fold in ranks]
        return [fold for fold in chosen if fold.cases]

    def _ranks(self, part: str, gallery: str, method: Method, one: Round) -> Ranks:
        cases = one.frequent_cases if part == "freq" else one.rare_cases
        galleries = one.frequent_gallery, one.rare_gallery
        own, other = galleries if part == "freq" else galleries[::-1]
        if not cases:
            return Ranks(np.zeros(0, np.intp), np.zeros(0, np.intp), (), one)
        if method.fusion == "embedding":
            case_of_probe = np.arange(len(cases))
            probes = [self._probe_of[case.images] for case in cases]
        else:
            case_of_probe = np.repeat(np.arange(len(cases)), [len(case.images) for case in cases])
            probes = [self._probe_of[image,] for case in cases for image in case.images]
        case_of_ranking = case_of_probe if method.fusion == "none" else np.arange(len(cases))
        if not own:  # none of their disorders is in the gallery
            return Ranks(np.full(len(case_of_ranking), MISSED), case_of_ranking, cases, one)
        met = [own, other] if gallery == "unified" and other else [own]
        tables = [self._tables[id(labels)] for labels in met]
        distances = np.hstack([table.distances(np.array(probes), method) for table in tables])
        if method.fusion == "distance":
            distances = fuse_distances(distances, np.searchsorted(case_of_probe, np.arange(len(cases))))
        ranks = true_ranks(distances, tables[0].true_disorders(cases)[case_of_ranking])
        return Ranks(ranks, case_of_ranking, cases, one)

    def _compare(self, encodings: Encodings, tables: dict[int, Table], progress: Progress) -> dict[int, Table]:
        row_of_image = {image_id: row for row, image_id in enumerate(encodings.image_ids)}
        rows_of_table = {
            key: np.array([row_of_image[image_id] for image_id in table.roster.image_ids], dtype=np.intp)
            for key, table in tables.items()
        }
        pool, place_in_pool = np.unique(np.concatenate(list(rows_of_table.values())), return_inverse=True)
        ends = np.cumsum([len(rows) for rows in rows_of_table.values()])
        places = dict(zip(tables, np.split(place_in_pool, ends[:-1]), strict=True))
        pool_rows = unit_rows(encodings.embeddings[pool])
        centroids = {key: _centroid_rows(table, encodings, rows_of_table[key]) for key, table in tables.items()}
        probes = list(self._probe_of)
        for start in range(0, len(probes), PROBES_PER_BLOCK):
            progress(start, len(probes))
            block = probes[start : start + PROBES_PER_BLOCK]
            rows = unit_rows(np.stack([fuse_embeddings(encodings.embeddings[list(images)]) for images in block]))
            image_distances = mean_cosine_distance(rows, pool_rows)
            for key, table in tables.items():
                row_of_probe = table.row_of_probe[start : start + PROBES_PER_BLOCK]
                inside = np.flatnonzero(row_of_probe >= 0)
                columns = places[key][table.roster.image_of_label]
                _fill(table, row_of_probe[inside], image_distances[np.ix_(inside, columns)])
                for kind, distances in table.centroid.items():
                    of_kind = centroid_distance(rows[inside], centroids[key][kind])
                    distances[row_of_probe[inside]] = of_kind.round(DECIMALS)
        progress(len(probes), len(probes))
        return tables

    def _empty_tables(self, alphas: Sequence[float], centroids: Sequence[CentroidKind]) -> dict[int, Table]:
        """One table per gallery, by the identity of its labels: folds that share a gallery share its table."""
        galleries: dict[int, tuple[Label, ...]] = {}
        probes_of: dict[int, set[int]] = {}
        for one in self.rounds:
            sets = [case.images for case in (*one.frequent_cases, *one.rare_cases)]
            images = [(image,) for images in sets for image in images]
            probes = {self._probe_of.setdefault(images, len(self._probe_of)) for images in (*images, *sets)}
            for gallery in filter(None, (one.frequent_gallery, one.rare_gallery)):
                galleries[id(gallery)] = gallery
                probes_of.setdefault(id(gallery), set()).update(probes)
        count = len(self._probe_of)
        return {
            key: Table.empty(gallery, probes_of[key], count, alphas, centroids) for key, gallery in galleries.items()
        }


def _fill(table: Table, rows: Ints, image_distances: Floats) -> None:
    first_label = table.roster.first_label
    table.nearest[rows] = nearest_distance(image_distances, first_label).round(DECIMALS)
    if table.proportional:
        by_alpha = proportional_nearest_distances(image_distances, first_label, alphas=list(table.proportional))
        for alpha, distances in by_alpha.items():
            table.proportional[alpha][rows] = distances.round(DECIMALS)


def _centroid_rows(table: Table, encodings: Encodings, rows: Ints) -> dict[CentroidKind, Float64s]:
    roster, width = table.roster, encodings.embeddings[0].size
    centroids: dict[CentroidKind, Float64s] = {
        kind: np.empty((len(roster.disorders), width)) for kind in table.centroid
    }
    for disorder in range(len(roster.disorders)) if centroids else ():
        images = roster.images_with(disorder)
        raw = encodings.embeddings[rows[images]]
        for kind, of_kind in centroids.items():
            of_kind[disorder] = unit_rows(disorder_sums(raw, roster.patient_of_image[images], kind).means)[0]
    return centroids


def multi_image_only(fold: Ranks) -> Ranks:
    """The cases with more than one image."""
    return only(fold, np.array([len(case.images) > 1 for case in fold.cases], dtype=bool))


def only(fold: Ranks, chosen: Bools) -> Ranks:
    """The rankings of some cases."""
    inside = chosen[fold.case_of_ranking]
    return fold._replace(
        ranks=fold.ranks[inside],
        case_of_ranking=(np.cumsum(chosen) - 1)[fold.case_of_ranking[inside]],
        cases=tuple(case for case, wanted in zip(fold.cases, chosen.tolist(), strict=True) if wanted),
    )

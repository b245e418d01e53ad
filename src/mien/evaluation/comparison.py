"""Every test image and every fused patient against every gallery: the distances that all measures are made of.

Products are in float64 and distances are kept to twelve decimals: what BLAS does with the last bits, in whichever
blocks, threads and parts, decides no rank, and equal embeddings tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Bools, Ints
from mien.core.cohort import Encodings
from mien.core.errors import InvalidMethodError
from mien.core.index import CentroidKind
from mien.core.method import Method
from mien.core.outcomes import MISSED
from mien.core.parts import Everywhere, Here
from mien.core.progress import Progress, silent
from mien.evaluation.cases import Case, Round
from mien.evaluation.pool import Gallery, Groups, Pool, check_parts
from mien.evaluation.tables import IMAGE_SCORES, Comparer, Table, blocks_of

SetName = Literal["freq", "rare", "multi-freq", "multi-rare"]
GalleryName = Literal["unified", "split"]
PartName = Literal["freq", "rare"]

SETS: tuple[SetName, ...] = ("freq", "rare", "multi-freq", "multi-rare")
GALLERIES: tuple[GalleryName, ...] = ("unified", "split")
PARTS: tuple[PartName, ...] = ("freq", "rare")
CENTROIDS: tuple[CentroidKind, ...] = ("image", "patient")

Places = Callable[[Encodings, Sequence[Gallery]], Everywhere[Pool]]  # of the images of some galleries


class Ranks(NamedTuple):
    """One fold's rankings: the rank of the true disorder in each, and whose ranking it is."""

    ranks: Ints
    case_of_ranking: Ints  # rankings of one case stand together
    cases: tuple[Case, ...]
    round: Round


class Comparison:
    """The rounds of a study, compared once, block by block of cases.

    Where the methods are known ahead, only their ranks are kept. Else the tables are, and ranks by any method follow.
    """

    def __init__(
        self,
        encodings: Encodings,
        rounds: Sequence[Round],
        *,
        methods: Sequence[Method] | None = None,
        galleries: Sequence[GalleryName] = GALLERIES,
        alphas: Sequence[float] = (),
        centroids: Sequence[CentroidKind] = CENTROIDS,
        parts: Places | None = None,
        progress: Progress = silent,
    ) -> None:
        """`methods` and `galleries` are those that will be asked for.

        Without `methods`, `alphas` of the proportional score and kinds of `centroids` are. `parts` gets the distinct
        galleries and says where their images are; else the encodings have them all.
        """
        self.rounds = tuple(rounds)
        self.methods = None if methods is None else tuple(dict.fromkeys(methods))
        if self.methods is not None:
            alphas = sorted({method.alpha for method in self.methods if "alpha" in method.scoring.uses})
            kinds = {method.scoring.centroid for method in self.methods if method.score not in IMAGE_SCORES}
            centroids = [kind for kind in CENTROIDS if kind in kinds]
        distinct = {id(gallery): gallery for one in self.rounds for gallery in one[:2] if gallery}
        self._place_of_gallery = {key: place for place, key in enumerate(distinct)}
        self._groups = Groups.of(list(distinct.values()))
        everywhere = (
            parts(encodings, list(distinct.values())) if parts else Here([Pool.of_groups(encodings, self._groups)])
        )
        check_parts(self._groups, everywhere(Pool.image_ids))
        comparer = Comparer.of(encodings, self._groups, everywhere, centroids=centroids, alphas=alphas)
        self._tables: list[Table] = []
        self._asked = [gallery for gallery in self.galleries if gallery in galleries]
        self._known: dict[tuple[GalleryName, Method], dict[PartName, list[Ranks]]] = {
            (gallery, method): self._unranked(method) for gallery, method in product(self._asked, self.methods or ())
        }
        self._compare(comparer, progress)

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

    def knows(self, method: Method) -> bool:
        """Whether ranks by a method can be asked for."""
        return self.methods is None or method in self.methods

    def ranks(self, test_set: SetName, gallery: GalleryName, method: Method) -> list[Ranks]:
        """The rankings of one test set, fold by fold; a fold without cases is left out."""
        if (gallery, method) not in self._known:
            if self.methods is not None:
                raise InvalidMethodError(
                    f"{method} in the {gallery} gallery was not compared: name it where the comparison is made"
                )
            self._known[gallery, method] = self._unranked(method)
            for table in self._tables:
                self._rank(table, method, [gallery])
        part: PartName = "freq" if test_set.endswith("freq") else "rare"
        ranks = self._known[gallery, method][part]
        chosen = ranks if part == test_set else [multi_image_only(fold) for fold in ranks]
        return [fold for fold in chosen if fold.cases]

    def _compare(self, comparer: Comparer, progress: Progress) -> None:
        """Keeps each block's table, or the ranks that follow from it."""
        for cases, probes in blocks_of(list(self._number_of_case), comparer.most_probes):
            progress(cases.start, len(self._number_of_case))
            table = comparer.table(cases, probes, self._groups_met(cases))
            if self.methods is None:
                self._tables.append(table)
            for method in self.methods or ():
                self._rank(table, method, self._asked)
        progress(len(self._number_of_case), len(self._number_of_case))

    def _unranked(self, method: Method) -> dict[PartName, list[Ranks]]:
        """All missed: what no gallery has, or nobody has ranked yet."""
        folds: dict[PartName, list[Ranks]] = {part: [] for part in PARTS}
        for one in self.rounds:
            for part, cases in zip(PARTS, (one.frequent_cases, one.rare_cases), strict=True):
                rankings = [len(case.images) if method.fusion == "none" else 1 for case in cases]
                case_of_ranking = np.repeat(np.arange(len(cases)), np.array(rankings, dtype=np.intp))
                folds[part].append(Ranks(np.full(len(case_of_ranking), MISSED), case_of_ranking, cases, one))
        return folds

    def _rank(self, table: Table, method: Method, galleries: Sequence[GalleryName]) -> None:
        """Fills in the ranks of a block's cases."""
        scored = table.scored(method)
        for gallery in galleries:
            for part, folds in self._known[gallery, method].items():
                for fold in folds:
                    inside = self._inside(table.cases, fold.cases)
                    met = self._galleries_met(fold.round, part, gallery)
                    if met and inside.any():
                        cases = [fold.cases[case] for case in np.flatnonzero(inside).tolist()]
                        groups = np.concatenate([self._groups.of_gallery[place] for place in met])
                        true_place = self._true_places(cases, met[0])
                        ranks = table.ranks(scored, cases, groups, true_place, method.fusion)
                        fold.ranks[inside[fold.case_of_ranking]] = ranks

    def _true_places(self, cases: Sequence[Case], gallery: int) -> Ints:
        """Where each case's disorder stands in a gallery; -1 where the gallery lacks it."""
        place_of = self._groups.places[gallery]
        return np.array([place_of.get(case.disorder_id, -1) for case in cases], dtype=np.intp)

    def _galleries_met(self, one: Round, part: PartName, gallery: GalleryName) -> list[int]:
        """Which galleries a part's cases are ranked in, their own first; none where that is empty."""
        galleries = one.frequent_gallery, one.rare_gallery
        own, other = galleries if part == "freq" else galleries[::-1]
        met = [own, other] if own and other and gallery == "unified" else [own]
        return [self._place_of_gallery[id(labels)] for labels in met if labels]

    @cached_property
    def _number_of_case(self) -> dict[Case, int]:
        """Each case once, in the order of rounds."""
        every = (case for one in self.rounds for case in (*one.frequent_cases, *one.rare_cases))
        return {case: number for number, case in enumerate(dict.fromkeys(every))}

    @cached_property
    def _numbers(self) -> dict[int, Ints]:
        """The numbers of each fold's cases, by the identity of these: folds may share them."""
        every = {id(cases): cases for one in self.rounds for cases in one[2:]}
        return {
            key: np.array([self._number_of_case[case] for case in cases], dtype=np.intp) for key, cases in every.items()
        }

    def _inside(self, block: range, cases: tuple[Case, ...]) -> Bools:
        """Which cases of a fold are in a block."""
        numbers = self._numbers[id(cases)]
        inside: Bools = (numbers >= block.start) & (numbers < block.stop)
        return inside

    def _groups_met(self, block: range) -> Ints:
        """The groups of the galleries of all rounds in which a block's cases are."""
        met = {
            self._place_of_gallery[id(gallery)]
            for one in self.rounds
            if any(self._inside(block, cases).any() for cases in one[2:])
            for gallery in one[:2]
            if gallery
        }
        return np.unique(np.concatenate([np.zeros(0, np.intp), *(self._groups.of_gallery[place] for place in met)]))


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

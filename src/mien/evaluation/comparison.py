"""Every test image and every fused patient against every gallery: the distances that all measures are made of.

Products are in float64 and distances are kept to twelve decimals: what BLAS does with the last bits, in whichever
blocks, threads and parts, decides no rank, and equal embeddings tie.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from threading import Lock
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Bools, Float32s, Ints
from mien.core.cohort import Encodings
from mien.core.errors import InvalidMethodError
from mien.core.gallery_parts import LocalParts, Parts
from mien.core.index import CentroidKind
from mien.core.method import Method
from mien.core.progress import Progress, silent
from mien.evaluation.evaluated_patients import EvaluatedFold, EvaluatedPatient
from mien.evaluation.gallery_images import Gallery, GalleryImages, Groups, check_parts
from mien.evaluation.outcomes import MISSED
from mien.evaluation.probe_rows import Probe
from mien.evaluation.side_by_side import side_by_side
from mien.evaluation.tables import Comparer, Table, blocks_of

SetName = Literal["freq", "rare", "multi-freq", "multi-rare"]
GalleryName = Literal["unified", "split"]
PartName = Literal["freq", "rare"]

SETS: tuple[SetName, ...] = ("freq", "rare", "multi-freq", "multi-rare")
GALLERIES: tuple[GalleryName, ...] = ("unified", "split")
PARTS: tuple[PartName, ...] = ("freq", "rare")
CENTROIDS: tuple[CentroidKind, ...] = ("image", "patient")

ImagePlaces = Callable[[Encodings, Sequence[Gallery]], Parts[GalleryImages]]  # of the images of some galleries
Place = tuple[GalleryName, PartName, int, Bools]  # of some ranks: the number of a fold, and which of its cases


class Ranks(NamedTuple):
    """One fold's rankings: the rank of the true disorder in each, and whose ranking it is."""

    ranks: Ints
    case_of_ranking: Ints  # rankings of one case stand together
    cases: tuple[EvaluatedPatient, ...]
    round: EvaluatedFold


class RankedTogether(NamedTuple):
    """Cases of a block with the same true groups in several lists: one comparison with these does for all lists."""

    cases: tuple[EvaluatedPatient, ...]
    true_column: Ints  # of the block's table; -1 where the disorder is in no list
    in_list: Float32s  # (columns, lists): one or zero
    places: list[Place]  # of the ranks in each list


class Comparison:
    """The folds of a study, compared once, block by block of cases.

    A case whose patient is in a gallery meets that gallery without this patient, centroids included.
    Where the methods are known ahead, only their ranks are kept. Else the tables are, and ranks by any method follow.
    """

    def __init__(
        self,
        encodings: Encodings,
        folds: Sequence[EvaluatedFold],
        *,
        methods: Sequence[Method] | None = None,
        galleries: Sequence[GalleryName] = GALLERIES,
        averaging: Sequence[Method] = (),
        leave_out: bool = True,
        parts: ImagePlaces | None = None,
        progress: Progress = silent,
    ) -> None:
        """`methods` and `galleries` are those that will be asked for.

        Without `methods`, all are, but of those that average nearest images only the ones in `averaging`. `parts` gets
        the distinct galleries and says where their images are; else the encodings have them all. Without `leave_out`
        nobody is left out of a gallery, as in the official script.
        """
        self.folds = tuple(folds)
        self.methods = None if methods is None else tuple(dict.fromkeys(methods))
        averaging = averaging if self.methods is None else self.methods
        kinds = CENTROIDS if self.methods is None else {method.scoring.centroid for method in self.methods}
        centroids = [kind for kind in CENTROIDS if kind in kinds]
        distinct = {id(gallery): gallery for one in self.folds for gallery in one[:2] if gallery}
        self._place_of_gallery = {key: place for place, key in enumerate(distinct)}
        every = list(distinct.values())
        # where a gallery's disorders of a patient are, without the patient
        self._without: dict[tuple[int, str], int] = {}
        for place, patient_id in self._own_galleries() if leave_out else ():
            self._without[place, patient_id] = len(every)
            every.append(others_with_the_same_disorders(every[place], patient_id))
        self._groups = Groups.of(every)
        pools = parts(encodings, every) if parts else LocalParts([GalleryImages.of_groups(encodings, self._groups)])
        check_parts(self._groups, pools.ask(GalleryImages.image_ids))
        comparer = Comparer.of(encodings, self._groups, pools, centroids=centroids, averaging=averaging)
        self._tables: list[Table] = []
        self._ranking = Lock()
        self._asked = [gallery for gallery in self.galleries if gallery in galleries]
        self._known: dict[tuple[GalleryName, Method], dict[PartName, list[Ranks]]] = {
            (gallery, method): self._unranked(method) for gallery, method in product(self._asked, self.methods or ())
        }
        self._compare(comparer, progress, in_parts=parts is not None)

    @property
    def sets(self) -> tuple[SetName, ...]:
        """The test sets that have cases."""
        cases = {
            "freq": [case for one in self.folds for case in one.frequent_cases],
            "rare": [case for one in self.folds for case in one.rare_cases],
        }
        multi = {f"multi-{part}": [case for case in of if len(case.images) > 1] for part, of in cases.items()}
        return tuple(name for name in SETS if {**cases, **multi}[name])

    @property
    def galleries(self) -> tuple[GalleryName, ...]:
        """The galleries that differ: with frequent disorders only, or rare ones only, there is but one."""
        both = any(one.frequent_gallery for one in self.folds) and any(one.rare_gallery for one in self.folds)
        return GALLERIES if both else ("unified",)

    def knows(self, method: Method) -> bool:
        """Whether ranks by a method can be asked for."""
        return self.methods is None or method in self.methods

    def ranks(self, test_set: SetName, gallery: GalleryName, method: Method) -> list[Ranks]:
        """The rankings of one test set, fold by fold; a fold without cases is left out."""
        with self._ranking:  # whoever asks for the same at the same time waits for it
            if (gallery, method) not in self._known:
                if self.methods is not None:
                    raise InvalidMethodError(
                        f"{method} in the {gallery} gallery was not compared: name it where the comparison is made"
                    )
                self._known[gallery, method] = self._unranked(method)
                deque(side_by_side(lambda table: self._rank(table, [method], [gallery]), self._tables), maxlen=0)
        part: PartName = "freq" if test_set.endswith("freq") else "rare"
        ranks = self._known[gallery, method][part]
        if test_set != part:
            ranks = [only(fold, np.array([len(case.images) > 1 for case in fold.cases], dtype=bool)) for fold in ranks]
        return [fold for fold in ranks if fold.cases]

    def _compare(self, comparer: Comparer, progress: Progress, *, in_parts: bool) -> None:
        """Keeps each block's table, or the ranks that follow from it."""

        def compared(block: tuple[list[EvaluatedPatient], list[Probe]]) -> Table:
            return comparer.table(*block, self._groups_met(block[0]))

        cases = dict.fromkeys(case for one in self.folds for case in (*one.frequent_cases, *one.rare_cases))
        fused = self.methods is None or any(method.fusion == "embedding" for method in self.methods)
        blocks = blocks_of(cases, comparer.most_probes, fused=fused)
        done = 0
        for table in map(compared, blocks) if in_parts else side_by_side(compared, blocks):
            progress(done, len(cases))
            done += len(table.cases)
            if self.methods is None:
                self._tables.append(table)
            else:
                self._rank(table, self.methods, self._asked)
        progress(len(cases), len(cases))

    def _unranked(self, method: Method) -> dict[PartName, list[Ranks]]:
        """All missed: what no gallery has, or nobody has ranked yet."""
        folds: dict[PartName, list[Ranks]] = {part: [] for part in PARTS}
        for one in self.folds:
            for part, cases in zip(PARTS, (one.frequent_cases, one.rare_cases), strict=True):
                rankings = [len(case.images) if method.fusion == "none" else 1 for case in cases]
                case_of_ranking = np.repeat(np.arange(len(cases)), np.array(rankings, dtype=np.intp))
                folds[part].append(Ranks(np.full(len(case_of_ranking), MISSED), case_of_ranking, cases, one))
        return folds

    def _rank(self, table: Table, methods: Sequence[Method], galleries: Sequence[GalleryName]) -> None:
        """Fills in the ranks of a block's cases."""
        together = list(self._ranked_together(table, galleries))
        for method in methods:
            scored = table.scored(method)
            for cases, true_column, in_list, places in together:
                ranks = table.ranks(scored, cases, true_column, in_list, method.fusion)
                for (gallery, part, number, chosen), of_place in zip(places, ranks, strict=True):
                    fold = self._known[gallery, method][part][number]
                    fold.ranks[chosen[fold.case_of_ranking]] = of_place

    def _ranked_together(self, table: Table, galleries: Sequence[GalleryName]) -> Iterator[RankedTogether]:
        """A block's cases, together where they have the same true groups: those of frequent disorders in all folds."""
        found: dict[tuple[tuple[EvaluatedPatient, ...], tuple[int, ...]], list[tuple[Ints, Place]]] = {}
        block = set(table.cases)
        for gallery, (number, one), part in product(galleries, enumerate(self.folds), PARTS):
            cases = one.frequent_cases if part == "freq" else one.rare_cases
            inside = [number for number, case in enumerate(cases) if case in block]
            for groups, numbers in self._by_groups_met(self._galleries_met(one, part, gallery), cases, inside):
                some, chosen = tuple(cases[case] for case in numbers), np.isin(np.arange(len(cases)), numbers)
                same = found.setdefault((some, self._true_groups(some, groups)), [])
                same.append((groups, (gallery, part, number, chosen)))
        for (some, true_groups), lists in found.items():
            true_column = np.where(np.array(true_groups) < 0, -1, np.searchsorted(table.groups, true_groups))
            in_list = np.stack([np.isin(table.groups, groups) for groups, _ in lists], axis=1)
            yield RankedTogether(some, true_column, in_list.astype(np.float32), [place for _, place in lists])

    def _by_groups_met(
        self, galleries: Sequence[int], cases: Sequence[EvaluatedPatient], numbers: Sequence[int]
    ) -> Iterator[tuple[Ints, list[int]]]:
        """Some cases, together where they meet the same groups: who is in a gallery goes alone."""
        if not galleries:
            return
        patients = {patient_id for place, patient_id in self._without if place in galleries}
        together: dict[str | None, list[int]] = {}
        for case in numbers:
            own = cases[case].patient_id
            together.setdefault(own if own in patients else None, []).append(case)
        for patient_id, some in together.items():
            groups = np.concatenate([self._groups_without(place, patient_id) for place in galleries])
            if len(groups):
                yield groups, some

    def _groups_without(self, gallery: int, patient_id: str | None) -> Ints:
        """A gallery's groups; those of a patient who is in it are replaced by what is left of them."""
        groups = self._groups.of_gallery[gallery]
        if patient_id is None or (gallery, patient_id) not in self._without:
            return groups
        with_patient = [
            any(label.patient_id == patient_id for label in self._groups.labels[g]) for g in groups.tolist()
        ]
        left = self._groups.of_gallery[self._without[gallery, patient_id]]
        return np.concatenate([groups[~np.array(with_patient)], left])

    def _true_groups(self, cases: Sequence[EvaluatedPatient], groups: Ints) -> tuple[int, ...]:
        """The one of some groups that has each case's disorder; -1 where none has."""
        group_of = {self._groups.labels[group][0].disorder_id: group for group in groups.tolist()}
        return tuple(group_of.get(case.disorder_id, -1) for case in cases)

    def _own_galleries(self) -> Iterator[tuple[int, str]]:
        """The galleries that have the patient of a case that meets them, each with the patient."""
        patients_of = {id(gallery): {x.patient_id for x in gallery} for one in self.folds for gallery in one[:2]}
        tested_of = {id(cases): {case.patient_id for case in cases} for one in self.folds for cases in one[2:]}
        found = {
            (self._place_of_gallery[id(gallery)], patient_id)
            for one in self.folds
            for gallery in one[:2]
            for cases in one[2:]
            for patient_id in patients_of[id(gallery)] & tested_of[id(cases)]
        }
        yield from sorted(found)

    def _galleries_met(self, one: EvaluatedFold, part: PartName, gallery: GalleryName) -> list[int]:
        """Which galleries a part's cases are ranked in, their own first; none where that is empty."""
        galleries = one.frequent_gallery, one.rare_gallery
        own, other = galleries if part == "freq" else galleries[::-1]
        met = [own, other] if own and other and gallery == "unified" else [own]
        return [self._place_of_gallery[id(labels)] for labels in met if labels]

    def _groups_met(self, block: Sequence[EvaluatedPatient]) -> Ints:
        """The groups of the galleries of all folds in which a block's cases are."""
        inside = set(block)
        met = {
            self._place_of_gallery[id(gallery)]
            for one in self.folds
            if any(not inside.isdisjoint(cases) for cases in one[2:])
            for gallery in one[:2]
            if gallery
        }
        patients = {case.patient_id for case in block}
        met |= {
            extra for (place, patient_id), extra in self._without.items() if place in met and patient_id in patients
        }
        return np.unique(np.concatenate([np.zeros(0, np.intp), *(self._groups.of_gallery[place] for place in met)]))


def others_with_the_same_disorders(gallery: Gallery, patient_id: str) -> Gallery:
    """The labels of everybody else who has a disorder of the patient.

    >>> from mien.core.roster import Label
    >>> others_with_the_same_disorders((Label("1", "p", "A"), Label("2", "q", "A"), Label("3", "q", "B")), "p")
    (Label(image_id='2', patient_id='q', disorder_id='A'),)
    """
    disorders = {label.disorder_id for label in gallery if label.patient_id == patient_id}
    return tuple(x for x in gallery if x.patient_id != patient_id and x.disorder_id in disorders)


def only(fold: Ranks, chosen: Bools) -> Ranks:
    """The rankings of some cases."""
    inside = chosen[fold.case_of_ranking]
    return fold._replace(
        ranks=fold.ranks[inside],
        case_of_ranking=(np.cumsum(chosen) - 1)[fold.case_of_ranking[inside]],
        cases=tuple(case for case, wanted in zip(fold.cases, chosen.tolist(), strict=True) if wanted),
    )

"""Every test image and every fused patient against every gallery: the distances that all measures are made of.

Products are in float64 and distances are kept to twelve decimals: what BLAS does with the last bits, in whichever
blocks, threads and parts, decides no rank, and equal embeddings tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Bools, Ints
from mien.core.cohort import Encodings
from mien.core.gallery_parts import LocalParts, Parts
from mien.core.method import Method
from mien.errors import InvalidMethodError
from mien.evaluation.distance_tables import Comparer, blocks_of
from mien.evaluation.evaluated_patients import PARTS, EvaluatedFold, EvaluatedPatient, PartName
from mien.evaluation.gallery_images import Gallery, GalleryImages, Groups, check_parts
from mien.evaluation.outcomes import MISSED
from mien.evaluation.parallel import in_parallel
from mien.evaluation.probe_rows import Probe
from mien.progress import Progress, silent

SetName = Literal["freq", "rare", "multi-freq", "multi-rare"]
GalleryName = Literal["unified", "split"]

SETS: tuple[SetName, ...] = ("freq", "rare", "multi-freq", "multi-rare")
GALLERIES: tuple[GalleryName, ...] = ("unified", "split")

ImagePlaces = Callable[[Encodings, Sequence[Gallery]], Parts[GalleryImages]]  # of the images of some galleries
Place = tuple[GalleryName, PartName, int, Bools]  # of some ranks: the number of a fold, and which of its patients


class Ranks(NamedTuple):
    """One fold's rankings: the rank of the true disorder in each, and whose ranking it is."""

    ranks: Ints
    patient_of_ranking: Ints  # rankings of one patient stand together
    patients: tuple[EvaluatedPatient, ...]
    fold: EvaluatedFold


class RankedTogether(NamedTuple):
    """Patients of a block who have the same true groups in several lists, and so are ranked in all lists at once."""

    patients: tuple[EvaluatedPatient, ...]
    true_groups: tuple[int, ...]  # -1 where the disorder is in no list
    lists: list[tuple[Ints, Place]]  # the groups of each, and the places of its ranks


class Comparison:
    """The folds of a study, compared once, one block of patients after the other; the ranks by some methods are kept.

    A patient who is in a gallery is compared with that gallery without this patient, centroids included.
    """

    def __init__(
        self,
        encodings: Encodings,
        folds: Sequence[EvaluatedFold],
        *,
        methods: Iterable[Method],
        galleries: Sequence[GalleryName] = GALLERIES,
        leave_out: bool = True,
        parts: ImagePlaces | None = None,
        progress: Progress = silent,
    ) -> None:
        """`methods` and `galleries` are those that will be asked for.

        `parts` gets the distinct galleries and says where their images are; else the encodings have them all. Without
        `leave_out` nobody is left out of a gallery, as in the official script.
        """
        self.folds = tuple(folds)
        self.methods = tuple(dict.fromkeys(methods))
        distinct = {id(gallery): gallery for fold in self.folds for gallery in fold.galleries if gallery}
        self._place_of_gallery = {key: place for place, key in enumerate(distinct)}
        every = list(distinct.values())
        # the place of what is left of a gallery's disorders without one of their patients
        self._without: dict[tuple[int, str], int] = {}
        for place, patient_id in sorted(self._tested_and_inside(every)) if leave_out else ():
            self._without[place, patient_id] = len(every)
            every.append(others_with_the_same_disorders(every[place], patient_id))
        self._groups = Groups.of(every)
        pools = parts(encodings, every) if parts else LocalParts([GalleryImages.of(encodings, self._groups)])
        check_parts(self._groups, pools.ask(GalleryImages.image_ids))
        asked = [gallery for gallery in self.galleries if gallery in galleries]
        self._ranks = {(gallery, method): self._unranked(method) for gallery, method in product(asked, self.methods)}
        comparer = Comparer.of(encodings, self._groups, pools, self.methods)
        patients = dict.fromkeys(patient for fold in self.folds for of in fold.patients.values() for patient in of)
        fused = any(method.fusion == "embedding" for method in self.methods)
        blocks = list(blocks_of(patients, comparer.most_probes, fused=fused))

        def rank(block: tuple[list[EvaluatedPatient], list[Probe]]) -> int:
            self._rank(comparer, *block, asked)
            return len(block[0])

        done = 0  # parts that are elsewhere work in parallel themselves
        for ranked in map(rank, blocks) if parts else (ranked for _, ranked in in_parallel(rank, blocks)):
            progress(done, len(patients))
            done += ranked
        progress(len(patients), len(patients))

    @property
    def sets(self) -> tuple[SetName, ...]:
        """The test sets that have patients."""
        most_images = {
            part: max((len(patient.images) for fold in self.folds for patient in fold.patients[part]), default=0)
            for part in PARTS
        }
        return tuple(name for name in SETS if most_images[part_of(name)] > (0 if name in PARTS else 1))

    @property
    def galleries(self) -> tuple[GalleryName, ...]:
        """The galleries that differ: with frequent disorders only, or rare ones only, there is but one."""
        both = all(any(galleries) for galleries in zip(*(fold.galleries for fold in self.folds), strict=True))
        return GALLERIES if both else ("unified",)

    def ranks(self, test_set: SetName, gallery: GalleryName, method: Method) -> list[Ranks]:
        """The rankings of one test set, fold by fold; a fold without patients is left out."""
        if (gallery, method) not in self._ranks:
            raise InvalidMethodError(
                f"{method} in the {gallery} gallery was not compared: name it where the comparison is made"
            )
        part = part_of(test_set)
        ranks = self._ranks[gallery, method][part]
        if test_set != part:
            ranks = [
                only(fold, np.array([len(patient.images) > 1 for patient in fold.patients], dtype=bool))
                for fold in ranks
            ]
        return [fold for fold in ranks if fold.patients]

    def _unranked(self, method: Method) -> dict[PartName, list[Ranks]]:
        """Every rank is missed: no gallery has the disorder, or nobody has ranked yet."""
        folds: dict[PartName, list[Ranks]] = {part: [] for part in PARTS}
        for fold, part in product(self.folds, PARTS):
            patients = fold.patients[part]
            rankings = [len(patient.images) if method.fusion == "none" else 1 for patient in patients]
            patient_of_ranking = np.repeat(np.arange(len(patients)), np.array(rankings, dtype=np.intp))
            folds[part].append(Ranks(np.full(len(patient_of_ranking), MISSED), patient_of_ranking, patients, fold))
        return folds

    def _rank(
        self,
        comparer: Comparer,
        patients: Sequence[EvaluatedPatient],
        probes: Sequence[Probe],
        galleries: Sequence[GalleryName],
    ) -> None:
        """Fills in the ranks of a block's patients."""
        together = self._ranked_together(patients, galleries)
        if not together:
            return  # their galleries are empty
        met = np.unique(np.concatenate([groups for some in together for groups, _ in some.lists]))
        table = comparer.table(probes, met)
        for some in together:
            true_column = np.where(np.array(some.true_groups) < 0, -1, np.searchsorted(met, some.true_groups))
            in_list = np.stack([np.isin(met, groups) for groups, _ in some.lists], axis=1).astype(np.float32)
            for method in self.methods:
                found = table.ranks(method, some.patients, true_column, in_list)
                for (_, (gallery, part, number, chosen)), ranks in zip(some.lists, found, strict=True):
                    fold = self._ranks[gallery, method][part][number]
                    fold.ranks[chosen[fold.patient_of_ranking]] = ranks

    def _ranked_together(
        self, block: Sequence[EvaluatedPatient], galleries: Sequence[GalleryName]
    ) -> list[RankedTogether]:
        """A block's patients, together where they have the same true groups: as do those of frequent disorders."""
        found: dict[tuple[tuple[EvaluatedPatient, ...], tuple[int, ...]], list[tuple[Ints, Place]]] = {}
        inside = set(block)
        for gallery, (number, fold), part in product(galleries, enumerate(self.folds), PARTS):
            patients = fold.patients[part]
            some_places = [place for place, patient in enumerate(patients) if patient in inside]
            for groups, places in self._by_groups_met(self._galleries_met(fold, part, gallery), patients, some_places):
                some, chosen = tuple(patients[place] for place in places), np.isin(np.arange(len(patients)), places)
                place = gallery, part, number, chosen
                found.setdefault((some, self._true_groups(some, groups)), []).append((groups, place))
        return [RankedTogether(*patients, lists) for patients, lists in found.items()]

    def _by_groups_met(
        self, galleries: Sequence[int], patients: Sequence[EvaluatedPatient], places: Sequence[int]
    ) -> Iterator[tuple[Ints, list[int]]]:
        """The patients at some places, together where they are compared with the same groups.

        Who is in a gallery is left out of it, and so goes alone.
        """
        in_gallery = {patient_id for gallery, patient_id in self._without if gallery in galleries}
        together: dict[str | None, list[int]] = {}
        for place in places if galleries else ():
            own = patients[place].patient_id
            together.setdefault(own if own in in_gallery else None, []).append(place)
        for patient_id, some in together.items():
            groups = np.concatenate([self._groups_without(gallery, patient_id) for gallery in galleries])
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

    def _true_groups(self, patients: Sequence[EvaluatedPatient], groups: Ints) -> tuple[int, ...]:
        """Which of some groups has each patient's disorder; -1 where none has."""
        group_of = {self._groups.labels[group][0].disorder_id: group for group in groups.tolist()}
        return tuple(group_of.get(patient.disorder_id, -1) for patient in patients)

    def _tested_and_inside(self, galleries: Sequence[Gallery]) -> set[tuple[int, str]]:
        """Each gallery with each of its patients who is compared with it."""
        inside = [{label.patient_id for label in gallery} for gallery in galleries]
        return {
            (place, patient.patient_id)
            for fold in self.folds
            for place in (self._place_of_gallery[id(gallery)] for gallery in fold.galleries if gallery)
            for patients in fold.patients.values()
            for patient in patients
            if patient.patient_id in inside[place]
        }

    def _galleries_met(self, fold: EvaluatedFold, part: PartName, gallery: GalleryName) -> list[int]:
        """Which galleries a part's patients are ranked in, their own first; none where that is empty."""
        own, other = fold.galleries if part == "freq" else fold.galleries[::-1]
        met = [own, other] if own and other and gallery == "unified" else [own]
        return [self._place_of_gallery[id(labels)] for labels in met if labels]


def part_of(test_set: SetName) -> PartName:
    """The part that a test set is of: a multi-image set is some patients of one."""
    return "freq" if test_set.endswith("freq") else "rare"


def others_with_the_same_disorders(gallery: Gallery, patient_id: str) -> Gallery:
    """The labels of everybody else who has a disorder of the patient.

    >>> from mien.core.roster import Label
    >>> others_with_the_same_disorders((Label("1", "p", "A"), Label("2", "q", "A"), Label("3", "q", "B")), "p")
    (Label(image_id='2', patient_id='q', disorder_id='A'),)
    """
    disorders = {label.disorder_id for label in gallery if label.patient_id == patient_id}
    return tuple(x for x in gallery if x.patient_id != patient_id and x.disorder_id in disorders)


def only(fold: Ranks, chosen: Bools) -> Ranks:
    """The rankings of some patients."""
    inside = chosen[fold.patient_of_ranking]
    return fold._replace(
        ranks=fold.ranks[inside],
        patient_of_ranking=(np.cumsum(chosen) - 1)[fold.patient_of_ranking[inside]],
        patients=tuple(patient for patient, wanted in zip(fold.patients, chosen.tolist(), strict=True) if wanted),
    )

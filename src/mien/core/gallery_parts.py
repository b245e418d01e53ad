"""Things in several parts, in this process or on the machines of a cluster: how they are asked, who is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from mien.core.arrays import Float32s, Float64s, Ints, places_in_runs, run_starts
from mien.core.centroids import Sums, added_up
from mien.core.embeddings import unit_rows
from mien.core.encoder import Encoder
from mien.core.index import CentroidKind, GalleryIndex
from mien.core.one_part import MeasuredPart
from mien.core.roster import Disorder

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")


class Parts(Protocol[Part_co]):
    """Asks parts, where they are. Questions and answers may travel, parts stay.

    So a question is a function of a module, or `functools.partial` of one.
    """

    def __len__(self) -> int: ...

    def ask(self, question: Callable[[Part_co], Answer]) -> list[Answer]:
        """Every part's answer, in the order of the parts."""
        return self.ask_each([question] * len(self))

    def ask_each(self, questions: Sequence[Callable[[Part_co], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""

    def combined(
        self, questions: Sequence[Callable[[Part_co], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together near to where they are given."""


@dataclass(frozen=True)
class LocalParts(Parts[Part]):
    """Parts that are in this process.

    >>> LocalParts(["ab", "c"]).ask(len)
    [2, 1]
    >>> LocalParts(["ab", "c"]).combined([len, str.isupper], sum)
    [3, 0]
    """

    parts: Sequence[Part]

    def __len__(self) -> int:
        return len(self.parts)

    def ask_each(self, questions: Sequence[Callable[[Part], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""
        return [question(part) for question, part in zip(questions, self.parts, strict=True)]

    def combined(
        self, questions: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together."""
        return [combine(self.ask(question)) for question in questions]


@dataclass(frozen=True, eq=False)
class GallerySummary:
    """Who is in a gallery, and which of them in which part."""

    encoder: Encoder
    disorders: tuple[Disorder, ...]  # sorted by id
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int
    disorders_of_parts: tuple[Ints, ...]  # where each part's disorders stand among all
    images_of_parts: tuple[Ints, ...]  # of each part's disorders

    @cached_property
    def place_of_disorder(self) -> dict[str, int]:
        """Where a disorder id stands among all."""
        return {disorder.disorder_id: place for place, disorder in enumerate(self.disorders)}

    @cached_property
    def place_in_parts(self) -> list[Ints]:
        """Where each disorder stands in each part; -1 where the part lacks it."""
        places = [np.full(len(self.disorders), -1) for _ in self.disorders_of_parts]
        for place, here in zip(places, self.disorders_of_parts, strict=True):
            place[here] = np.arange(len(here))
        return places


def summary_of_parts(parts: Parts[GalleryIndex], names: Sequence[str] = ()) -> GallerySummary:
    """Asks the parts, which have these names; different encoders are refused."""
    summaries = parts.ask(summary_of)
    called = names or [f"part {number + 1}" for number in range(len(summaries))]
    encoder = summaries[0].encoder
    for name, summary in zip(called[1:], summaries[1:], strict=True):
        summary.encoder.require_same(encoder, here=f"the gallery {name}", there=f"the gallery {called[0]}")
        encoder = encoder.completed_by(summary.encoder)
    disorder_of: dict[str, Disorder] = {}
    for summary in summaries:
        for disorder in summary.disorders:
            known = disorder_of.get(disorder.disorder_id, disorder)
            disorder_of[disorder.disorder_id] = Disorder(
                known.disorder_id, known.name or disorder.name, known.omim or disorder.omim
            )
    disorders = tuple(disorder_of[disorder_id] for disorder_id in sorted(disorder_of))
    place_of = {disorder.disorder_id: place for place, disorder in enumerate(disorders)}
    places = [np.array([place_of[disorder.disorder_id] for disorder in summary.disorders]) for summary in summaries]
    images, patients = np.zeros((2, len(disorders)), dtype=np.intp)
    for summary, of_part in zip(summaries, places, strict=True):
        images[of_part] += summary.images_of_disorder
        patients[of_part] += summary.patients_of_disorder
    return GallerySummary(
        encoder,
        disorders,
        images,
        patients,
        sum(summary.images for summary in summaries),
        sum(summary.patients for summary in summaries),
        tuple(places),
        tuple(summary.images_of_disorder for summary in summaries),
    )


def summary_of(index: GalleryIndex) -> GallerySummary:
    """What a part says of itself."""
    roster = index.roster
    images, patients = roster.images_of_disorder, roster.patients_of_disorder
    sizes = len(roster.image_ids), len(roster.patient_ids)
    return GallerySummary(
        index.encoder, roster.disorders, images, patients, *sizes, (np.arange(len(images)),), (images,)
    )


def sums_of_disorders(index: GalleryIndex, disorder_ids: Sequence[str], kind: CentroidKind) -> dict[str, Sums]:
    """What this part adds to the centroids of some disorders."""
    place_of = index.roster.disorder_of_id
    return {each: index.sums(np.array([place_of[each]]), kind) for each in disorder_ids if each in place_of}


def rows_of_sums(parts: Sequence[dict[str, Sums]]) -> Float32s:
    """The unit rows of centroids, in the order of the disorders' ids, from what each part adds to them."""
    return np.concatenate([unit_row_of(sums) for _, sums in sorted(added_up(parts).items())])


def unit_row_of(sums: Sums) -> Float32s:
    """The unit row of one centroid."""
    return unit_rows(sums.means).astype(np.float32)


def joined(
    found: Sequence[MeasuredPart], asked: Sequence[Ints], neighbours: Ints
) -> tuple[Ints, Float64s, list[tuple[str, str]]]:
    """The nearest images of all parts: where those of each pair start, their distances, and who is on the nearest."""
    pair = np.concatenate([numbers[part.pair] for part, numbers in zip(found, asked, strict=True)])
    distance = np.concatenate([part.distance for part in found])
    first_of: dict[int, tuple[float, tuple[str, str]]] = {}
    for part, numbers in zip(found, asked, strict=True):
        starts = np.flatnonzero(run_starts(part.pair))
        nearest = zip(numbers[part.pair[starts]].tolist(), part.distance[starts].tolist(), part.who, strict=True)
        for number, *candidate in nearest:
            first_of[number] = min(first_of.get(number, tuple(candidate)), tuple(candidate))
    order = np.lexsort((distance, pair))
    pair, distance = pair[order], distance[order]
    kept = places_in_runs(pair) < neighbours[pair]
    pair, distance = pair[kept], distance[kept]
    first = np.searchsorted(pair, np.arange(len(neighbours)))
    return first, distance, [first_of[number][1] for number in range(len(neighbours))]

"""Who is in the parts of a gallery, counted together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.core.encoder import Encoder
from mien.core.errors import GalleryError, shown_ids
from mien.core.index import GalleryIndex
from mien.core.parts import Everywhere
from mien.core.roster import Disorder

IdKind = Literal["patient_ids", "image_ids"]


class Summary(NamedTuple):
    """Who is in a part."""

    encoder: Encoder
    disorders: tuple[Disorder, ...]
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int


def summary_of(index: GalleryIndex) -> Summary:
    """Asked of every part when the gallery is opened."""
    roster = index.roster
    return Summary(
        index.encoder,
        roster.disorders,
        roster.images_of_disorder,
        roster.patients_of_disorder,
        len(roster.image_ids),
        len(roster.patient_ids),
    )


def numbers_of(index: GalleryIndex, kind: IdKind) -> Ints:
    """A number for each patient or image, from a hash of the id: shorter to send than the ids of millions."""
    ids = getattr(index.roster, kind)
    digests = b"".join(hashlib.blake2b(each.encode(), digest_size=8).digest() for each in ids)
    return np.frombuffer(digests, dtype=np.int64).astype(np.intp)


def ids_with(index: GalleryIndex, kind: IdKind, numbers: Collection[int]) -> list[str]:
    """The patients or images of this part that have one of these numbers."""
    own = zip(getattr(index.roster, kind), numbers_of(index, kind).tolist(), strict=True)
    return [each for each, number in own if number in numbers]


class Census(NamedTuple):
    """What the parts are together."""

    parts: int
    encoder: Encoder
    disorders: tuple[Disorder, ...]  # sorted by id
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int

    @classmethod
    def of(cls, everywhere: Everywhere[GalleryIndex], names: Sequence[str]) -> Census:
        """Asks the parts; different encoders, or a patient or an image in two parts, are refused."""
        summaries = everywhere(summary_of)
        called = names or [f"part {number + 1}" for number in range(len(summaries))]
        encoder = summaries[0].encoder
        for name, summary in zip(called[1:], summaries[1:], strict=True):
            summary.encoder.require_same(encoder, here=f"the gallery {name}", there=f"the gallery {called[0]}")
            encoder = encoder.completed_by(summary.encoder)
        if len(summaries) > 1:
            require_one_place(everywhere, called)
        disorder_of: dict[str, Disorder] = {}
        images: Counter[str] = Counter()
        patients: Counter[str] = Counter()
        for summary in summaries:
            sizes = summary.images_of_disorder.tolist(), summary.patients_of_disorder.tolist()
            for disorder, image_count, patient_count in zip(summary.disorders, *sizes, strict=True):
                known = disorder_of.setdefault(disorder.disorder_id, disorder)
                disorder_of[disorder.disorder_id] = Disorder(
                    known.disorder_id, known.name or disorder.name, known.omim or disorder.omim
                )
                images[disorder.disorder_id] += image_count
                patients[disorder.disorder_id] += patient_count
        ids = sorted(disorder_of)
        return cls(
            len(summaries),
            encoder,
            tuple(disorder_of[disorder_id] for disorder_id in ids),
            np.array([images[disorder_id] for disorder_id in ids], dtype=np.intp),
            np.array([patients[disorder_id] for disorder_id in ids], dtype=np.intp),
            sum(summary.images for summary in summaries),
            sum(summary.patients for summary in summaries),
        )


def require_one_place(everywhere: Everywhere[GalleryIndex], names: Sequence[str]) -> None:
    """Refuses patients and images that are in two parts: one gallery could not hold them."""
    kinds: tuple[tuple[IdKind, str], ...] = (("patient_ids", "patients"), ("image_ids", "images"))
    for kind, what in kinds:
        numbers, counts = np.unique(np.concatenate(everywhere(partial(numbers_of, kind=kind))), return_counts=True)
        if (counts > 1).any():
            suspects = set(numbers[counts > 1].tolist())
            places: dict[str, list[str]] = {}
            for name, ids in zip(names, everywhere(partial(ids_with, kind=kind, numbers=suspects)), strict=True):
                for each in ids:
                    places.setdefault(each, []).append(name)
            if twice := sorted(each for each, parts in places.items() if len(parts) > 1):
                raise GalleryError(
                    f"{len(twice)} {what} are in two of the galleries: {shown_ids(twice, most=3)}, the first of them in"
                    f" {' and in '.join(places[twice[0]][:2])}: each belongs into one"
                )

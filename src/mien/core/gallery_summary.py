"""Who is in the parts of a gallery, counted together."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.core.encoder import Encoder
from mien.core.errors import GalleryError, shown_ids
from mien.core.gallery_parts import Parts
from mien.core.index import GalleryIndex
from mien.core.roster import Disorder

IdKind = Literal["patient_ids", "image_ids"]


class PartSummary(NamedTuple):
    """Who is in a part."""

    encoder: Encoder
    disorders: tuple[Disorder, ...]
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int


class GallerySummary(NamedTuple):
    """What the parts are together."""

    encoder: Encoder
    disorders: tuple[Disorder, ...]  # sorted by id
    images_of_disorder: Ints
    patients_of_disorder: Ints
    images: int
    patients: int
    disorders_of_parts: tuple[Ints, ...]  # where each part's disorders stand among all
    images_of_parts: tuple[Ints, ...]  # of each part's disorders


def summary_of_parts(parts: Parts[GalleryIndex], names: Sequence[str] = ()) -> GallerySummary:
    """Asks the parts; different encoders, or a patient or an image in two parts, are refused."""
    summaries = parts.ask(summary_of)
    if len(summaries) == 1:
        [only] = summaries
        return GallerySummary(*only, (np.arange(len(only.disorders)),), (only.images_of_disorder,))
    called = names or [f"part {number + 1}" for number in range(len(summaries))]
    encoder = summaries[0].encoder
    for name, summary in zip(called[1:], summaries[1:], strict=True):
        summary.encoder.require_same(encoder, here=f"the gallery {name}", there=f"the gallery {called[0]}")
        encoder = encoder.completed_by(summary.encoder)
    _require_one_place(parts, called)
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


def summary_of(index: GalleryIndex) -> PartSummary:
    """Asked of every part when the gallery is opened."""
    roster = index.roster
    return PartSummary(
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


def _require_one_place(parts: Parts[GalleryIndex], names: Sequence[str]) -> None:
    """Refuses patients and images that are in two parts: one gallery could not hold them."""
    kinds: tuple[tuple[IdKind, str], ...] = (("patient_ids", "patients"), ("image_ids", "images"))
    for kind, what in kinds:
        numbers, counts = np.unique(np.concatenate(parts.ask(partial(numbers_of, kind=kind))), return_counts=True)
        if (counts > 1).any():
            suspects = set(numbers[counts > 1].tolist())
            places: dict[str, list[str]] = {}
            for name, ids in zip(names, parts.ask(partial(ids_with, kind=kind, numbers=suspects)), strict=True):
                for each in ids:
                    places.setdefault(each, []).append(name)
            if twice := sorted(each for each, where in places.items() if len(where) > 1):
                raise GalleryError(
                    f"{len(twice)} {what} are in two of the galleries: {shown_ids(twice, most=3)}, the first of them in"
                    f" {' and in '.join(places[twice[0]][:2])}: each belongs into one"
                )

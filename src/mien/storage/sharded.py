"""Several galleries that are ranked against as one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, Union

import numpy as np

from mien.answers.genes import Description
from mien.core.arrays import Ints
from mien.core.embeddings import Encoder
from mien.core.gallery_parts import LocalParts, Parts
from mien.core.index import GalleryIndex
from mien.core.searcher import Searcher
from mien.errors import EmptyGalleryError, GalleryError, shown, shown_ids
from mien.storage.database import State
from mien.storage.descriptions import descriptions_of
from mien.storage.gallery import Gallery

AnyGallery = Union["Gallery", "ShardedGallery"]
IdKind = Literal["patient_ids", "image_ids"]


@dataclass(frozen=True, eq=False)
class ShardedGallery:
    """Galleries with the same encoder, each as it was when it was opened. Each patient is in only one of them."""

    directories: tuple[Path, ...]
    generations: tuple[int, ...]
    searcher: Searcher  # of those that are not empty
    descriptions: Mapping[str, Description] = field(default_factory=dict)

    @classmethod
    def open(cls, directories: Sequence[str | Path]) -> Self:
        """Opens galleries here; they are read in blocks."""
        paths = [Path(directory) for directory in directories]
        require_distinct(paths)
        galleries = [Gallery.open(path) for path in paths]
        filled = [gallery.loaded_index for gallery in galleries if gallery.loaded_index is not None]
        return cls.of(paths, galleries, LocalParts(filled) if filled else None)

    @classmethod
    def of(
        cls, directories: Sequence[Path], states: Sequence[Gallery | State], parts: Parts[GalleryIndex] | None
    ) -> Self:
        """Galleries that are open already, wherever they are: `parts` are the indexes of all but the empty ones."""
        if parts is None:
            listed = ", ".join(map(str, directories))
            raise EmptyGalleryError(f"{listed}: the galleries hold no images: add some before ranking")
        filled = [str(path) for path, state in zip(directories, states, strict=True) if not is_empty(state)]
        searcher = Searcher.of(parts, filled)
        require_one_place(parts, filled)
        descriptions: dict[str, Description] = {}
        for state in states:  # the first gallery that describes a disorder counts, as with names
            descriptions = {**descriptions_of(state.described), **descriptions}
        return cls(tuple(directories), tuple(state.generation for state in states), searcher, descriptions)

    @property
    def generation(self) -> int:
        """Counts the changes of all."""
        return sum(self.generations)

    @property
    def encoder(self) -> Encoder:
        """Of all their images."""
        return self.searcher.encoder

    def as_dict(self) -> dict[str, Any]:
        """Generation, sizes and encoder, as of one gallery."""
        summary = self.searcher.gallery
        return {
            "generation": self.generation,
            "images": summary.images,
            "patients": summary.patients,
            "disorders": len(summary.disorders),
            "encoder": self.encoder.as_dict(),
            "shards": [
                {"directory": str(directory), "generation": generation}
                for directory, generation in zip(self.directories, self.generations, strict=True)
            ],
        }

    def __repr__(self) -> str:
        return f"<ShardedGallery {self}: {self.searcher!r}>"

    def __str__(self) -> str:
        return ", ".join(map(str, self.directories))


def require_distinct(directories: Sequence[Path]) -> None:
    """Refuses a gallery that is given twice."""
    seen: dict[Path, Path] = {}
    for directory in directories:
        if directory.resolve() in seen:
            raise GalleryError(f"the gallery {shown(str(directory))} is given twice: give it once")
        seen[directory.resolve()] = directory


def is_empty(state: Gallery | State) -> bool:
    """Whether a gallery holds no images."""
    return state.loaded_index is None if isinstance(state, Gallery) else not state.images


def numbers_of(index: GalleryIndex, kind: IdKind) -> Ints:
    """A number for each patient or image, a hash of its id: shorter to send than the id, where there are millions."""
    ids = getattr(index.roster, kind)
    digests = b"".join(hashlib.blake2b(each.encode(), digest_size=8).digest() for each in ids)
    return np.frombuffer(digests, dtype=np.int64).astype(np.intp)


def ids_with(index: GalleryIndex, kind: IdKind, numbers: Collection[int]) -> list[str]:
    """The patients or images of this part that have one of these numbers."""
    own = zip(getattr(index.roster, kind), numbers_of(index, kind).tolist(), strict=True)
    return [each for each, number in own if number in numbers]


def require_one_place(parts: Parts[GalleryIndex], names: Sequence[str]) -> None:
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

"""Several galleries that are ranked against as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Union

from mien.core.encoder import Encoder
from mien.core.errors import EmptyGalleryError, GalleryError, shown
from mien.core.index import GalleryIndex
from mien.core.parts import Everywhere, Here, Inside
from mien.core.shards import Shards
from mien.storage.database import State
from mien.storage.gallery import Gallery

AnyGallery = Union["Gallery", "ShardedGallery"]


@dataclass(frozen=True, eq=False)
class ShardedGallery:
    """Galleries with the same encoder, each as it was when it was opened. A patient is in one of them."""

    directories: tuple[Path, ...]
    generations: tuple[int, ...]
    shards: Shards  # of those that are not empty

    @classmethod
    def open(cls, directories: Sequence[str | Path]) -> Self:
        """Opens galleries here; they are read in blocks."""
        paths = [Path(directory) for directory in directories]
        require_distinct(paths)
        galleries = [Gallery.open(path) for path in paths]
        filled = [gallery for gallery in galleries if gallery.loaded_index is not None]
        return cls.of(paths, galleries, Here(filled) if filled else None)

    @classmethod
    def of(
        cls,
        directories: Sequence[Path],
        states: Sequence[Gallery | State],
        everywhere: Everywhere[Gallery] | None,
    ) -> Self:
        """Galleries that are open already, wherever they are: all but the empty ones."""
        if everywhere is None:
            listed = ", ".join(map(str, directories))
            raise EmptyGalleryError(f"{listed}: the galleries hold no images: add some before ranking")
        return cls(
            tuple(directories),
            tuple(state.generation for state in states),
            Shards.of(Inside(everywhere, index_of), everywhere(name_of)),
        )

    @property
    def generation(self) -> int:
        """Counts the changes of all."""
        return sum(self.generations)

    @property
    def encoder(self) -> Encoder:
        """Of all their images."""
        return self.shards.encoder

    def as_dict(self) -> dict[str, Any]:
        """Generation, sizes and encoder, as of one gallery."""
        return {
            "generation": self.generation,
            "images": self.shards.images,
            "patients": self.shards.patients,
            "disorders": len(self.shards.disorders),
            "encoder": self.encoder.as_dict(),
            "shards": [
                {"directory": str(directory), "generation": generation}
                for directory, generation in zip(self.directories, self.generations, strict=True)
            ],
        }

    def __str__(self) -> str:
        return ", ".join(map(str, self.directories))


def require_distinct(directories: Sequence[Path]) -> None:
    """Refuses a gallery that is given twice."""
    seen: dict[Path, Path] = {}
    for directory in directories:
        if directory.resolve() in seen:
            raise GalleryError(f"the gallery {shown(str(directory))} is given twice: give it once")
        seen[directory.resolve()] = directory


def index_of(gallery: Gallery) -> GalleryIndex:
    """What is asked of a gallery."""
    return gallery.index


def name_of(gallery: Gallery) -> str:
    """What a user calls it."""
    return str(gallery.directory)

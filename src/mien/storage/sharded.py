"""Several galleries that are ranked against as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Union

from mien.core.encoder import Encoder
from mien.core.index import GalleryIndex
from mien.core.parts import Everywhere, Here, Inside
from mien.core.shards import Shards
from mien.storage.gallery import Gallery

AnyGallery = Union["Gallery", "ShardedGallery"]


@dataclass(frozen=True, eq=False)
class ShardedGallery:
    """Galleries with the same encoder, each as it was when it was opened. A patient is in one of them."""

    directories: tuple[Path, ...]
    generations: tuple[int, ...]
    shards: Shards

    @classmethod
    def open(cls, directories: Sequence[str | Path]) -> Self:
        """Opens galleries here; they are read in blocks, however large they are."""
        paths = [Path(directory) for directory in directories]
        return cls.of(paths, Here([Gallery.open(path) for path in paths]))

    @classmethod
    def of(cls, directories: Sequence[Path], everywhere: Everywhere[Gallery]) -> Self:
        """Galleries that are open already, wherever they are."""
        return cls(tuple(directories), tuple(everywhere(generation_of)), Shards.of(Inside(everywhere, index_of)))

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


def index_of(gallery: Gallery) -> GalleryIndex:
    """A gallery's index; an empty gallery refuses."""
    return gallery.index


def generation_of(gallery: Gallery) -> int:
    """Which state of the gallery is open."""
    return gallery.generation

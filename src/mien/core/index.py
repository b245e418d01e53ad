"""What a query is compared with: the gallery's unit rows, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Float64s, Floats, Ints, Rows
from mien.core.centroids import FIRST, Sums, patient_sums
from mien.core.embeddings import embedding_lengths, unit_rows
from mien.core.encoder import VIEWS, Encoder
from mien.core.roster import Roster
from mien.core.rounded_rows import EACH, Alike, RoundedRows, rounded
from mien.errors import EmptyGalleryError

CentroidKind = Literal["image", "patient"]
ALIKE = 0.05  # share of the squared length that views of a photo do not have in common: bounds are twice as wide then
DISORDERS_TRIED, IMAGES_TRIED = 32, 8  # of each, to see whether they are alike
Allocate = Callable[[str, tuple[int, ...], type[np.generic]], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class GalleryIndex:
    """The unit rows of a gallery's images, in the roster's order, and of its disorders' centroids.

    The index answers every query by itself: raw embeddings come back as unit row times length.
    """

    roster: Roster
    encoder: Encoder
    images: RoundedRows
    image_centroids: Rows  # (disorders, width): float32
    patient_centroids: Rows
    image_lengths: Rows  # (images, representations): float64
    image_sums: Rows  # (disorders, 2, representations * dimensions), float64: what these centroids are means of
    patient_sums: Rows
    _centroids: dict[CentroidKind, RoundedRows] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<GalleryIndex of {self.roster.sizes}, {self.encoder}>"

    def centroids(self, kind: CentroidKind) -> RoundedRows:
        """The disorders' centroids of one kind. They are few, and rounded once: that takes as long as ten queries."""
        if kind not in self._centroids:
            exact = self.image_centroids if kind == "image" else self.patient_centroids
            self._centroids[kind] = RoundedRows.of(exact[:])
        return self._centroids[kind]

    def sums(self, disorders: Ints, kind: CentroidKind) -> Sums:
        """What some disorders' centroids are means of, to be added to those of other parts of a gallery."""
        roster = self.roster
        both = (self.image_sums if kind == "image" else self.patient_sums)[disorders]
        high, low = both.reshape(len(both), 2, self.encoder.representations, -1).swapaxes(0, 1)
        counts = roster.images_of_disorder if kind == "image" else roster.patients_of_disorder
        return Sums(high, low, counts[disorders])

    def sums_of(self, images: Ints, kind: CentroidKind) -> Sums:
        """The same for one disorder, of which only some images are there, sorted by patient."""
        return disorder_sums(self.raw_embeddings(images), self.roster.patient_of_image[images], kind)

    def raw_embeddings(self, images: Ints) -> Float64s:
        """Embeddings as they were before they became unit rows, but for float32 rounding."""
        representations = self.encoder.representations
        units = self.images.exact[images].reshape(len(images), representations, -1).astype(np.float64)
        raw: Float64s = units * (self.image_lengths[images] * np.sqrt(representations))[:, :, np.newaxis]
        return raw


def disorder_sums(embeddings: Floats, patient_of_row: Ints, kind: CentroidKind) -> Sums:
    """What the centroid (1, representations, dimensions) of a disorder's images, sorted by patient, is the mean of."""
    return Sums.of_groups(embeddings, FIRST) if kind == "image" else patient_sums(embeddings, patient_of_row, FIRST)


def matrices_of(
    images: int, disorders: int, encoder: Encoder, alike: Alike = EACH
) -> Iterator[tuple[str, tuple[int, ...], type[np.generic]]]:
    """Name, shape and type of all that an index consists of."""
    width = encoder.representations * encoder.dimensions
    yield "image_rows", (images, width), np.float32
    yield "image_codes", (images, width // alike[0]), np.int8
    yield "image_rounding", (images, 3), np.float32
    yield "image_centroid_rows", (disorders, width), np.float32
    yield "patient_centroid_rows", (disorders, width), np.float32
    yield "image_lengths", (images, encoder.representations), np.float64
    yield "image_sums", (disorders, 2, width), np.float64
    yield "patient_sums", (disorders, 2, width), np.float64


def index_of_matrices(roster: Roster, encoder: Encoder, alike: Alike, matrices: Mapping[str, Rows]) -> GalleryIndex:
    """The index that some matrices are."""
    exact, codes, rounding, *others = (matrices[name] for name, _, _ in matrices_of(0, 0, encoder))
    return GalleryIndex(roster, encoder, RoundedRows(exact, codes, rounding, alike), *others)


def build_index(
    roster: Roster,
    encoder: Encoder,
    read: Callable[[Ints], Floats],
    *,
    allocate: Allocate = lambda _, shape, dtype: np.empty(shape, dtype),
) -> GalleryIndex:
    """Makes an index in one pass over the disorders, holding the raw embeddings of one disorder at a time.

    `read` gives the raw embeddings of some images of the roster. `allocate` gives the memory of a matrix of the index:
    the store maps a file there.
    """
    if not roster.image_ids:
        raise EmptyGalleryError("the gallery holds no images: add some before ranking")
    alike = alike_views(roster, encoder, read)
    described = matrices_of(len(roster.image_ids), len(roster.disorders), encoder, alike)
    matrices = {name: allocate(name, shape, dtype) for name, shape, dtype in described}

    for disorder in range(len(roster.disorders)):
        images = roster.images_with(disorder)
        raw = read(images)
        exact = unit_rows(raw).astype(np.float32)
        matrices["image_rows"][images] = exact
        matrices["image_codes"][images], matrices["image_rounding"][images] = rounded(exact, alike)
        matrices["image_lengths"][images] = embedding_lengths(raw)
        for kind in ("image", "patient"):
            sums = disorder_sums(raw, roster.patient_of_image[images], kind)
            matrices[f"{kind}_centroid_rows"][disorder] = unit_rows(sums.means)
            matrices[f"{kind}_sums"][disorder] = sums.high.reshape(-1), sums.low.reshape(-1)
    return index_of_matrices(roster, encoder, alike, matrices)


def alike_views(roster: Roster, encoder: Encoder, read: Callable[[Ints], Floats]) -> Alike:
    """What is scanned as one: the views of a photo, where those of some images are alike; else nothing."""
    alike = len(VIEWS), encoder.dimensions
    if encoder.representations % len(VIEWS):
        return EACH
    disorders = np.unique(np.linspace(0, len(roster.disorders) - 1, DISORDERS_TRIED).astype(np.intp))
    some = [unit_rows(read(roster.images_with(disorder)[:IMAGES_TRIED])) for disorder in disorders.tolist()]
    away = np.concatenate([rounded(rows, alike)[1][:, 2] for rows in some])
    return alike if np.mean(away**2) <= ALIKE else EACH

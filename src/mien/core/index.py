"""What a query is compared with: the gallery's unit rows, in memory or mapped from disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.centroids import FIRST, Sums, image_sums, patient_sums
from mien.core.embeddings import embedding_lengths, unit_rows
from mien.core.encoder import Encoder
from mien.core.errors import EmptyGalleryError
from mien.core.roster import Roster

CentroidKind = Literal["image", "patient"]

LARGEST_WHOLE = 1 << 30  # bytes of image rows; what is larger is read in blocks


@dataclass(frozen=True, eq=False)
class GalleryIndex:
    """The unit rows of a gallery's images, in the roster's order, and of its disorders' centroids.

    The index answers every query by itself: raw embeddings come back as unit row times length.
    """

    roster: Roster
    encoder: Encoder
    image_rows: Float32s  # (images, representations * dimensions)
    image_lengths: Float64s  # (images, representations)
    image_centroid_rows: Float32s  # (disorders, representations * dimensions)
    patient_centroid_rows: Float32s
    image_sums: Float64s  # (disorders, 2, representations * dimensions): what these centroids are means of
    patient_sums: Float64s
    let_go: Callable[[int, int], None] = lambda _start, _end: (
        None
    )  # of image rows that were read, where they are mapped

    @property
    def index(self) -> GalleryIndex:
        """Itself: an index can stand wherever a gallery can."""
        return self

    def centroid_rows(self, kind: CentroidKind) -> Float32s:
        """The unit rows of the disorders' centroids of one kind."""
        return self.image_centroid_rows if kind == "image" else self.patient_centroid_rows

    def sums(self, kind: CentroidKind) -> Sums:
        """What the disorders' centroids of one kind are means of, to be added to those of other parts of a gallery."""
        roster = self.roster
        both = self.image_sums if kind == "image" else self.patient_sums
        high, low = both.reshape(len(both), 2, self.encoder.representations, -1).swapaxes(0, 1)
        return Sums(high, low, roster.images_of_disorder if kind == "image" else roster.patients_of_disorder)

    def sums_of(self, images: Ints, kind: CentroidKind) -> Sums:
        """The same for one disorder, of which only some images are there, sorted by patient."""
        return disorder_sums(self.raw_embeddings(images), self.roster.patient_of_image[images], kind)

    def raw_embeddings(self, images: Ints) -> Float64s:
        """Embeddings as they were before they became unit rows, but for float32 rounding."""
        representations = self.encoder.representations
        units = self.image_rows[images].reshape(len(images), representations, -1).astype(np.float64)
        raw: Float64s = units * (self.image_lengths[images] * np.sqrt(representations))[:, :, np.newaxis]
        return raw

    def centroid_row_of(self, images: Ints, kind: CentroidKind) -> Float64s:
        """The unit row of the centroid of some images, which are sorted by patient."""
        row: Float64s = unit_rows(self.sums_of(images, kind).means)[0]
        return row


def disorder_sums(embeddings: Floats, patient_of_row: Ints, kind: CentroidKind) -> Sums:
    """What the centroid (1, representations, dimensions) of a disorder's images, sorted by patient, is the mean of."""
    if kind == "image":
        return image_sums(embeddings, FIRST)
    return patient_sums(embeddings, patient_of_row, FIRST)


def build_index(
    roster: Roster,
    encoder: Encoder,
    read: Callable[[Ints], Floats],
    *,
    allocate: Callable[[str, tuple[int, ...], type[np.generic]], npt.NDArray[Any]] = lambda _, shape, dtype: np.empty(
        shape, dtype
    ),
) -> GalleryIndex:
    """Makes an index in one pass over the disorders, holding the raw embeddings of one disorder at a time.

    `read` gives the raw embeddings of some images of the roster. `allocate` gives the memory of a field of the index:
    the store maps a file there.
    """
    if not roster.image_ids:
        raise EmptyGalleryError("the gallery holds no images: add some before ranking")
    images, disorders, width = (
        len(roster.image_ids),
        len(roster.disorders),
        encoder.representations * encoder.dimensions,
    )
    index = GalleryIndex(
        roster=roster,
        encoder=encoder,
        image_rows=allocate("image_rows", (images, width), np.float32),
        image_lengths=allocate("image_lengths", (images, encoder.representations), np.float64),
        image_centroid_rows=allocate("image_centroid_rows", (disorders, width), np.float32),
        patient_centroid_rows=allocate("patient_centroid_rows", (disorders, width), np.float32),
        image_sums=allocate("image_sums", (disorders, 2, width), np.float64),
        patient_sums=allocate("patient_sums", (disorders, 2, width), np.float64),
    )
    for disorder in range(disorders):
        rows = roster.images_with(disorder)
        raw = read(rows)
        index.image_rows[rows] = unit_rows(raw)
        index.image_lengths[rows] = embedding_lengths(raw)
        of_images = disorder_sums(raw, roster.patient_of_image[rows], "image")
        of_patients = disorder_sums(raw, roster.patient_of_image[rows], "patient")
        index.image_centroid_rows[disorder] = unit_rows(of_images.means)[0]
        index.patient_centroid_rows[disorder] = unit_rows(of_patients.means)[0]
        index.image_sums[disorder] = of_images.high.reshape(width), of_images.low.reshape(width)
        index.patient_sums[disorder] = of_patients.high.reshape(width), of_patients.low.reshape(width)
    return index

"""Labelled images with their embeddings, and the queries made of unlabelled ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats, Ints
from mien.core.embeddings import Encoder, as_embeddings, check_lengths, embedding_lengths, unit_rows
from mien.core.index import GalleryIndex, build_index
from mien.core.method import fuse_embeddings
from mien.core.roster import Disorder, Label, Roster
from mien.errors import InvalidCohortError, require, shown, shown_ids

ROUNDING_OF_LENGTHS = 1e-3  # numbers of half precision, the coarsest in use, move a length of one by 2 ** -11 at most


@dataclass(frozen=True, eq=False)
class Encodings:
    """Raw embeddings by image id, as an encodings file holds them: finite, of some length, no id twice.

    Names of photos are ids that say nothing: with `ids_are_file_names`, a gallery has a photo if it has its embedding.
    """

    image_ids: tuple[str, ...]
    embeddings: Float32s  # (images, representations, dimensions)
    encoder: Encoder
    ids_are_file_names: bool = False

    @classmethod
    def of(
        cls,
        image_ids: Sequence[str],
        embeddings: Floats,
        encoder: Encoder | None = None,
        *,
        ids_are_file_names: bool = False,
    ) -> Encodings:
        """Takes any sequence of ids and any array of floats; without an encoder, only its shape is known.

        >>> Encodings.of(["1", "2"], np.eye(2)).encoder.dimensions
        2
        """
        shaped = as_embeddings(embeddings)
        return cls(tuple(image_ids), shaped, encoder or Encoder(*shaped.shape[1:]), ids_are_file_names)

    def __post_init__(self) -> None:
        shape = self.embeddings.shape
        if len(shape) != 3 or shape[0] != len(self.image_ids) or 0 in shape[1:]:
            wanted = "(images, representations, dimensions)"
            raise InvalidCohortError(f"embeddings of shape {shape} for {len(self.image_ids)} images: expected {wanted}")
        check_lengths(self.image_ids, self.lengths)
        Encoder(*shape[1:]).require_same(self.encoder, here="the array", there="its description")
        for image_id in self.image_ids:
            require(image_id, str, "image id", "a text, as ids are")
        if len(set(self.image_ids)) < len(self.image_ids):
            twice = next(image_id for image_id, count in Counter(self.image_ids).items() if count > 1)
            raise InvalidCohortError(f"image {shown(twice)} is there twice: keep one of the two")

    def __repr__(self) -> str:
        return f"<Encodings of {len(self.image_ids):,} images, {self.encoder}>"

    @cached_property
    def lengths(self) -> Float64s:
        """Of the embeddings (images, representations)."""
        return embedding_lengths(self.embeddings)

    @property
    def normalised(self) -> bool:
        """Whether whoever encoded the images cut all lengths to one, to the rounding of half precision.

        >>> Encodings.of(["1"], np.array([[[0.6, 0.8], [1, 0]]])).normalised
        True
        >>> Encodings.of(["1"], np.array([[[0.6, 0.8], [2, 0]]])).normalised
        False
        """
        return bool(self.image_ids and (np.abs(self.lengths - 1) <= ROUNDING_OF_LENGTHS).all())

    @cached_property
    def unit_rows(self) -> Float32s:
        """The unit row of each image."""
        return unit_rows(self.embeddings).astype(np.float32)

    def only(self, rows: Sequence[int] | Ints) -> Encodings:
        """Some of the images, each once, in the order asked for; they are checked already."""
        chosen = np.asarray(rows, dtype=np.intp)
        some, ids = object.__new__(Encodings), tuple(self.image_ids[row] for row in chosen.tolist())
        of_each = {name: value[chosen] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        some.__dict__.update(vars(self), image_ids=ids, **of_each)
        return some


@dataclass(frozen=True, eq=False)
class Query:
    """The images of one test patient. Without a patient id, they say which gallery patient it may be."""

    encodings: Encodings
    patient_id: str | None = None

    @classmethod
    def of(cls, embeddings: Floats, image_ids: Sequence[str] | None = None, patient_id: str | None = None) -> Query:
        """A query from an array (images, representations, dimensions), or (images, dimensions) for one representation.

        >>> Query.of(np.ones((2, 12, 512))).encodings.image_ids
        ('query image 1', 'query image 2')
        """
        shaped = as_embeddings(embeddings)
        ids = [f"query image {i + 1}" for i in range(len(shaped))] if image_ids is None else image_ids
        return cls(Encodings.of(ids, shaped), patient_id)

    def __post_init__(self) -> None:
        require(self.encodings, Encodings, "encodings", "Encodings, or arrays to Query.of")
        require(self.patient_id, str | None, "patient id", "a text, as ids are")
        if not self.encodings.image_ids:
            raise InvalidCohortError("a query without images: give at least one")

    def __repr__(self) -> str:
        return f"<Query of {len(self.encodings.image_ids):,} images, {self.encodings.encoder}>"

    def __str__(self) -> str:
        return f"the images {', '.join(map(shown, self.encodings.image_ids))}"

    @cached_property
    def fused_row(self) -> Float32s:
        """The unit row of all images together (1, width); refused where they cancel out."""
        if len(self.encodings.image_ids) == 1:
            return self.encodings.unit_rows
        return unit_rows(fuse_embeddings(self.encodings.embeddings)[np.newaxis], str(self)).astype(np.float32)

    def per_image(self) -> list[Query]:
        """One query for each image of this one."""
        return [replace(self, encodings=self.encodings.only([i])) for i in range(len(self.encodings.image_ids))]


@dataclass(frozen=True, eq=False)
class Cohort:
    """A set of labelled images, the embeddings in the order of the roster."""

    roster: Roster
    encodings: Encodings

    def __post_init__(self) -> None:
        if self.encodings.image_ids != self.roster.image_ids:
            raise InvalidCohortError("embeddings and labels are not of the same images: use Cohort.join")

    def __repr__(self) -> str:
        return f"<Cohort of {self.roster.sizes}, {self.encodings.encoder}>"

    @property
    def embeddings(self) -> Float32s:
        """Raw embeddings (images, representations, dimensions)."""
        return self.encodings.embeddings

    @classmethod
    def of(
        cls,
        embeddings: Floats,
        *,
        image_ids: Sequence[str],
        patient_ids: Sequence[str],
        disorder_ids: Sequence[str],
    ) -> Cohort:
        """A cohort from parallel sequences, one entry per image.

        >>> cohort = Cohort.of(np.eye(3), image_ids=["1", "2", "3"], patient_ids=["p", "p", "q"],
        ...                    disorder_ids=["A", "A", "B"])
        >>> len(cohort.roster.patient_ids)
        2
        """
        if not len(image_ids) == len(patient_ids) == len(disorder_ids):
            counts = f"{len(image_ids)} image_ids, {len(patient_ids)} patient_ids, {len(disorder_ids)} disorder_ids"
            raise InvalidCohortError(f"{counts}: give one of each for every image")
        labels = [Label(*row) for row in zip(image_ids, patient_ids, disorder_ids, strict=True)]
        return cls.join(Encodings.of(image_ids, embeddings), labels)

    @classmethod
    def join(
        cls, encodings: Encodings, labels: Sequence[Label], disorders: Mapping[str, Disorder] | None = None
    ) -> Cohort:
        """Joins embeddings and labels by image id; labels choose, and each must find its embedding."""
        roster = Roster.of_labels(labels, disorders)
        row_of = {image_id: row for row, image_id in enumerate(encodings.image_ids)}
        if missing := [image_id for image_id in roster.image_ids if image_id not in row_of]:
            raise InvalidCohortError(
                f"{len(missing)} labelled images without an encoding: {shown_ids(missing)}:"
                " encode them or take them out of the labels"
            )
        rows = [row_of[image_id] for image_id in roster.image_ids]
        return cls(roster, encodings if roster.image_ids == encodings.image_ids else encodings.only(rows))

    @cached_property
    def index(self) -> GalleryIndex:
        """The unit rows of this cohort as a gallery."""
        return build_index(self.roster, self.encodings.encoder, lambda images: self.embeddings[images])

    def queries(self) -> list[Query]:
        """One query per patient, in the order of patient ids; labels are left behind."""
        of_patient: list[list[int]] = [[] for _ in self.roster.patient_ids]
        for image, patient in enumerate(self.roster.patient_of_image.tolist()):
            of_patient[patient].append(image)
        return [
            Query(self.encodings.only(images), patient_id)
            for patient_id, images in zip(self.roster.patient_ids, of_patient, strict=True)
        ]

"""Which encoder made an embedding; raw ones made valid, and the unit rows that make every distance a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mien.core.arrays import Float32s, Float64s, Floats
from mien.errors import EncoderMismatchError, InvalidCohortError, WrongArgumentError, shown

VIEWS = ((0, 0), (0, 1), (1, 0), (1, 1))  # (flip, gray) of each model's representations, in their order
ROWS_PER_BLOCK = 256  # that are held in float64


def representation_name(model: str, flip: int | str, gray: int | str) -> str:
    """What a representation is called.

    >>> representation_name("m0", 0, 1)
    'm0/flip0/gray1'
    """
    return f"{model}/flip{flip}/gray{gray}"


@dataclass(frozen=True)
class Encoder:
    """An encoder's identity. What is unknown is None and agrees with everything; what is known must be equal."""

    representations: int
    dimensions: int
    name: str | None = None
    weights_sha256: str | None = None
    representation_names: tuple[str, ...] | None = None  # in the order of the embedding
    trained_on_syndromes: bool | None = None  # else it may follow age, sex and ancestry

    def __str__(self) -> str:
        weights = f", weights {self.weights_sha256[:12]}" if self.weights_sha256 else ""
        return f"{self.name or 'unnamed encoder'} ({self.representations} x {self.dimensions}{weights})"

    def require_same(self, other: Encoder, *, here: str, there: str) -> None:
        """Raises `EncoderMismatchError`, which names both encoders, when the two cannot be the same.

        >>> Encoder(1, 320, "a").require_same(Encoder(1, 128, "b"), here="the query", there="the gallery")
        Traceback (most recent call last):
        ...
        mien.errors.EncoderMismatchError: the query is encoded by a (1 x 320) and the gallery by b (1 x 128): ...
        """
        for field, mine in vars(self).items():
            theirs = getattr(other, field)
            if mine is not None and theirs is not None and mine != theirs:
                raise EncoderMismatchError(
                    f"{here} is encoded by {self} and {there} by {other}: "
                    f"{field.replace('_', ' ')} differ, encode both with the same encoder"
                )

    def completed_by(self, other: Encoder) -> Encoder:
        """This identity, its unknown fields taken from `other`."""
        return Encoder(**{name: getattr(other, name) if value is None else value for name, value in vars(self).items()})

    def as_dict(self) -> dict[str, Any]:
        """The identity as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Encoder:
        """The inverse of `as_dict`, also after a way through JSON."""
        names: Sequence[str] | None = values.get("representation_names")
        return cls(**{**values, "representation_names": None if names is None else tuple(names)})


def as_embeddings(values: Floats) -> Float32s:
    """Any array of floats as float32 (images, representations, dimensions); two dimensions are one representation.

    >>> as_embeddings(np.ones((5, 320))).shape
    (5, 1, 320)
    """
    try:
        values = np.asarray(values)
    except ValueError as error:
        raise InvalidCohortError("embeddings of different shapes: all need the same dimensions") from error
    if values.dtype.kind not in "fiu":
        raise WrongArgumentError(
            "these are no embeddings: pass an array of numbers (images, representations, dimensions)"
        )
    if values.ndim not in {2, 3}:
        raise InvalidCohortError(f"embeddings of shape {values.shape}: expected (images, representations, dimensions)")
    with np.errstate(over="ignore"):  # an infinite value is refused by name
        return np.ascontiguousarray(values[:, np.newaxis, :] if values.ndim == 2 else values, dtype=np.float32)


def check_lengths(image_ids: Sequence[str], lengths: Float64s) -> None:
    """Refuses embeddings without a direction, naming the image; `lengths` is (images, representations)."""
    for image, representation in np.argwhere(~(np.isfinite(lengths) & (lengths > 0)))[:1].tolist():
        zero = lengths[image, representation] == 0
        what = "an embedding of length zero" if zero else "a value that is not a finite number in the embedding"
        place = f"image {shown(image_ids[image])}, representation {representation + 1}"
        raise InvalidCohortError(f"{what} of {place}: re-encode it or drop it")


def embedding_lengths(embeddings: Floats) -> Float64s:
    """Euclidean lengths (images, representations) of raw embeddings, in float64 so that no square overflows."""
    lengths = np.empty(embeddings.shape[:2])
    for start in range(0, len(embeddings), ROWS_PER_BLOCK):
        wide = embeddings[start : start + ROWS_PER_BLOCK].astype(np.float64, copy=False)
        lengths[start : start + ROWS_PER_BLOCK] = np.sqrt(np.vecdot(wide, wide))
    return lengths


def unit_rows(embeddings: Floats, whose: str | None = None) -> Float64s:
    """One row of length one per raw embedding: the unit vectors of its representations, side by side, over sqrt(R).

    The product of two unit rows is the mean of the representations' cosines, so that
    `1 - product` is the paper's distance (eq:avg-distance). Embeddings that cancel out in a mean have no direction:
    their row is zero, at distance 1 from everything; they are refused where `whose` they are is said.

    >>> rows = unit_rows(np.array([[[3.0, 4.0], [0.0, 2.0]]]))
    >>> rows.round(3)
    array([[0.424, 0.566, 0.   , 0.707]])
    """
    count, representations, dimensions = embeddings.shape
    wide = embeddings.astype(np.float64)
    lengths = embedding_lengths(wide)
    if not lengths.all():
        if whose is not None:
            raise InvalidCohortError(f"the embeddings of {whose} cancel out to length zero: re-encode the images")
        lengths[lengths == 0] = 1
    wide /= (lengths * np.sqrt(representations))[:, :, np.newaxis]
    return wide.reshape(count, representations * dimensions)


def mean_cosine_distance(rows: Floats, others: Floats) -> Floats:
    """Cosine distance per representation, averaged over representations (eq:cosine, eq:avg-distance).

    Both arguments are unit rows; the result has shape (rows, others).

    >>> a = unit_rows(np.array([[[1.0, 0.0], [1.0, 0.0]]]))
    >>> b = unit_rows(np.array([[[0.0, 5.0], [9.0, 0.0]]]))  # at right angles in one representation of two
    >>> mean_cosine_distance(a, b).round(6)
    array([[0.5]])
    """
    distances: Floats = rows @ others.T
    return np.subtract(1, distances, out=distances)

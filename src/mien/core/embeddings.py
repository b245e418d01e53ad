"""Raw embeddings made valid, and the unit rows that turn every distance of the paper into a matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mien.core.arrays import Bools, Float32s, Float64s, Floats
from mien.core.errors import InvalidCohortError, shown

IMAGES_PER_BLOCK = 256  # 12 x 512 float64 values each: 12 MB


def checked_embeddings(image_ids: Sequence[str], embeddings: Floats) -> Float32s:
    """The embeddings as float32 (images, representations, dimensions); refuses what has no direction.

    A two-dimensional array is taken as one representation.

    >>> checked_embeddings(["1"], np.ones((1, 4))).shape
    (1, 1, 4)
    """
    embeddings = np.asarray(embeddings)
    if embeddings.ndim == 2:
        embeddings = embeddings[:, np.newaxis, :]
    if embeddings.ndim != 3 or len(embeddings) != len(image_ids) or 0 in embeddings.shape[1:]:
        raise InvalidCohortError(
            f"embeddings of shape {embeddings.shape} for {len(image_ids)} images: "
            "expected (images, representations, dimensions)"
        )
    with np.errstate(over="ignore"):
        embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
    for start in range(0, len(embeddings), IMAGES_PER_BLOCK):
        lengths = embedding_lengths(embeddings[start : start + IMAGES_PER_BLOCK])
        _refuse(~np.isfinite(lengths), image_ids[start:], "a value that is not a finite number in the embedding")
        _refuse(lengths == 0, image_ids[start:], "an embedding of length zero")
    return embeddings


def _refuse(bad: Bools, image_ids: Sequence[str], what: str) -> None:
    if bad.any():
        image, representation = (int(i) for i in np.argwhere(bad)[0])
        raise InvalidCohortError(
            f"{what} of image {shown(image_ids[image])}, representation {representation + 1}: re-encode it or drop it"
        )


def embedding_lengths(embeddings: Floats) -> Float64s:
    """Euclidean lengths (images, representations) of raw embeddings, in float64 so that no square overflows."""
    wide = embeddings.astype(np.float64, copy=False)
    lengths: Float64s = np.sqrt(np.vecdot(wide, wide))
    return lengths


def unit_rows(embeddings: Floats, whose: Sequence[str] = ()) -> Float64s:
    """One row of length one per raw embedding: the unit vectors of its representations, side by side, over sqrt(R).

    The product of two unit rows is the mean of the representations' cosines, so that
    `1 - product` is the paper's distance (eq:avg-distance). A mean of embeddings that cancel out has no direction
    and is refused; `whose` names the rows for that message.

    >>> rows = unit_rows(np.array([[[3.0, 4.0], [0.0, 2.0]]]))
    >>> rows.round(3)
    array([[0.424, 0.566, 0.   , 0.707]])
    """
    count, representations, _ = embeddings.shape
    wide = embeddings.astype(np.float64)
    lengths = embedding_lengths(wide)
    if not lengths.all():
        row = int(np.flatnonzero((lengths == 0).any(axis=1))[0])
        raise InvalidCohortError(
            f"the embeddings of {whose[row] if whose else f'row {row}'} cancel out to length zero: re-encode its images"
        )
    wide /= (lengths * np.sqrt(representations))[:, :, np.newaxis]
    return wide.reshape(count, -1)


def mean_cosine_distance(rows: Floats, others: Floats) -> Floats:
    """Cosine distance per representation, averaged over representations (eq:cosine, eq:avg-distance).

    Both arguments are unit rows; the result has shape (rows, others).

    >>> a = unit_rows(np.array([[[1.0, 0.0], [1.0, 0.0]]]))
    >>> b = unit_rows(np.array([[[0.0, 5.0], [9.0, 0.0]]]))  # at right angles in one representation of two
    >>> mean_cosine_distance(a, b).round(6)
    array([[0.5]])
    """
    distances = rows @ others.T
    np.subtract(1, distances, out=distances)
    return np.maximum(distances, 0, out=distances)  # rounding must not make a photo closer than itself

"""Proportional nearest neighbours: a share of the disorder's photos decides, the closest ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.scores.base import Score


def neighbours_counted(images_of_disorder: Ints, alpha: float) -> Ints:
    """K = ceil(alpha * M) for each disorder, with alpha as the decimal it is written as.

    >>> neighbours_counted(np.array([1, 10, 30, 31]), 0.1).tolist()
    [1, 1, 3, 4]
    """
    share = Fraction(repr(float(alpha)))  # the binary 0.1 is a little more than 0.1, and 30 of it more than 3
    counts = [-(-share.numerator * images // share.denominator) for images in images_of_disorder.tolist()]
    return np.array(counts, dtype=np.intp)


def proportional_nearest_distance(image_distances: Floats, first_image: Ints, *, alpha: float) -> Floats:
    """Mean over the ceil(alpha * M) nearest of each disorder's M images (supp:eq:propnn); alpha 1 is the mean of all.

    >>> proportional_nearest_distance(np.array([[0.4, 0.2, 0.9, 0.6]]), np.array([0]), alpha=0.5).round(6).tolist()
    [[0.3]]
    """
    return proportional_nearest_distances(image_distances, first_image, alphas=[alpha])[alpha]


def proportional_nearest_distances(
    image_distances: Floats, first_image: Ints, *, alphas: Sequence[float]
) -> dict[float, Floats]:
    """The same for several alphas, which share the sorting."""
    if len(first_image) == image_distances.shape[-1]:
        return dict.fromkeys(alphas, image_distances)  # one image each: it is its own mean
    ends = np.append(first_image[1:], image_distances.shape[-1])
    counted = [neighbours_counted(ends - first_image, alpha) for alpha in alphas]
    shape = (*image_distances.shape[:-1], len(first_image))
    distances = {alpha: np.empty(shape, image_distances.dtype) for alpha in alphas}
    for disorder, (start, end, *ks) in enumerate(zip(first_image, ends, *counted, strict=True)):
        of_disorder = image_distances[..., start:end]
        most = max(ks)
        nearest = of_disorder if most == end - start else np.partition(of_disorder, most - 1, axis=-1)[..., :most]
        sums = np.sort(nearest, axis=-1).cumsum(axis=-1)  # sorted: the order of images cannot matter
        for alpha, k in zip(alphas, ks, strict=True):
            distances[alpha][..., disorder] = sums[..., k - 1] / k
    return distances


SCORE = Score(
    distance=lambda parts, weights: proportional_nearest_distance(
        parts.image_distances, parts.first_image, alpha=weights.alpha
    ),
    neighbours=lambda images_of_disorder, weights: neighbours_counted(images_of_disorder, weights.alpha),
    uses=("alpha",),
)

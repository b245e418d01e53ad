"""Proportional nearest neighbours: a share of the disorder's photos decides, the closest ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.scores.base import Parameter, Score

ALPHA = Parameter("alpha", 0.05, 0, 1, "Share of a disorder's images that count, the nearest ones.", above_low=True)


def neighbours_counted(images_of_disorder: Ints, alpha: float) -> Ints:
    """K = ceil(alpha * M) for each disorder, with alpha as the decimal it is written as.

    >>> neighbours_counted(np.array([1, 10, 30, 31]), 0.1).tolist()
    [1, 1, 3, 4]
    """
    share = Fraction(repr(float(alpha)))  # the binary 0.1 is a little more than 0.1, and 30 of it more than 3
    counts = [-(-share.numerator * images // share.denominator) for images in images_of_disorder.tolist()]
    return np.array(counts, dtype=np.intp)


def proportional_nearest_distance(image_distances: Floats, first_image: Ints, counts: Sequence[Ints]) -> list[Floats]:
    """Means over the nearest images of each disorder (supp:eq:propnn), for several numbers of them in one sorting.

    >>> [half] = proportional_nearest_distance(np.array([[0.4, 0.2, 0.9, 0.6]]), np.array([0]), [np.array([2])])
    >>> half.round(6).tolist()
    [[0.3]]
    """
    if len(first_image) == image_distances.shape[-1]:
        return [image_distances for _ in counts]  # one image each: it is its own mean
    ends = np.append(first_image[1:], image_distances.shape[-1])
    shape = (*image_distances.shape[:-1], len(first_image))
    means = [np.empty(shape, image_distances.dtype) for _ in counts]
    for disorder, (start, end, *ks) in enumerate(zip(first_image, ends, *counts, strict=True)):
        of_disorder = image_distances[..., start:end]
        most = max(ks)
        nearest = of_disorder if most == end - start else np.partition(of_disorder, most - 1, axis=-1)[..., :most]
        sums = np.sort(nearest, axis=-1).cumsum(axis=-1)  # sorted: the order of images cannot matter
        for mean, k in zip(means, ks, strict=True):
            mean[..., disorder] = sums[..., k - 1] / k
    return means


SCORE = Score(
    "proportional",
    lambda evidence, **_: evidence.nearest_mean,
    parameters=(ALPHA,),
    centroid=None,
    neighbours=neighbours_counted,
)

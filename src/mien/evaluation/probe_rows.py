"""Distances of test images and of fused ones, which are made of the same products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mien.core.arrays import Float32s, Float64s, Ints
from mien.core.embeddings import embedding_lengths, unit_rows
from mien.core.method import fuse_embeddings

if TYPE_CHECKING:
    from scipy.sparse import csr_array  # heavy

Probe = tuple[int, ...]  # the images that are fused in it, as rows of the study's encodings


class ProbeRows(NamedTuple):
    """What probes are compared by: the unit vectors of their distinct images.

    A fused probe's unit vector is a sum of its images' unit vectors, for each representation, each times its share.
    So its product with a gallery image is the same sum of their products, and needs no product of its own.
    """

    alone: Float64s  # unit rows of the images that are in no fused probe
    summed: Float64s  # (representations, images, dimensions): of the others
    shares: csr_array  # (probes, representations * images), of those that are made of `summed`
    place_of_probe: Ints  # among those alone, and behind them those of `shares`

    @classmethod
    def of(cls, embeddings: Float32s, probes: Sequence[Probe]) -> ProbeRows:
        """Each image of a fused probe should be a probe too: it costs nothing more."""
        from scipy.sparse import csr_array  # noqa: PLC0415 heavy

        fused = sorted({image for probe in probes if len(probe) > 1 for image in probe})
        place_of_image = {image: place for place, image in enumerate(fused)}
        is_sum = np.array([probe[0] in place_of_image for probe in probes])
        raw = embeddings[fused]
        lengths = embedding_lengths(raw)  # (images, representations)
        shares, columns = [np.zeros(0)], [np.zeros(0, np.intp)]
        for probe in (probe for probe in probes if probe[0] in place_of_image):
            images = [place_of_image[image] for image in probe]
            length = embedding_lengths(fuse_embeddings(raw[images])[np.newaxis])
            length[length == 0] = np.inf  # they cancel out: at distance 1 from everything
            shares.append((lengths[images] / (len(images) * length)).T.ravel())
            columns.append((np.arange(raw.shape[1])[:, np.newaxis] * len(fused) + images).ravel())
        ends = np.cumsum([len(some) for some in shares])
        return cls(
            unit_rows(embeddings[[probe[0] for probe in probes if probe[0] not in place_of_image]]),
            np.ascontiguousarray(unit_rows(raw).reshape(raw.shape).transpose(1, 0, 2)),
            csr_array((np.concatenate(shares), np.concatenate(columns), ends), (len(ends) - 1, lengths.size)),
            np.argsort(np.argsort(is_sum, kind="stable")),
        )

    def distances(self, others: Float64s) -> Float64s:
        """To unit rows (probes, others), as `mean_cosine_distance` has them (eq:avg-distance)."""
        representations, images, dimensions = self.summed.shape
        found = np.empty((len(self.place_of_probe), len(others)))
        found[: len(self.alone)] = self.alone @ others.T
        if images:
            split = others.reshape(len(others), representations, dimensions).transpose(1, 2, 0)
            found[len(self.alone) :] = self.shares @ (self.summed @ split).reshape(-1, len(others))
        return np.subtract(1, found, out=found)[self.place_of_probe]

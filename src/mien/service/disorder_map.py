"""Places the disorders of a gallery on a map in two dimensions. `python -m` with a directory prints it as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from mien.answers.ranking import RankedDisorder
from mien.core.index import GalleryIndex
from mien.errors import EmptyGalleryError
from mien.storage.gallery import Gallery

Place = tuple[float, float]

SEED = 1  # the same gallery has the same map
FEWEST = 4  # disorders on a map
NEIGHBOURS = 5  # centroids that decide the place of a patient
CLOSENESS = 0.05  # a centroid that is this much farther away has a third of the weight


def disorder_map(index: GalleryIndex) -> dict[str, Place]:
    """The place of each disorder's patient-weighted centroid, found by t-SNE."""
    from mien.evaluation.experiments.tsne import tsne_positions  # noqa: PLC0415 scikit-learn is heavy

    disorders = index.roster.disorders
    if len(disorders) < FEWEST:
        return {}
    places = tsne_positions(index.centroids("patient").exact[:], SEED)
    return {disorder.disorder_id: place for disorder, place in zip(disorders, places, strict=True)}


def place_of_patient(lines: Sequence[RankedDisorder], places: Mapping[str, Place]) -> Place | None:
    """Places a patient at the weighted mean of the nearest centroids' places: t-SNE cannot place a new point."""
    known = sorted((line.centroid_distance, line.disorder_id) for line in lines if line.disorder_id in places)
    if not known:
        return None
    distances = np.array([distance for distance, _ in known[:NEIGHBOURS]])
    weights = np.exp(-(distances - distances[0]) / CLOSENESS)
    nearest = [places[disorder_id] for _, disorder_id in known[:NEIGHBOURS]]
    x, y = np.average(nearest, axis=0, weights=weights).tolist()
    return x, y


if __name__ == "__main__":
    os.nice(10)  # rankings come first
    try:
        drawn = disorder_map(Gallery.open(sys.argv[1]).index)
    except EmptyGalleryError:
        drawn = {}
    json.dump(drawn, sys.stdout)

"""A study on a cluster: each worker holds the embeddings of some of the gallery's patients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mien.cluster.work import Cluster
from mien.core.cohort import Encodings
from mien.core.parts import Everywhere
from mien.evaluation.comparison import Places
from mien.evaluation.pool import Gallery, Pool, dealt
from mien.simulation.study import simulated_gmdb
from mien.storage.formats import read_encodings

Read = Callable[[Collection[str]], Encodings]  # the embeddings of some images, as a worker gets them


@dataclass(frozen=True)
class PlacesOnCluster:
    """Where comparisons find their gallery images: dealt over the workers, each of which reads its own."""

    cluster: Cluster

    def of_file(self, path: Path) -> Places:
        """From an encodings file that every worker sees under the same name."""
        return partial(self._dealt, partial(images_of_file, path=path.resolve()))

    def of_simulation(self, seed: int, growth: int) -> Places:
        """From nowhere: each worker simulates all, and keeps its own."""
        return partial(self._dealt, partial(simulated_images, seed=seed, growth=growth))

    def _dealt(self, read: Read, galleries: Sequence[Gallery]) -> Everywhere[Pool]:
        images = filter(None, dealt(galleries, len(self.cluster.workers)))
        return self.cluster.everywhere([partial(pool, read, frozenset(ids), galleries) for ids in images])


def pool(read: Read, image_ids: Collection[str], galleries: Sequence[Gallery]) -> Pool:
    """A worker's part of the galleries."""
    return Pool.of(read(image_ids), galleries)


def images_of_file(image_ids: Collection[str], path: Path) -> Encodings:
    """Some images of a file."""
    return read_encodings(path, wanted=image_ids, labelled=False).encodings


def simulated_images(image_ids: Collection[str], seed: int, growth: int) -> Encodings:
    """Some images of a simulated GMDB."""
    every = simulated_gmdb(seed, growth=growth).encodings
    return every.only([row for row, image_id in enumerate(every.image_ids) if image_id in image_ids])

"""Runs a study on a cluster: each worker holds the embeddings of some of the gallery's patients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mien.cluster.workers import Cluster, naming_the_worker
from mien.core.cohort import Encodings
from mien.core.gallery_parts import Parts
from mien.errors import InvalidStudyError
from mien.evaluation.comparison import ImagePlaces
from mien.evaluation.gallery_images import Gallery, GalleryImages, Groups, image_ids_of_parts
from mien.simulation.study import simulated_gmdb
from mien.storage.loading import read_encodings

Read = Callable[[Collection[str]], Encodings]  # reads the embeddings of some images, on a worker


@dataclass(frozen=True)
class ImagesOnCluster:
    """Deals the gallery images of a comparison to the workers; each worker reads its own."""

    cluster: Cluster

    def of_file(self, path: Path) -> ImagePlaces:
        """Reads them from an encodings file that every worker sees under the same name."""
        return partial(self._dealt, partial(images_of_file, path=path.resolve()))

    def of_simulation(self, seed: int, growth: int) -> ImagePlaces:
        """Simulates them: each worker simulates all images, and keeps its own."""
        return partial(self._dealt, partial(simulated_images, seed=seed, growth=growth))

    def _dealt(self, read: Read, encodings: Encodings, galleries: Sequence[Gallery]) -> Parts[GalleryImages]:
        self.cluster.require_workers()
        images = filter(None, image_ids_of_parts(galleries, len(self.cluster.workers)))
        row_of = {image_id: row for row, image_id in enumerate(encodings.image_ids)}
        digests = {frozenset(ids): digest(encodings.only([row_of[each] for each in ids])) for ids in images}
        loads = [partial(images_on_worker, read, ids, galleries, expected) for ids, expected in digests.items()]
        return self.cluster.load_parts(loads)


def images_on_worker(
    read: Read, image_ids: Collection[str], galleries: Sequence[Gallery], expected: str
) -> GalleryImages:
    """Reads a worker's part of the galleries; refuses embeddings that differ from those of the asking machine."""
    with naming_the_worker():
        own = read(image_ids)
        if digest(own) != expected:
            raise InvalidStudyError(
                "the embeddings differ from those of the one who asks: is it the same file? Simulated ones are the same"
                " on machines of one kind only; write them to a file with 'mien simulate'"
            )
        return GalleryImages.of(own, Groups.of(galleries))


def digest(encodings: Encodings) -> str:
    """A hash of images and embeddings that does not depend on their order."""
    hashed = hashlib.blake2b()
    for row in sorted(range(len(encodings.image_ids)), key=encodings.image_ids.__getitem__):
        hashed.update(encodings.image_ids[row].encode() + b"\0")
        hashed.update(encodings.embeddings[row])
    return hashed.hexdigest()


def images_of_file(image_ids: Collection[str], path: Path) -> Encodings:
    return read_encodings(path, wanted=image_ids, labelled=False).encodings


def simulated_images(image_ids: Collection[str], seed: int, growth: int) -> Encodings:
    every = simulated_gmdb(seed, growth=growth).encodings
    return every.only([row for row, image_id in enumerate(every.image_ids) if image_id in image_ids])

"""Galleries on a cluster: each is opened on the worker that answers for it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mien.cluster.work import Cluster
from mien.core.errors import GalleryError
from mien.storage.gallery import Gallery
from mien.storage.sharded import ShardedGallery, generation_of


def open_galleries(cluster: Cluster, directories: Sequence[Path]) -> ShardedGallery:
    """Opens galleries on the workers, which see the directories under the same names."""
    paths = [directory.resolve() for directory in directories]
    generations = cluster.everywhere([partial(opened, path) for path in paths])(generation_of)
    loads = [partial(opened, path, generation) for path, generation in zip(paths, generations, strict=True)]
    return ShardedGallery.of(directories, cluster.everywhere(loads))


def opened(directory: Path, generation: int | None = None) -> Gallery:
    """A gallery, as a worker sees it. Whoever opens it in place of a lost worker must find the same generation."""
    try:
        gallery = Gallery.open(directory)
    except GalleryError as error:
        raise type(error)(f"on worker {platform.node()}: {error}") from error
    if generation not in {None, gallery.generation}:
        raise GalleryError(f"{directory}: the gallery was changed in the middle of the work: ask again")
    return gallery

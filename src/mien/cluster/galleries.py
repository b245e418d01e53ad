"""Galleries on a cluster: each is opened on the worker that answers for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mien.cluster.work import Cluster, on_worker
from mien.core.errors import GalleryError
from mien.core.index import GalleryIndex
from mien.storage.database import State
from mien.storage.gallery import Gallery, newest_state
from mien.storage.sharded import ShardedGallery, require_distinct


def open_galleries(cluster: Cluster, directories: Sequence[Path]) -> ShardedGallery:
    """Opens galleries on the workers, which see the directories under the same names."""
    require_distinct(directories)
    paths = [directory.resolve() for directory in directories]
    states = []
    for answer in cluster.in_order(state_there, ((path,) for path in paths)):
        if isinstance(answer, Exception):
            raise answer
        states.append(answer)
    loads = [partial(opened, path, state) for path, state in zip(paths, states, strict=True) if state.images]
    return ShardedGallery.of(directories, states, cluster.load_parts(loads) if loads else None)


def state_there(directory: Path) -> State:
    """The newest state of a gallery, as a worker sees it."""
    with on_worker():
        return newest_state(directory)


def opened(directory: Path, state: State) -> GalleryIndex:
    """A gallery's index on a worker. Whoever opens it in place of a lost worker must find the same one."""
    with on_worker():
        gallery = Gallery.open(directory)
        if (gallery.generation, gallery.fingerprint) != (state.generation, state.fingerprint):
            raise GalleryError(f"{directory}: the gallery was changed in the middle of the work: ask again")
        return gallery.index

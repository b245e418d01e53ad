"""Opens galleries on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mien.cluster.workers import Cluster, naming_the_worker
from mien.core.index import GalleryIndex
from mien.errors import GalleryError
from mien.storage.database import State
from mien.storage.gallery import Gallery, state_of
from mien.storage.sharded import ShardedGallery, require_distinct


def open_galleries(cluster: Cluster, directories: Sequence[Path]) -> ShardedGallery:
    """Opens each gallery on a worker. Workers must see the directories under the same names."""
    require_distinct(directories)
    paths = [directory.resolve() for directory in directories]
    states = []
    for answer in cluster.run_in_order(state_on_worker, ((path,) for path in paths)):
        if isinstance(answer, Exception):
            raise answer
        states.append(answer)
    loads = [partial(index_on_worker, path, state) for path, state in zip(paths, states, strict=True) if state.images]
    return ShardedGallery.of(directories, states, cluster.load_parts(loads) if loads else None)


def state_on_worker(directory: Path) -> State:
    """The newest state of a gallery, as a worker sees it."""
    with naming_the_worker():
        return state_of(directory)


def index_on_worker(directory: Path, state: State) -> GalleryIndex:
    """Opens a gallery's index on a worker; refuses one that has changed since the state was read."""
    with naming_the_worker():
        gallery = Gallery.open(directory)
        if (gallery.generation, gallery.fingerprint) != (state.generation, state.fingerprint):
            raise GalleryError(f"{directory}: the gallery was changed in the middle of the work: ask again")
        return gallery.index

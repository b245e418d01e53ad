"""Encodes photos on a cluster: bytes go to the workers, embeddings come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mien.cluster.workers import Cluster, killed_workers_message, naming_the_worker
from mien.core.embeddings import Encoder
from mien.encoding.photo_encoder import PHOTOS_PER_BATCH, Photo, PhotoEncoder, RefusedPhoto, Result, read_photo
from mien.encoding.process_memory import forbid_core_dumps
from mien.encoding.store import StoredEncoder, encoder_for
from mien.errors import InvalidPhotoError


@dataclass(frozen=True, eq=False)
class ClusterEncoder:
    """Encodes photos on workers that have the same encoder as this machine."""

    cluster: Cluster
    encoder: Encoder  # the identity that its embeddings carry
    address: str  # the encoder's name, or its folder, as every worker sees it

    @classmethod
    def of(cls, cluster: Cluster, stored: StoredEncoder) -> ClusterEncoder:
        """Workers find the encoder by its name; if it has no known name, by its folder."""
        named = stored.address == stored.manifest.name
        return cls(cluster, stored.manifest.encoder, stored.address if named else str(stored.folder.resolve()))

    def encode(self, photos: Sequence[Photo]) -> Iterator[Result]:
        """Encodes photos in their order. Other workers repeat the batches of a lost one."""
        batches = [photos[start : start + PHOTOS_PER_BATCH] for start in range(0, len(photos), PHOTOS_PER_BATCH)]
        answers = self.cluster.run_in_order(encode_on_worker, (self._task(batch) for batch in batches))
        for batch, answer in zip(batches, answers, strict=True):
            yield from answer if isinstance(answer, list) else self._one_by_one(batch, answer)

    def _one_by_one(self, batch: Sequence[Photo], error: Exception) -> Iterator[Result]:
        """Encodes the photos of a batch that killed its workers one by one; refuses those that kill them again."""
        if not killed_workers_message(error):
            raise error
        for photo in batch:
            [answer] = self.cluster.run_in_order(encode_on_worker, [self._task([photo])])
            if isinstance(answer, list):
                yield from answer
            elif reason := killed_workers_message(answer):
                yield RefusedPhoto(photo.image_id, f"{reason}: try it alone, or make it smaller")
            else:
                raise answer

    def _task(self, photos: Sequence[Photo]) -> tuple[list[Photo | RefusedPhoto], str, Encoder]:
        return [_with_bytes(photo) for photo in photos], self.address, self.encoder


def _with_bytes(photo: Photo) -> Photo | RefusedPhoto:
    try:
        return replace(photo, source=read_photo(photo.source))
    except InvalidPhotoError as error:
        return RefusedPhoto(photo.image_id, str(error))


def encode_on_worker(photos: Sequence[Photo | RefusedPhoto], address: str, expected: Encoder) -> list[Result]:
    """Encodes a few photos on a worker; photos that could not be read stay refused."""
    with naming_the_worker():
        encoder = _loaded(address, expected)
    encoded = iter(encoder.encode_batch([photo for photo in photos if isinstance(photo, Photo)]))
    return [next(encoded) if isinstance(photo, Photo) else photo for photo in photos]


@lru_cache(maxsize=1)  # once per worker
def _loaded(address: str, expected: Encoder) -> PhotoEncoder:
    forbid_core_dumps()
    stored = encoder_for(None, address)
    stored.manifest.encoder.require_same(expected, here="a photo on a worker", there="the one who asks")
    return stored.load()

"""GM-Arc encodings as rows (image, model, flip, gray, vector), put together by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mien.core.arrays import Float32s, Ints
from mien.core.cohort import Encodings
from mien.core.encoder import Encoder
from mien.core.errors import InvalidFileError, MienError, shown

COLUMNS = ("img_name", "model", "flip", "gray", "class_conf", "representations")
Key = tuple[str, ...]  # model, flip, gray


def image_id_of(img_name: str) -> str:
    """The image id that a photo's name begins with.

    >>> image_id_of("1234_rot_aligned.jpg"), image_id_of("1234.jpg")
    ('1234', '1234')
    """
    before, underscore, _ = img_name.partition("_")
    return before if underscore else img_name.rpartition(".")[0] or img_name


class RowCollector:
    """Takes rows in any order and hands out whole embeddings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.image_of: dict[str, int] = {}
        self.key_of: dict[Key, int] = {}
        self.image_of_row: list[Ints] = []
        self.key_of_row: list[Ints] = []
        self.vectors = np.empty((0, 0), dtype=np.float32)  # grows; rows from `filled` on are not yet used
        self.filled = 0

    def add(
        self,
        image_ids: Sequence[str],
        keys: Sequence[Key],
        image_of_row: Sequence[int],
        key_of_row: Sequence[int],
        vectors: Float32s,
        *,
        expected_rows: int = 0,
    ) -> None:
        """One block of rows, whose images and keys are numbered within the block; how many may come in all."""
        if self.filled and vectors.shape[1] != self.vectors.shape[1]:
            what = f"{vectors.shape[1]} dimensions where others have {self.vectors.shape[1]}"
            raise InvalidFileError(self.path, [f"image {shown(image_ids[image_of_row[0]])}: {what}"])
        images = np.array([self.image_of.setdefault(image_id, len(self.image_of)) for image_id in image_ids])
        places = np.array([self.key_of.setdefault(key, len(self.key_of)) for key in keys])
        self.image_of_row.append(images[np.array(image_of_row)])
        self.key_of_row.append(places[np.array(key_of_row)])
        needed = self.filled + len(vectors)
        if needed > len(self.vectors):  # memory that is not written to costs nothing: rather too much than a copy
            grown = np.empty((max(needed, 2 * len(self.vectors), expected_rows), vectors.shape[1]), dtype=np.float32)
            if self.filled:
                grown[: self.filled] = self.vectors[: self.filled]
            self.vectors = grown
        self.vectors[self.filled : needed] = vectors
        self.filled = needed

    def encodings(self) -> Encodings:
        """All rows as embeddings, representations in the order (model, flip, gray)."""
        if not self.filled:
            return Encodings.of([], np.empty((0, 1, 1)))
        image_ids, keys = list(self.image_of), sorted(self.key_of)
        place_of_key = np.argsort([self.key_of[key] for key in keys])
        place = np.concatenate(self.image_of_row) * len(keys) + place_of_key[np.concatenate(self.key_of_row)]
        counts = np.bincount(place, minlength=len(image_ids) * len(keys))
        self._check_each_once(image_ids, keys, counts.reshape(len(image_ids), len(keys)))
        rows = self.vectors[: self.filled]
        if not np.array_equal(place, np.arange(len(place))):  # the official scripts write rows in order
            rows = rows[np.argsort(place)]
        embeddings = rows.reshape(len(image_ids), len(keys), -1)
        names = tuple(f"{model}/flip{flip}/gray{gray}" for model, flip, gray in keys)
        try:
            return Encodings.of(image_ids, embeddings, Encoder(*embeddings.shape[1:], representation_names=names))
        except MienError as error:
            raise InvalidFileError(self.path, [str(error)]) from error

    def _check_each_once(self, image_ids: list[str], keys: list[Key], counts: Ints) -> None:
        problems = []
        for image, key in np.argwhere(counts != 1).tolist():
            model, flip, gray = keys[key]
            found = f"there {counts[image, key]} times" if counts[image, key] else "missing"
            problems.append(
                f"image {shown(image_ids[image])}: representation {model}, flip {flip}, gray {gray} is {found}"
            )
        if problems:
            raise InvalidFileError(self.path, problems)

"""GM-Arc encodings as rows (image, model, flip, gray, vector), put together by key."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.cohort import Encodings
from mien.core.embeddings import Encoder, representation_name
from mien.errors import InvalidFileError, MienError, shown

COLUMNS = ("img_name", "model", "flip", "gray", "class_conf", "representations")
Key = tuple[bytes, bytes, bytes]  # model, flip, gray, as the file writes them


def image_id_of(img_name: str) -> str:
    """The image id that a photo's name begins with.

    >>> image_id_of("1234_rot_aligned.jpg"), image_id_of("1234.jpg")
    ('1234', '1234')
    """
    before, underscore, _ = img_name.partition("_")
    return before if underscore else img_name.rpartition(".")[0] or img_name


class RowCollector:
    """Gathers rows in any order into whole embeddings."""

    def __init__(self, path: Path, *, expected_rows: int) -> None:
        self.path = path
        self.expected_rows = expected_rows  # about; more may come
        self.image_of: dict[str, int] = {}
        self.key_of: dict[Key, int] = {}
        self.image_of_row: list[int] = []
        self.key_of_row: list[int] = []
        self.dimensions = 0
        self.vectors = np.empty((0, 0), dtype=np.float32)  # grows; rows that are not yet used cost no memory

    def add(self, image_id: str, key: Key, vector: Floats) -> None:
        filled = len(self.image_of_row)
        if filled and len(vector) != self.dimensions:
            raise ValueError(f"{len(vector)} numbers where others have {self.dimensions}")
        if filled == len(self.vectors):
            grown = np.empty((max(2 * filled, self.expected_rows, 1), len(vector)), dtype=np.float32)
            if filled:
                grown[:filled] = self.vectors
            self.vectors, self.dimensions = grown, len(vector)
        self.vectors[filled] = vector
        self.image_of_row.append(self.image_of.setdefault(image_id, len(self.image_of)))
        self.key_of_row.append(self.key_of.setdefault(key, len(self.key_of)))

    def encodings(self) -> Encodings:
        """All rows as embeddings, representations in the order (model, flip, gray)."""
        if not self.image_of_row:
            return Encodings.of([], np.empty((0, 1, 1)))
        image_ids, keys = list(self.image_of), sorted(self.key_of)
        place_of_key = np.argsort([self.key_of[key] for key in keys])
        place = np.array(self.image_of_row) * len(keys) + place_of_key[np.array(self.key_of_row)]
        counts = np.bincount(place, minlength=len(image_ids) * len(keys))
        self._check_each_once(image_ids, keys, counts.reshape(len(image_ids), len(keys)))
        rows = self.vectors[: len(place)]
        if not np.array_equal(place, np.arange(len(place))):  # the official scripts write rows in order
            rows = rows[np.argsort(place)]
        embeddings = rows.reshape(len(image_ids), len(keys), -1)
        names = tuple(representation_name(*_texts(key)) for key in keys)
        try:
            return Encodings.of(image_ids, embeddings, Encoder(*embeddings.shape[1:], representation_names=names))
        except MienError as error:
            raise InvalidFileError(self.path, [str(error)]) from error

    def _check_each_once(self, image_ids: list[str], keys: list[Key], counts: Ints) -> None:
        problems = []
        for image, key in np.argwhere(counts != 1).tolist():
            model, flip, gray = _texts(keys[key])
            found = f"there {counts[image, key]} times" if counts[image, key] else "missing"
            problems.append(
                f"image {shown(image_ids[image])}: representation {model}, flip {flip}, gray {gray} is {found}"
            )
        if problems:
            raise InvalidFileError(self.path, problems)


def _texts(key: Key) -> list[str]:
    return [part.decode(errors="backslashreplace") for part in key]

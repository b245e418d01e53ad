"""`index-<generation>.*`: the derived index. It can be deleted at any time and is made again.

The matrices come first and `index-<generation>.json` last, each written under a temporary name, synced and renamed:
where the JSON file is, the index is whole. It describes the matrices, which are bare numbers, and has a checksum of
each. Index files are only written and deleted under the database's write lock.

JSON with a checksum is written and read here, that of the gallery's generation too.
"""

from __future__ import annotations

import errno
import json
import math
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Floats, Ints, Rows
from mien.core.embeddings import Encoder
from mien.core.index import GalleryIndex, build_index, matrices_of
from mien.core.roster import Disorder, Roster
from mien.errors import CorruptGalleryError
from mien.storage.outputs import TEMPORARY, private_file, sync_directory

MATRICES = tuple(name for name, _, _ in matrices_of(0, 0, Encoder(1, 1)))
ROSTER_ARRAYS = ("patient_of_image", "image_of_label", "first_label")
LARGEST_READ = 1 << 22  # bytes of a matrix that is read and checked at opening; larger ones stay in their files
ROWS_CHECKED = 1 << 10  # at a time
TIMES_FOR_CODES = 64  # rounded rows are read up to this many times that: every query scans them, from memory faster


def write_index(
    directory: Path,
    generation: int,
    fingerprint: str,
    roster: Roster,
    encoder: Encoder,
    read: Callable[[Ints], Floats],
) -> None:
    """Builds the index straight into mapped files, so that memory stays at the size of one disorder."""
    matrices: dict[str, np.memmap[Any, Any]] = {}
    with ExitStack() as files:

        def allocate(field: str, shape: tuple[int, ...], dtype: type[np.generic]) -> npt.NDArray[Any]:
            file = files.enter_context(private_file(_path(directory, generation, field)))
            if hasattr(os, "posix_fallocate"):  # not on every system
                # a full disk is an error here; later, in the middle of the map, it would be a bus error
                os.posix_fallocate(file.fileno(), 0, _bytes(shape, dtype))
            matrices[field] = np.memmap(file, dtype, "r+", shape=shape)
            return matrices[field]

        index = build_index(roster, encoder, read, allocate=allocate)
        for matrix in matrices.values():
            matrix.flush()
        checksums = {field: zlib.crc32(matrix.data) for field, matrix in matrices.items()}
    description = {
        "generation": generation,
        "fingerprint": fingerprint,
        "encoder": encoder.as_dict(),
        "alike": index.images.alike,
        "image_ids": roster.image_ids,
        "patient_ids": roster.patient_ids,
        "disorders": roster.disorders,
        **{name: getattr(roster, name).tolist() for name in ROSTER_ARRAYS},
        "checksums": checksums,
    }
    write_checked_json(_path(directory, generation, "json"), description)


def is_written(directory: Path, generation: int) -> bool:
    """Whether there is a whole index of this generation."""
    return all(path.exists() for path in index_paths(directory, generation))


def index_paths(directory: Path, generation: int) -> list[Path]:
    """All files of one index."""
    return [_path(directory, generation, suffix) for suffix in ("json", *MATRICES)]


def read_index(directory: Path, generation: int, fingerprint: str, *, check_all: bool = False) -> GalleryIndex:
    """Opens an index; `FileNotFoundError` where there is none of this generation.

    Small files are read and checked. `check_all` checks the large ones too.
    """
    if not is_written(directory, generation):
        raise FileNotFoundError
    try:
        described = read_checked_json(_path(directory, generation, "json"))
        if described["fingerprint"] != fingerprint:
            raise ValueError(f"index-{generation}.json belongs to another gallery")  # noqa: TRY301 one message for all
        roster = Roster(
            image_ids=tuple(described["image_ids"]),
            patient_ids=tuple(described["patient_ids"]),
            disorders=tuple(Disorder(*fields) for fields in described["disorders"]),
            **{name: np.array(described[name], dtype=np.intp) for name in ROSTER_ARRAYS},
        )
        encoder = Encoder.from_dict(described["encoder"])
        sizes = len(roster.image_ids), len(roster.disorders)
        count, dimensions = described["alike"]
        matrices = {}
        for field, shape, dtype in matrices_of(*sizes, encoder, (count, dimensions)):
            path = _path(directory, generation, field)
            largest_read = LARGEST_READ * (TIMES_FOR_CODES if field == "image_codes" else 1)
            matrices[field] = matrix = _matrix(path, shape, dtype, largest_read)
            read = isinstance(matrix, np.ndarray)
            if (check_all or read) and _checksum(matrix) != described["checksums"][field]:
                raise ValueError(f"{path.name} does not match its checksum")  # noqa: TRY301
        return GalleryIndex.of(roster, encoder, (count, dimensions), matrices)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptGalleryError(f"{directory}: {error}") from error


def _matrix(path: Path, shape: tuple[int, ...], dtype: type[np.generic], largest_read: int) -> Rows:
    """The file holds bare numbers, so that only its length can be checked."""
    rows, wanted = FileRows(path, shape, dtype), _bytes(shape, dtype)
    if rows.file_size != wanted:
        raise ValueError(f"{path.name} has {rows.file_size} bytes instead of {wanted}")
    return rows[:] if wanted <= largest_read else rows


class FileRows:
    """Rows of a matrix, read from its file when they are asked for, so that they take no memory.

    A memory map would be worse: reading from one whose file was cut short kills the process, and for each row the
    system reads and maps megabytes around it.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        file = open_unlinked(path)
        finalize(self, file.close)
        self._descriptor = file.fileno()
        self.file_size = os.fstat(self._descriptor).st_size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Ints) -> npt.NDArray[Any]:
        if isinstance(rows, slice):
            start, end, _ = rows.indices(len(self))
            found = np.empty((max(0, end - start), *self.shape[1:]), self.dtype)
            self._read(found, start)
            return found
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for place, row in enumerate(rows.tolist()):
            self._read(found[place], row)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self[:],)  # a file stays where it is

    def _read(self, found: npt.NDArray[Any], row: int) -> None:
        left, offset = found.reshape(-1).view(np.uint8), row * _bytes(self.shape[1:], self.dtype)
        while len(left):
            count = os.preadv(self._descriptor, [left.data], offset)
            if not count:
                raise CorruptGalleryError(
                    f"{self.path} was cut short while it was open: open the gallery again, mien makes it anew"
                )
            left, offset = left[count:], offset + count


def _checksum(rows: Rows) -> int:
    checksum = 0
    for start in range(0, len(rows), ROWS_CHECKED):
        checksum = zlib.crc32(np.ascontiguousarray(rows[start : start + ROWS_CHECKED]).data, checksum)
    return checksum


def _bytes(shape: tuple[int, ...], dtype: npt.DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def delete_other_indexes(directory: Path, *, keep: int) -> None:
    """Deletes all index files but those of one generation, and what killed processes left behind."""
    for path in directory.glob("index-*"):
        if not path.name.startswith(f"index-{keep}.") or path.name.endswith(TEMPORARY):
            path.unlink(missing_ok=True)
    sync_directory(directory)


def delete_index(directory: Path, generation: int) -> None:
    """Deletes the files of one generation."""
    for path in directory.glob(f"index-{generation}.*"):
        path.unlink(missing_ok=True)


def _path(directory: Path, generation: int, suffix: str) -> Path:
    return directory / f"index-{generation}.{suffix}"


def open_unlinked(path: Path) -> BinaryIO:
    """Opens a file to read it; `ValueError` where it is a link."""
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path.name} is a link") from error
        raise


def write_checked_json(path: Path, content: Mapping[str, Any]) -> None:
    """JSON after a line with its checksum."""
    text = json.dumps(content).encode()
    with private_file(path) as file:
        file.write(b"%08x\n" % zlib.crc32(text) + text)


def read_checked_json(path: Path) -> dict[str, Any]:
    """The content; `ValueError` where a byte of it has changed."""
    with open_unlinked(path) as file:
        checksum, _, text = file.read().partition(b"\n")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError(f"{path.name} does not match its checksum")
    content: dict[str, Any] = json.loads(text)
    return content

"""`index-<generation>.*`: the derived index, mapped into memory. It can be deleted at any time and is made again.

The matrices come first and `index-<generation>.json` last, each written under a temporary name, synced and renamed:
where the JSON file is, the index is whole. It describes the matrices, which are bare numbers, and has a checksum of
each. Index files are only written and deleted under the database's write lock.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Floats, Ints
from mien.core.encoder import Encoder
from mien.core.errors import CorruptGalleryError
from mien.core.index import GalleryIndex, build_index, index_of_matrices, matrices_of
from mien.core.roster import Disorder, Roster
from mien.storage.outputs import (
    TEMPORARY,
    open_unlinked,
    private_file,
    read_checked_json,
    sync_directory,
    write_checked_json,
)

MATRICES = tuple(name for name, _, _ in matrices_of(0, 0, Encoder(1, 1)))
ROSTER_ARRAYS = ("patient_of_image", "image_of_label", "first_label")
LARGEST_READ = 1 << 22  # bytes of a matrix that is read and checked at opening; larger ones are mapped
TIMES_FOR_CODES = 64  # as large may rounded rows be: every query scans them, in memory a third faster than in a map


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

        build_index(roster, encoder, read, allocate=allocate)
        for matrix in matrices.values():
            matrix.flush()
        checksums = {field: zlib.crc32(matrix.data) for field, matrix in matrices.items()}
    description = {
        "generation": generation,
        "fingerprint": fingerprint,
        "encoder": encoder.as_dict(),
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
    """Maps an index into memory; `FileNotFoundError` where there is none of this generation.

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
        matrices = {}
        for field, shape, dtype in matrices_of(len(roster.image_ids), len(roster.disorders), encoder):
            path = _path(directory, generation, field)
            largest_read = LARGEST_READ * (TIMES_FOR_CODES if field == "image_codes" else 1)
            matrices[field] = matrix = _matrix(path, shape, dtype, largest_read)
            if (check_all or not _is_mapped(matrix)) and zlib.crc32(matrix.data) != described["checksums"][field]:
                raise ValueError(f"{path.name} does not match its checksum")  # noqa: TRY301
        ways_to_read = _ways_to_read(_path(directory, generation, "image_rows"), matrices)
        return index_of_matrices(roster, encoder, matrices, **ways_to_read)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptGalleryError(f"{directory}: {error}") from error


def _matrix(path: Path, shape: tuple[int, ...], dtype: type[np.generic], largest_read: int) -> npt.NDArray[Any]:
    """Bare numbers: the file's length is the only thing it says of itself."""
    with open_unlinked(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != _bytes(shape, dtype):
            raise ValueError(f"{path.name} has {size} bytes instead of {_bytes(shape, dtype)}")
        if size <= largest_read:
            return np.fromfile(file, dtype).reshape(shape)
        mapped = np.memmap(file, dtype, "r", shape=shape)
        mapped.filename = str(path)
        return np.asarray(mapped)  # a plain array on top: indexing a np.memmap costs microseconds more each time


def _bytes(shape: tuple[int, ...], dtype: type[np.generic]) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _is_mapped(matrix: npt.NDArray[Any]) -> bool:
    return isinstance(matrix.base, np.memmap)


def _pages(matrix: npt.NDArray[Any]) -> mmap.mmap:
    pages: mmap.mmap = matrix.base._mmap  # type: ignore[union-attr]  # noqa: SLF001 the only way to the map itself
    return pages


def _ways_to_read(path: Path, matrices: Mapping[str, npt.NDArray[Any]]) -> dict[str, Callable[..., Any]]:
    """How images' rows are picked from their file, and let go after a scan, where they are mapped."""
    exact, codes = matrices["image_rows"], matrices["image_codes"]
    ways: dict[str, Callable[..., Any]] = {"require_whole": _require_whole}
    if _is_mapped(exact):
        ways |= {"let_go_exact": _letting_go(exact), "picked": _row_reader(path, exact)}
    if _is_mapped(codes):
        ways["let_go_codes"] = _letting_go(codes)
    return ways


def _require_whole(matrix: npt.NDArray[Any]) -> None:
    """Refuses a file that was cut short after it was mapped: whoever reads the map there is killed."""
    if _is_mapped(matrix) and _pages(matrix).size() < len(_pages(matrix)):
        raise _cut_short(matrix.base.filename)  # type: ignore[union-attr]


def _cut_short(path: object) -> CorruptGalleryError:
    return CorruptGalleryError(f"{path} was cut short while it was open: open the gallery again, mien makes it anew")


def _letting_go(matrix: npt.NDArray[Any]) -> Callable[[int, int], None]:
    """Takes rows that were read out of this process's memory, and asks for as many more if they are there."""
    pages, row = _pages(matrix), matrix.strides[0]

    def advise(start: int, end: int, advice: str) -> None:
        first = start * row // mmap.PAGESIZE * mmap.PAGESIZE
        last = min(end * row, len(pages))
        if first < last and hasattr(mmap, advice):  # not on every system
            pages.madvise(getattr(mmap, advice), first, last - first)

    def let_go(start: int, end: int) -> None:
        _require_whole(matrix)
        advise(start, end, "MADV_DONTNEED")
        advise(end, 2 * end - start, "MADV_WILLNEED")

    return let_go


def _row_reader(path: Path, matrix: npt.NDArray[Any]) -> Callable[[Ints], npt.NDArray[Any]]:
    """Reads single rows from the file: around a row that is read in its map, the system reads and maps megabytes."""
    if not hasattr(os, "preadv"):  # not on every system
        return partial(matrix.take, axis=0)
    file, length = open_unlinked(path), matrix.strides[0]
    descriptor = file.fileno()
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def read(rows: Ints) -> npt.NDArray[Any]:
        found = np.empty((len(rows), *matrix.shape[1:]), matrix.dtype)
        for place, row in enumerate(rows.tolist()):
            if os.preadv(descriptor, [found[place]], row * length) != length:
                raise _cut_short(path)
        return found

    finalize(read, file.close)
    return read


def sweep(directory: Path, *, keep: int) -> None:
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

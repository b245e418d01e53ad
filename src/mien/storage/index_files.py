"""`index-<generation>.*`: the derived index, mapped into memory. It can be deleted at any time and is made again.

The matrices come first and `index-<generation>.json` last, each written under a temporary name, synced and renamed:
where the JSON file is, the index is whole. Index files are only written and deleted under the database's write lock.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Floats, Ints
from mien.core.encoder import Encoder
from mien.core.errors import CorruptGalleryError, shown
from mien.core.index import GalleryIndex, build_index, index_of_matrices, matrices_of
from mien.core.roster import Disorder, Roster

MATRICES = tuple(name for name, _, _ in matrices_of(0, 0, Encoder(1, 1)))
ROSTER_ARRAYS = ("patient_of_image", "image_of_label", "first_label")
TEMPORARY = ".new"
LARGEST_KEPT = 1 << 28  # bytes of rounded rows that stay in memory; of larger ones, what was scanned is let go


def write_index(
    directory: Path,
    generation: int,
    fingerprint: str,
    roster: Roster,
    encoder: Encoder,
    read: Callable[[Ints], Floats],
) -> None:
    """Builds the index straight into mapped files, so that memory stays at the size of one disorder."""

    def allocate(field: str, shape: tuple[int, ...], dtype: type[np.generic]) -> npt.NDArray[Any]:
        path = _path(directory, generation, f"{field}.npy{TEMPORARY}")
        matrix: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):  # not on every system
            with path.open("r+b") as file:
                # a full disk is an error here; later, in the middle of the map, it would be a bus error
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        return matrix

    matrices: dict[str, npt.NDArray[Any]] = {}
    build_index(roster, encoder, read, allocate=lambda *of: matrices.setdefault(of[0], allocate(*of)))
    checksums = {}
    for field, matrix in matrices.items():
        checksums[field] = [zlib.crc32(row) for row in matrix]
        matrix.flush()  # type: ignore[attr-defined] # it is mapped
        _publish(_path(directory, generation, f"{field}.npy{TEMPORARY}"))
    description = {
        "generation": generation,
        "fingerprint": fingerprint,
        "encoder": encoder.as_dict(),
        "image_ids": roster.image_ids,
        "patient_ids": roster.patient_ids,
        "disorders": roster.disorders,
        **{name: getattr(roster, name).tolist() for name in ROSTER_ARRAYS},
    }
    _write_json(_path(directory, generation, "checksums"), checksums)
    _write_json(_path(directory, generation, "json"), description)


def is_written(directory: Path, generation: int) -> bool:
    """Whether there is a whole index of this generation."""
    suffixes = ["json", "checksums", *[f"{field}.npy" for field in MATRICES]]
    return all(_path(directory, generation, suffix).exists() for suffix in suffixes)


def read_index(directory: Path, generation: int, fingerprint: str) -> GalleryIndex:
    """Maps an index into memory; `FileNotFoundError` where there is none of this generation."""
    path = _path(directory, generation, "json")
    try:
        described = _read_json(path)
        if described["fingerprint"] != fingerprint:
            raise ValueError("it belongs to another gallery")  # noqa: TRY301 all damage has one message
        roster = Roster(
            image_ids=tuple(described["image_ids"]),
            patient_ids=tuple(described["patient_ids"]),
            disorders=tuple(Disorder(*fields) for fields in described["disorders"]),
            **{name: np.array(described[name], dtype=np.intp) for name in ROSTER_ARRAYS},
        )
        matrices = {field: _map(_path(directory, generation, f"{field}.npy")) for field in MATRICES}
        ways_to_read = _ways_to_read(_path(directory, generation, "image_rows.npy"), matrices)
        return index_of_matrices(roster, Encoder.from_dict(described["encoder"]), matrices, **ways_to_read)
    except (ValueError, KeyError, TypeError) as error:
        advice = f"delete the files index-{generation}.*, mien makes them again"
        raise CorruptGalleryError(f"{path}: {error}: {advice}") from error


def _map(path: Path) -> npt.NDArray[Any]:
    # a plain array on top of the map: indexing a np.memmap costs microseconds more each time
    try:
        matrix: npt.NDArray[Any] = np.asarray(np.load(path, mmap_mode="r"))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return matrix


def _ways_to_read(path: Path, matrices: dict[str, npt.NDArray[Any]]) -> dict[str, Callable[..., Any]]:
    """How images' rows are picked from their file, and let go after a scan."""
    exact, codes = matrices["image_rows"], matrices["image_codes"]
    large = {"let_go_codes": _letting_go(codes)} if codes.nbytes > LARGEST_KEPT else {}
    return {"let_go_exact": _letting_go(exact), "picked": _row_reader(path, exact), **large}


def _letting_go(matrix: npt.NDArray[Any]) -> Callable[[int, int], None]:
    """Takes rows that were read out of this process's memory, and asks for as many more: they follow."""
    mapped, row = matrix.base, matrix.strides[0]
    assert isinstance(mapped, np.memmap)
    pages: mmap.mmap = mapped._mmap  # type: ignore[attr-defined]  # noqa: SLF001 the only way to the map itself

    def advise(start: int, end: int, advice: str) -> None:
        first = (mapped.offset + start * row) // mmap.PAGESIZE * mmap.PAGESIZE
        last = min(mapped.offset + end * row, len(pages))
        if first < last and hasattr(mmap, advice):  # not on every system
            pages.madvise(getattr(mmap, advice), first, last - first)

    def let_go(start: int, end: int) -> None:
        advise(start, end, "MADV_DONTNEED")
        advise(end, 2 * end - start, "MADV_WILLNEED")

    return let_go


def _row_reader(path: Path, matrix: npt.NDArray[Any]) -> Callable[[Ints], npt.NDArray[Any]]:
    """Reads single rows from the file: around a row that is read in its map, the system reads and maps megabytes."""
    if not hasattr(os, "preadv"):  # not on every system
        return partial(matrix.take, axis=0)
    descriptor, first, length = os.open(path, os.O_RDONLY), matrix.base.offset, matrix.strides[0]  # type: ignore[union-attr]
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def read(rows: Ints) -> npt.NDArray[Any]:
        found = np.empty((len(rows), *matrix.shape[1:]), matrix.dtype)
        for place, row in enumerate(rows.tolist()):
            if os.preadv(descriptor, [found[place]], first + row * length) != length:
                raise CorruptGalleryError(f"{path.name} is cut short: delete it, mien makes it again")
        return found

    finalize(read, os.close, descriptor)
    return read


def damaged_rows(directory: Path, generation: int, fingerprint: str) -> Iterator[str]:
    """A line for every row of the index that does not match its checksum."""
    roster = read_index(directory, generation, fingerprint).roster
    checksums = _read_json(_path(directory, generation, "checksums"))
    for field in MATRICES:
        path = _path(directory, generation, f"{field}.npy")
        matrix = _map(path)
        if len(matrix) != len(checksums[field]):
            yield f"{path.name}: {len(matrix)} rows instead of {len(checksums[field])}"
        for number, (row, checksum) in enumerate(zip(matrix, checksums[field], strict=False)):
            if zlib.crc32(row) != checksum:
                whose = (
                    f"disorder {shown(roster.disorders[number].disorder_id)}"
                    if "centroid" in field or "sums" in field
                    else f"image {shown(roster.image_ids[number])}"
                )
                yield f"{path.name}: row {number} ({whose}) is damaged"


def sweep(directory: Path, *, keep: int) -> None:
    """Deletes all index files but those of one generation, and what killed processes left behind."""
    for path in directory.glob("index-*"):
        if not path.name.startswith(f"index-{keep}.") or path.name.endswith(TEMPORARY):
            path.unlink(missing_ok=True)
    _sync_directory(directory)


def delete_index(directory: Path, generation: int) -> None:
    """Deletes the files of one generation."""
    for path in directory.glob(f"index-{generation}.*"):
        path.unlink(missing_ok=True)


def _path(directory: Path, generation: int, suffix: str) -> Path:
    return directory / f"index-{generation}.{suffix}"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """JSON after a line with its checksum."""
    temporary = path.with_name(path.name + TEMPORARY)
    text = json.dumps(content).encode()
    temporary.write_bytes(b"%08x\n" % zlib.crc32(text) + text)
    _publish(temporary)


def _read_json(path: Path) -> dict[str, Any]:
    checksum, _, text = path.read_bytes().partition(b"\n")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("it does not match its checksum")
    content: dict[str, Any] = json.loads(text)
    return content


def _publish(temporary: Path) -> None:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.rename(temporary.with_name(temporary.name.removesuffix(TEMPORARY)))
    _sync_directory(temporary.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

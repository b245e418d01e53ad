"""PyTorch files read without PyTorch: the named tensors of a `.pth` or `.pt` file, and nothing of it is ever run.

Two layouts: a zip archive (`data.pkl` describes, `data/<key>` holds the numbers), and the older row of pickles with the
numbers behind them. Two contents: a state dict, and a whole pickled module, which is a tree of state dicts.
"""

from __future__ import annotations

import zipfile
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from mien.errors import InvalidFileError, shown
from mien.storage.formats.inert_pickle import next_inert, reason
from mien.storage.formats.torch_records import KNOWN, Arrays, Storage, named_arrays, outside_object

LARGEST_FILE = 4 * 2**30
LONGEST_DESCRIPTION = 2 * 2**20  # a pickle without its numbers: a network of a hundred layers takes 0.3 MB
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def read_tensors(path: Path) -> Arrays:
    """The named tensors of a PyTorch file, named as `state_dict()` names them; read-only views of the file's numbers.

    A prefix `module.` of all names, as data-parallel training leaves it, is taken away.
    """
    try:
        tensors = _read(path)
    except InvalidFileError:
        raise
    except Exception as error:  # a broken file can fail in any way
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        problem = f"not a PyTorch file that mien reads ({kind}{reason(error)}): nothing of it was run"
        raise InvalidFileError(path, [problem]) from error
    prefix = "module." if all(name.startswith("module.") for name in tensors) else ""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def _read(path: Path) -> Arrays:
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise ValueError("larger than 4 GB")
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    tensors = _from_zip(path, size) if zipped else _from_pickles(path)
    if not tensors:
        raise ValueError("it holds no tensors")
    return tensors


def _from_zip(path: Path, size: int) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        entries = _entries(archive.infolist(), size)
        if entries["data.pkl"].file_size > LONGEST_DESCRIPTION:
            raise ValueError("its description is longer than that of any network")
        byte_order = archive.read(entries["byteorder"]) if "byteorder" in entries else b"little"
        if byte_order not in {b"little", b"big"}:
            raise ValueError("an unknown byte order")

        def numbers(storage: Storage) -> bytes:
            entry = entries.get(f"data/{storage.key}")
            if entry is None or entry.file_size != storage.size:
                raise ValueError(f"storage {storage.key} is missing, or not of the size it should be")
            return archive.read(entry)

        description = archive.read(entries["data.pkl"])
        root, _ = next_inert(description, path, KNOWN, outside=lambda pid: outside_object(pid, size))
        return named_arrays(root, numbers, byte_order="<" if byte_order == b"little" else ">")


def _entries(infos: Iterable[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The archive's entries by their name below its one folder; none compressed, none twice, all inside the file."""
    entries: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for info in infos:
        folder, _, name = info.orig_filename.partition("/")
        folders.add(folder)
        tricky = info.filename != info.orig_filename or {"", ".", ".."} & {folder, *name.split("/")}
        if tricky or name in entries:
            raise ValueError(f"the archive's entry {shown(info.orig_filename)} has a misleading name")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise ValueError(f"the archive's entry {shown(info.orig_filename)} is compressed or encrypted")
        entries[name] = info
    if len(folders) != 1 or "data.pkl" not in entries:
        raise ValueError("an archive, but not one of PyTorch")
    if sum(info.file_size for info in entries.values()) > size:
        raise ValueError("the archive's entries overlap")
    return entries


def _from_pickles(path: Path) -> Arrays:
    """PyTorch's format before version 1.6: magic number, protocol, machine, description, keys, and then the numbers."""
    content = path.read_bytes()
    storages: dict[str, Storage] = {}
    position = 0

    def outside(pid: Any) -> Any:
        found = outside_object(pid, len(content))
        if isinstance(found, Storage) and storages.setdefault(found.key, found) != found:
            raise ValueError(f"storage {found.key} has two sizes or types")
        return found

    def following(known: Container[str] = ()) -> Any:
        nonlocal position
        value, position = next_inert(
            content, path, known, start=position, longest=LONGEST_DESCRIPTION, outside=outside if known else None
        )
        return value

    for expected in (MAGIC_NUMBER, PROTOCOL_VERSION):
        if following() != expected:
            raise ValueError("it starts like none of PyTorch's formats")
    if following().get("little_endian") is not True:
        raise ValueError("written by a big-endian machine")
    root = following(KNOWN)
    numbers = _numbers_behind(content, following(), position, storages)
    return named_arrays(root, lambda storage: numbers[storage.key], byte_order="<")


def _numbers_behind(content: bytes, keys: Any, position: int, storages: Mapping[str, Storage]) -> dict[str, memoryview]:
    """The numbers of each storage: how many, then all of them; the last ends the file."""
    view = memoryview(content)
    numbers = {}
    if not isinstance(keys, list) or len(keys) != len(storages) or set(keys) != storages.keys():
        raise ValueError("its list of storages is not that of its description")
    for key in keys:
        start = position + 8
        position = start + storages[key].size
        if int.from_bytes(view[start - 8 : start], "little") != storages[key].elements or position > len(content):
            raise ValueError(f"storage {key} is cut off, or not of the size it should be")
        numbers[key] = view[start:position]
    if position != len(content):
        raise ValueError("something follows its last storage")
    return numbers

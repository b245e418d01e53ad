"""Writes PyTorch files without PyTorch, sound ones and forged ones: numpy arrays are the tensors."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}


@dataclass(frozen=True)
class Name:
    """A class or function that a pickle refers to, whether it exists or not."""

    module: str
    name: str

    def __call__(self):
        raise AssertionError("only its name is written")


@dataclass
class Call:
    """A call that a pickle asks for."""

    function: Name
    args: tuple
    state: Any = None

    def __reduce__(self):
        return (self.function, self.args, self.state)

    def __call__(self):
        raise AssertionError("only its result is called, in the pickle")


@dataclass(repr=False)  # modules that share parts have texts without end
class Module:
    kind: Name
    state: dict


@dataclass
class Storage:
    key: str
    numbers: np.ndarray
    kind: Name | None = None
    elements: int | None = None


@dataclass
class Pickled:
    """A pickle with its storages; the older format also keeps the source of each class."""

    old: bool
    storages: dict[str, Storage] = field(default_factory=dict)
    seen: set = field(default_factory=set)

    def of(self, content):
        file = io.BytesIO()
        _Pickler(file, self).dump(content)
        return file.getvalue()


class _Pickler(pickle._Pickler):
    def __init__(self, file, pickled):
        super().__init__(file, protocol=2)
        self.pickled = pickled

    def persistent_id(self, thing):
        pickled = self.pickled
        if isinstance(thing, Storage):
            pickled.storages[thing.key] = thing
            kind = thing.kind or Name("torch", STORAGES[str(thing.numbers.dtype)])
            elements = thing.numbers.size if thing.elements is None else thing.elements
            return ("storage", kind, thing.key, "cuda:0", elements, *([None] if pickled.old else []))
        if isinstance(thing, Name) and ".modules." in thing.module and pickled.old and thing not in pickled.seen:
            pickled.seen.add(thing)
            return ("module", thing, "batchnorm.py", "class BatchNorm2d: ...")
        return None

    def reducer_override(self, thing):
        if isinstance(thing, np.ndarray):
            key = str(len(self.pickled.storages))
            return tensor(Storage(key, np.ascontiguousarray(thing).ravel()), 0, thing.shape).__reduce__()
        return NotImplemented

    def save(self, thing, save_persistent_id=True):  # noqa: FBT002 the signature of the base class
        if isinstance(thing, Name):
            outside = self.persistent_id(thing) if save_persistent_id else None
            if outside:
                self.save_pers(outside)
            else:
                self.write(b"c" + f"{thing.module}\n{thing.name}\n".encode())
        elif isinstance(thing, Module) and id(thing) not in self.memo:
            self.save(thing.kind)
            self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
            self.memoize(thing)
            self.save(thing.state)
            self.write(pickle.BUILD)
        else:
            super().save(thing, save_persistent_id)


def tensor(storage, offset, shape, strides=None, *more):
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    return Call(
        Name("torch._utils", "_rebuild_tensor_v2"), (storage, offset, shape, strides, False, OrderedDict(), *more)
    )


def parameter(array):
    return Call(Name("torch._utils", "_rebuild_parameter"), (array, True, OrderedDict()))


def attributes(parameters=(), buffers=(), modules=(), left_out=()):
    return {
        "training": False,
        "_parameters": OrderedDict(parameters),
        "_buffers": OrderedDict(buffers),
        "_modules": OrderedDict(modules),
        "_non_persistent_buffers_set": set(left_out),
        "_backward_hooks": OrderedDict(),
    }


def module(kind, *args, **members):
    return Module(Name(*kind.rsplit(".", 1)), attributes(*args, **members))


def graph_module(*args, **members):
    """A module of torch.fx: its attributes, and the source of what it does."""
    body = {**attributes(*args, **members), "_code": "import os; os.system('touch marker')"}
    return Call(Name("torch.fx.graph_module", "reduce_graph_module"), (body, "import os\n"))


def write_zip(path, content, *, byte_order="little", compression=zipfile.ZIP_STORED, change=lambda pickled: pickled):
    pickled = Pickled(old=False)
    entries = {"archive/data.pkl": change(pickled.of(content)), "archive/byteorder": byte_order.encode()}
    for key, storage in pickled.storages.items():
        entries[f"archive/data/{key}"] = numbers(storage, byte_order)
    write_archive(path, {**entries, "archive/version": b"3\n"}, compression)


def write_archive(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def write_old(path, content, *, machine=None, change=lambda pickled: pickled):
    pickled = Pickled(old=True)
    described = change(pickled.of(content))
    machine = machine or {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2}}
    heads = [0x1950A86A20F9469CFC6C, 1001, machine]
    keys = sorted(pickled.storages)
    behind = [
        storage.numbers.size.to_bytes(8, "little") + numbers(storage, "little")
        for _, storage in sorted(pickled.storages.items())
    ]
    pickles = [*(pickle.dumps(head, 2) for head in heads), described, pickle.dumps(keys, 2)]
    path.write_bytes(b"".join([*pickles, *behind]))


def numbers(storage, byte_order):
    swap = byte_order != sys.byteorder
    return (storage.numbers.byteswap() if swap else storage.numbers).tobytes()

"""What the records of a PyTorch pickle mean: storages, tensors, modules, named as `state_dict()` would name them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mien.errors import shown
from mien.storage.formats.inert_pickle import NUMPY_NAMES, Inert

NUMBERS = {  # as numpy calls them, the last digit being their bytes
    "torch.FloatStorage": "f4",
    "torch.DoubleStorage": "f8",
    "torch.HalfStorage": "f2",
    "torch.BFloat16Storage": "bf2",
    "torch.LongStorage": "i8",
    "torch.IntStorage": "i4",
    "torch.ShortStorage": "i2",
    "torch.CharStorage": "i1",
    "torch.ByteStorage": "u1",
    "torch.BoolStorage": "b1",
}
TENSORS = {"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"}
PARAMETERS = {"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"}
TENSOR_WITH_STATE = "torch._tensor._rebuild_from_type_v2"
GRAPH_MODULES = {
    f"torch.fx.graph_module.reduce_{kind}graph_module" for kind in ("", "deploy_", "package_")
}  # called with the module's attributes, and the source of its `forward`
ORDERED = {"collections.OrderedDict", "collections.defaultdict"}
KNOWN_NAMES = frozenset(
    {
        *NUMBERS,
        *NUMPY_NAMES,
        *(TENSORS | PARAMETERS | GRAPH_MODULES | ORDERED),
        TENSOR_WITH_STATE,
        "_codecs.encode",  # bytes, up to protocol 2
        "builtins.getattr",  # onnx2torch's `Add` keeps `torch.add`, pickled as a look-up in `_VariableFunctionsClass`
        "builtins.set",
        *(f"torch.{name}" for name in ("Size", "Tensor", "device", "float16", "float32", "float64", "int64", "bool")),
        "torch._C._VariableFunctions",
        "torch._C._VariableFunctionsClass",
        "torch.fx._symbolic_trace.Tracer",
        "torch.nn.backends.thnn._get_thnn_function_backend",
        "torch.nn.parallel.data_parallel.DataParallel",
        "torch.nn.parameter.Buffer",
        "torch.nn.parameter.Parameter",
    }
)
KNOWN_PREFIXES = ("torch.nn.modules.", "torch.nn.functional.", "onnx2torch.", "lib.models.")

LONGEST_NAME = 300
DEEPEST_MODULE = 50
MOST_PARTS = 20_000  # in a few bytes, a module can hold itself many times over

Arrays = dict[str, npt.NDArray[Any]]


class _KnownNames:
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in KNOWN_NAMES or name.startswith(KNOWN_PREFIXES))


KNOWN = _KnownNames()


class Storage(NamedTuple):
    """Numbers that lie elsewhere in the file; a tuple, so that the pickle cannot change it once it is checked."""

    key: str
    number: str
    elements: int

    @property
    def size(self) -> int:
        return self.elements * int(self.number[-1])


def outside_object(pid: Any, file_size: int) -> Storage | type[Inert]:
    """What a persistent id stands for: a storage, or (in the older format) a class with its source."""
    match pid:
        case ("module", type() as kind, _, _) if issubclass(kind, Inert):
            return kind
        case ("storage", type() as kind, str(key), _, int(elements), *view) if issubclass(kind, Inert):
            if kind.name not in NUMBERS:
                raise ValueError(f"numbers of type {shown(kind.name)}")
            if not re.fullmatch(r"[0-9]{1,20}", key) or view not in ([], [None]):
                raise ValueError("a storage with an unusual key, or a view of another")
            storage = Storage(key, NUMBERS[kind.name], elements)
            if not 0 <= storage.size <= file_size:
                raise ValueError(f"storage {key} would be larger than the file")
            return storage
    raise ValueError("it refers to an outside object that is no storage")


def named_arrays(root: Any, numbers: Callable[[Storage], bytes | memoryview], *, byte_order: str) -> Arrays:
    arrays: Arrays = {}
    loaded: dict[Storage, npt.NDArray[Any]] = {}
    for count, (name, record) in enumerate(_named_parts(root)):
        if count > MOST_PARTS:
            raise ValueError("more parts than any network has")
        if record is None:
            continue
        storage, offset, shape, strides = _layout(name, record)
        if storage not in loaded:
            loaded[storage] = _flat(numbers(storage), storage.number, byte_order)
        flat = loaded[storage]
        arrays[name] = np.lib.stride_tricks.as_strided(
            flat[offset:], shape, [stride * flat.itemsize for stride in strides], writeable=False
        )
    return arrays


def _flat(content: bytes | memoryview, number: str, byte_order: str) -> npt.NDArray[Any]:
    """A storage's numbers in the machine's own byte order; `bfloat16` becomes the float32 of the same value."""
    if number == "b1":
        return np.not_equal(np.frombuffer(content, np.uint8), 0)
    if number == "bf2":
        upper_half = np.frombuffer(content, f"{byte_order}u2").astype(np.uint32) << 16
        return upper_half.view(np.float32)
    return np.frombuffer(bytes(content), f"{byte_order}{number}").astype(number, copy=False)


def _layout(name: str, record: Any) -> tuple[Storage, int, tuple[int, ...], tuple[int, ...]]:
    """Where a tensor's numbers lie: storage, offset, shape, strides; nothing outside of the storage."""
    while isinstance(record, Inert) and record.name in PARAMETERS | {TENSOR_WITH_STATE}:
        rebuild, _, args, *_ = record.args
        record = rebuild(*args) if record.name == TENSOR_WITH_STATE and isinstance(args, tuple) else rebuild
    if not (isinstance(record, Inert) and record.name in TENSORS):
        raise ValueError(f"{shown(name)} is no tensor")
    storage, offset, shape, strides, *flags = record.args
    if any(flags[2:]):
        raise ValueError(f"tensor {shown(name)} is conjugated or negated")
    shape, strides = (axes.args[0] if isinstance(axes, Inert) else axes for axes in (shape, strides))
    if not isinstance(storage, Storage) or len(shape) != len(strides) or len(shape) > 32:
        raise ValueError(f"tensor {shown(name)} has no proper storage or shape")
    if any(type(value) is not int or not 0 <= value < 2**48 for value in (offset, *shape, *strides)):
        raise ValueError(f"tensor {shown(name)} has a negative, huge or fractional place")
    count = math.prod(shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if count else offset
    if count > storage.elements or last > storage.elements - bool(count):
        raise ValueError(f"tensor {shown(name)} reaches beyond its storage")
    return storage, offset, tuple(shape), tuple(strides)


def _named_parts(root: Any) -> Iterator[tuple[str, Any]]:
    """Names and records of tensors; None for every module, and for every parameter that is not there."""
    content = _mapping(root)
    if content is None:
        return _module_parts(root, "", 0)
    nested = _mapping(content.get("state_dict"))
    return iter(_named(content if nested is None else nested))


def _module_parts(module: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """A module's tensors as its `state_dict()` lists them: its own parameters and buffers, then those of its parts."""
    attributes = module.state if isinstance(module, Inert) else None
    if isinstance(module, Inert) and module.name in GRAPH_MODULES:
        attributes = next((arg for arg in module.args if isinstance(arg, dict)), None)
    if not isinstance(attributes, dict) or depth > DEEPEST_MODULE:
        where = shown(prefix[:-1]) if prefix else "its content"
        raise ValueError(f"{where} is neither tensor nor module, or too deep in others")
    yield prefix, None
    left_out = attributes.get("_non_persistent_buffers_set", ())
    names_left_out = (left_out.args or ((),))[0] if isinstance(left_out, Inert) else left_out
    for name, record in _named(_mapping(attributes.get("_parameters"))):
        yield prefix + name, record
    for name, record in _named(_mapping(attributes.get("_buffers"))):
        yield prefix + name, None if name in names_left_out else record
    for name, part in _named(_mapping(attributes.get("_modules"))):
        if part is None:
            yield prefix + name, None
        else:
            yield from _module_parts(part, f"{prefix}{name}.", depth + 1)


def _mapping(value: Any) -> dict[Any, Any] | None:
    """A dict, or what an ordered dict's record holds."""
    if isinstance(value, Inert) and value.name in ORDERED:
        pairs = value.args[0] if value.args and isinstance(value.args[0], list) else []
        return dict(pairs) | value.items
    return value if isinstance(value, dict) else None


def _named(parts: Mapping[Any, Any] | None) -> list[tuple[str, Any]]:
    if parts is None or len(parts) > MOST_PARTS:
        raise ValueError("a module without parts, or with more than any network has")
    if not all(isinstance(name, str) and 0 < len(name) <= LONGEST_NAME for name in parts):
        raise ValueError("a tensor or module without a proper name")
    return list(parts.items())

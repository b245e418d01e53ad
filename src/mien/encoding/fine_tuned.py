"""Makes an ONNX network of a fine-tuned encoder: the network it started from, with the tensors of its PyTorch file.

GM-Arc converts an ONNX file with onnx2torch and fine-tunes the result. So every tensor of the PyTorch file has its
place in the ONNX file, but versions of onnx2torch name layers differently. Until 2023 the name was the operator and a
number (`Conv_3` is the fourth convolution), since then it is the name of the ONNX node. Slopes of PReLUs are numbered
initializers, not parameters. The tensors must all fit under one of the two namings, or the file is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from mien.encoding.network import check_network
from mien.errors import WeightsError, listed, shown

PARAMETERS = {  # in the order of the operator's inputs, after the first
    "Conv": ("weight", "bias"),
    "BatchNormalization": ("weight", "bias", "running_mean", "running_var"),
    "Gemm": ("weight", "bias"),
}
WITH_INITIALIZERS = frozenset({"PRelu", "Add", "Sub", "Mul", "Div"})
OPERATORS = frozenset(
    {
        *(*PARAMETERS, *WITH_INITIALIZERS, "Constant", "Identity", "Dropout", "Relu", "LeakyRelu", "Sigmoid", "Clip"),
        *("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Pad"),
        *("AveragePool", "MaxPool", "GlobalAveragePool", "ReduceMean", "LpNormalization"),
    }
)
PREFIXES = ("base.", "features.")
LEFT_OUT = "classifier."  # the head, which classifies the disorders of the training

Arrays = Mapping[str, npt.NDArray[Any]]


class _Place(NamedTuple):
    """Where a tensor of the PyTorch file belongs: an initializer, and the names that the file may have for it."""

    initializer: str
    names: tuple[str, ...]
    transposed: bool = False
    per_channel: bool = False  # (channels, 1, 1) here, perhaps (channels) there


def fine_tuned(base: bytes, tensors: Arrays) -> bytes:
    """Replaces the tensors of the base network by the fine-tuned ones; leaves out the classifier's.

    Every tensor must have its place and every place its tensor, in the right shape; otherwise the file is refused.
    """
    model = check_network(base, "the base network")
    if problems := _unfit(model.graph):
        raise WeightsError(listed("the base network cannot be fine-tuned", problems))
    given, problems = _without_prefixes(tensors)
    operators = [node.op_type for node in model.graph.node]  # with a number each, in older versions of onnx2torch
    by_number = _assigned(model.graph, _unique(operators, number_all=True), given)
    names = [(node.name.replace(".", "/") or node.op_type).lstrip("/") for node in model.graph.node]  # in newer ones
    by_name = _assigned(model.graph, _unique(names, number_all=False), given)
    replacements, misfits = min(by_number, by_name, key=lambda way: len(way[1]))
    if not by_number[1] and not by_name[1] and not _same(by_number[0], by_name[0]):
        problems.append("the names of its layers fit the base network in two ways")
    if problems or misfits:
        raise WeightsError(listed("the tensors do not fit the base network", problems + misfits))
    for initializer in model.graph.initializer:
        if initializer.name in replacements:
            initializer.CopyFrom(numpy_helper.from_array(replacements[initializer.name], initializer.name))
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # the checker raises several kinds
        raise WeightsError(f"the base network is not valid ONNX: {error}") from error
    return bytes(model.SerializeToString(deterministic=True))


def _unfit(graph: onnx.GraphProto) -> list[str]:
    """Why the graph cannot be one that GM-Arc fine-tunes; empty if it can."""
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in initializers]
    problems = [
        f"{len(values)} {kind}s: expected one" for kind, values in (("input", inputs), ("output", graph.output))
        if len(values) != 1
    ]  # fmt: skip
    if len(initializers) != len(graph.initializer):
        problems.append("two tensors of one name")
    for node in graph.node:
        where = f"{node.op_type} {shown(node.name)}"
        numbers = {attribute.name: attribute.f or attribute.i for attribute in node.attribute}
        if node.op_type not in OPERATORS:
            problems.append(f"the operator {shown(node.op_type)}")
        scaled = numbers.get("alpha", 1) != 1 or numbers.get("beta", 1) != 1 or numbers.get("transA", 0) != 0
        if node.op_type == "Gemm" and scaled:
            problems.append(f"{where} scales or transposes its input")
        if node.op_type == "BatchNormalization" and (numbers.get("training_mode") or len(node.output) != 1):
            problems.append(f"{where} is in training mode")
        if node.op_type in PARAMETERS and not {name for name in node.input[1:] if name} <= initializers:
            problems.append(f"{where} takes its parameters from other layers")
    return problems


def _unique(names: Sequence[str], *, number_all: bool) -> list[str]:
    """Names made unique by numbers.

    >>> _unique(["Conv", "Relu", "Conv"], number_all=True), _unique(["Conv", "Relu", "Conv"], number_all=False)
    (['Conv_0', 'Relu_0', 'Conv_1'], ['Conv', 'Relu', 'Conv_1'])
    """
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        unique.append(f"{name}_{seen[name]}" if number_all or seen[name] else name)
        seen[name] += 1
    return unique


def _places(graph: onnx.GraphProto, layers: list[str]) -> Iterator[_Place]:
    """All places for tensors, where the graph's nodes have these names."""
    initializers = {tensor.name for tensor in graph.initializer}
    one_gemm = sum(node.op_type == "Gemm" for node in graph.node) == 1
    numbered = 0
    for node, layer in zip(graph.node, layers, strict=True):
        if node.op_type in PARAMETERS:
            transposed = node.op_type == "Gemm" and not any(a.name == "transB" and a.i for a in node.attribute)
            for initializer, parameter in zip(node.input[1:], PARAMETERS[node.op_type], strict=False):
                also = (f"Gemm.{parameter}",) if node.op_type == "Gemm" and one_gemm else ()  # so GM-Arc renames it
                if initializer:
                    yield _Place(initializer, (f"{layer}.{parameter}", *also), transposed=transposed)
        elif node.op_type in WITH_INITIALIZERS:
            for initializer in (name for name in node.input if name in initializers):
                also = (f"{layer}.weight",) if node.op_type == "PRelu" else ()
                name = f"initializers.onnx_initializer_{numbered}"
                yield _Place(initializer, (name, *also), per_channel=node.op_type == "PRelu")
                numbered += 1


def _without_prefixes(tensors: Arrays) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """The tensors by their names inside `base` and `features`, without the classifier's and the counters."""
    given: dict[str, npt.NDArray[Any]] = {}
    problems = []
    for name, tensor in tensors.items():
        if name.startswith(LEFT_OUT) or name.endswith(".num_batches_tracked"):
            continue
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
        if name.removeprefix(prefix) in given:
            problems.append(f"the tensor {shown(name)} is there twice, under two prefixes")
        given[name.removeprefix(prefix)] = tensor
    return given, problems


def _assigned(
    graph: onnx.GraphProto, layers: list[str], given: Arrays
) -> tuple[dict[str, npt.NDArray[np.float32]], list[str]]:
    """The tensor of each initializer, and what does not fit, where the graph's nodes have these names."""
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    replacements: dict[str, npt.NDArray[np.float32]] = {}
    problems = []
    left_over = dict.fromkeys(given)
    for place in _places(graph, layers):
        name = next((name for name in place.names if name in left_over), None)
        if name is None:
            problems.append(f"there is no tensor {shown(place.names[0])}")
            continue
        del left_over[name]
        try:
            tensor = _fitted(given[name], place, initializers[place.initializer])
        except ValueError as error:
            problems.append(f"the tensor {shown(name)} {error}")
            continue
        if not np.array_equal(replacements.setdefault(place.initializer, tensor), tensor):
            problems.append(f"the tensor {shown(name)} shares its place with another one")
    problems += [f"there is no place for the tensor {shown(name)}" for name in left_over]
    return replacements, problems


def _fitted(tensor: npt.NDArray[Any], place: _Place, initializer: onnx.TensorProto) -> npt.NDArray[np.float32]:
    """The tensor as the initializer needs it."""
    shape = tuple(initializer.dims)
    wanted = shape[::-1] if place.transposed else shape
    if place.per_channel and shape[1:] == (1,) * len(shape[1:]) and tensor.shape == shape[:1]:
        tensor = tensor.reshape(shape)
    if tensor.shape != wanted:
        raise ValueError(f"has shape {tensor.shape}, expected {wanted}")
    if tensor.dtype.kind != "f" or initializer.data_type != onnx.TensorProto.FLOAT:
        raise ValueError(f"has numbers of type {tensor.dtype}, expected floats in both files")
    with np.errstate(over="ignore"):  # reported below
        fitted = np.ascontiguousarray(tensor.T if place.transposed else tensor, dtype=np.float32)
    if not np.isfinite(fitted).all():
        raise ValueError("has values that are not finite")
    return fitted


def _same(first: Arrays, second: Arrays) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)

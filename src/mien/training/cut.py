"""Cuts a base network before its last linear layer, and joins the first part with a new layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from mien.core.arrays import Float32s
from mien.encoding.network import check_network
from mien.errors import WeightsError

AFTER = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "LpNormalization"})  # left out after the layer
ACTIVATIONS, OUTPUT = "activations", "embeddings"


class Norm(NamedTuple):
    """A batch norm with its running statistics."""

    gamma: Float32s
    beta: Float32s
    mean: Float32s
    variance: Float32s
    epsilon: float


class FeatureLayer(NamedTuple):
    """The last linear layer and its batch norm: x -> norm(weight x + bias)."""

    weight: Float32s  # (dimensions, inputs)
    bias: Float32s
    norm: Norm

    def __call__(self, activations: Float32s) -> Float32s:
        """The embeddings of activations (images, inputs)."""
        gamma, beta, mean, variance, epsilon = self.norm
        linear = activations @ self.weight.T + self.bias
        embeddings: Float32s = (linear - mean) / np.sqrt(variance + np.float32(epsilon)) * gamma + beta
        return embeddings


class CutNetwork(NamedTuple):
    """The network before the last linear layer, and that layer."""

    trunk: bytes  # photos to activations (images, inputs)
    weight: Float32s
    bias: Float32s
    norm: Norm | None  # None: it was folded into the layer, or there is none


def cut(base: bytes) -> CutNetwork:
    """Cuts an ArcFace-style network. Its last layer is a Gemm or a convolution of one pixel, perhaps a batch norm."""
    model = check_network(base, "the base network")
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    norm = None
    while nodes and nodes[-1].op_type in AFTER | {"BatchNormalization"}:
        node = nodes.pop()
        if node.op_type == "BatchNormalization":
            if norm is not None or not set(node.input[1:]) <= set(tensors):
                raise _unfit("batch norms at its end that are not understood")
            gamma, beta, mean, variance = (tensors[name].astype(np.float32) for name in node.input[1:])
            epsilon = next((attribute.f for attribute in node.attribute if attribute.name == "epsilon"), 1e-5)
            norm = Norm(gamma, beta, mean, variance, float(epsilon))
    if not nodes:
        raise _unfit("no layers")
    *before, last = nodes
    weight, bias = _linear(last, tensors)
    flatten = helper.make_node("Flatten", [last.input[0]], [ACTIVATIONS], name=ACTIVATIONS)
    trunk = _serialised(model, [*before, flatten], {}, [ACTIVATIONS, weight.shape[1]])
    return CutNetwork(trunk, weight, bias, norm)


def _linear(node: onnx.NodeProto, tensors: Mapping[str, npt.NDArray[Any]]) -> tuple[Float32s, Float32s]:
    """Weight (dimensions, inputs) and bias of a linear layer."""
    numbers = {attribute.name: attribute.i or attribute.f for attribute in node.attribute}
    if node.op_type not in {"Gemm", "Conv"} or not set(node.input[1:]) <= set(tensors):
        raise _unfit(f"a layer {node.op_type} at its end, expected Gemm or Conv")
    weight = tensors[node.input[1]].astype(np.float32)
    if node.op_type == "Gemm":
        if numbers.get("alpha", 1) != 1 or numbers.get("beta", 1) != 1 or numbers.get("transA"):
            raise _unfit("a Gemm at its end that scales or transposes its input")
        weight = weight if numbers.get("transB") else weight.T
    else:
        if weight.shape[2:] != (1, 1) or numbers.get("group", 1) != 1:
            raise _unfit("a convolution at its end that looks at more than one pixel")
        weight = weight[:, :, 0, 0]
    bias = tensors[node.input[2]].astype(np.float32) if len(node.input) > 2 else np.zeros(len(weight), np.float32)
    return np.ascontiguousarray(weight), bias


def joined(trunk: bytes, layer: FeatureLayer) -> bytes:
    """Joins the trunk and a feature layer to one network."""
    model = onnx.load_model_from_string(trunk)
    gamma, beta, mean, variance, epsilon = layer.norm
    linear = {"features.weight": layer.weight, "features.bias": layer.bias}
    norm = {"features.gamma": gamma, "features.beta": beta, "features.mean": mean, "features.variance": variance}
    nodes = [
        helper.make_node("Gemm", [ACTIVATIONS, *linear], ["features"], name="features", transB=1),
        helper.make_node("BatchNormalization", ["features", *norm], [OUTPUT], name=OUTPUT, epsilon=epsilon),
    ]
    return _serialised(model, [*model.graph.node, *nodes], linear | norm, [OUTPUT, len(layer.weight)])


def _serialised(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], new: Mapping[str, Float32s], output: Sequence[Any]
) -> bytes:
    """The model with these nodes, the tensors that they use, and one output of that name and width."""
    used = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in used]
    tensors += [numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name) for name, array in new.items()]
    known = {tensor.name for tensor in tensors}
    inputs = [value for value in model.graph.input if value.name not in known]
    name, width = output
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["images", width])]
    graph = helper.make_graph(list(nodes), model.graph.name or "encoder", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        onnx.checker.check_model(made)
    except Exception as error:  # the checker raises several kinds
        raise _unfit(f"parts that do not fit ({error})") from error
    return bytes(made.SerializeToString(deterministic=True))


def _unfit(what: str) -> WeightsError:
    return WeightsError(f"the base network has {what}: give an ArcFace-style network")

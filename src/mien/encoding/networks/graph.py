"""Builds an ONNX graph layer by layer from named tensors. Batch norms are folded into the convolution before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from mien.core.arrays import Float32s
from mien.errors import WeightsError, listed, shown

Shape = Sequence[int | str]
Tensors = Mapping[str, npt.NDArray[Any]]  # by the names of the file they come from

OPSET = 17
IR_VERSION = 8  # what ONNX Runtime has read since 2022
EPSILON = 1e-5  # of PyTorch's batch norms
MOST_PROBLEMS = 5  # in a message: weights of another network have hundreds
COUNTER = "num_batches_tracked"  # of a batch norm; says nothing about the network


class Graph:
    """Each method adds a layer and returns its output's name. Every tensor is used once, or `model` refuses them."""

    def __init__(self, tensors: Tensors) -> None:
        self._unused = {name: tensor for name, tensor in tensors.items() if not name.endswith(COUNTER)}
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._problems: list[str] = []

    def tensor(self, name: str, shape: Sequence[int | None]) -> Float32s:
        """A tensor of the file; None stands for any size. `model` reports missing tensors and wrong shapes."""
        found = self._unused.pop(name, None)
        if found is None:
            self._problems.append(f"no tensor {name}")
        elif found.ndim != len(shape) or any(
            wanted not in {None, size} for wanted, size in zip(shape, found.shape, strict=True)
        ):
            self._problems.append(f"the tensor {name} has shape {found.shape}, not {tuple(shape)}")
        elif not np.isfinite(found).all():
            self._problems.append(f"the tensor {name} has values that are not finite")
        else:
            return found.astype(np.float32)
        return np.ones([size or 1 for size in shape], dtype=np.float32)

    def conv(
        self,
        source: str,
        name: str,
        *,
        norm: str | None = None,
        kernel: int = 1,
        stride: int = 1,
        pad: int | None = None,
        depthwise: bool = False,
        bias: bool = False,
    ) -> str:
        """A convolution, with the batch norm after it where `norm` names one."""
        weight = self.tensor(f"{name}.weight", [None, 1 if depthwise else None, kernel, kernel])
        channels = len(weight)
        offset = self.tensor(f"{name}.bias", [channels]) if bias else np.zeros(channels, dtype=np.float32)
        if norm is not None:
            weight, offset = self._folded(weight, offset, norm)
        edge = kernel // 2 if pad is None else pad
        inputs = [source, self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", offset)]
        sizes = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": [edge] * 4}
        return self._add("Conv", inputs, name, **sizes, group=channels if depthwise else 1)

    def _folded(self, weight: Float32s, offset: Float32s, norm: str) -> tuple[Float32s, Float32s]:
        gain, shift, mean, variance = (
            self.tensor(f"{norm}.{part}", [len(weight)]).astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gain / np.sqrt(variance + EPSILON)
        return (
            (weight * scale[:, None, None, None]).astype(np.float32),
            ((offset - mean) * scale + shift).astype(np.float32),
        )

    def relu(self, source: str, *, leak: float = 0.0) -> str:
        """ReLU, leaky where asked for."""
        return self._add("LeakyRelu", [source], source, alpha=leak) if leak else self._add("Relu", [source], source)

    def relu6(self, source: str) -> str:
        """ReLU cut at six."""
        bounds = [self._constant(f"{source}.{limit}", np.float32(limit)) for limit in (0, 6)]
        return self._add("Clip", [source, *bounds], source)

    def max_pool(self, source: str, *, kernel: int, stride: int) -> str:
        """The largest of each window."""
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return self._add("MaxPool", [source], source, **sizes)

    def add(self, one: str, other: str) -> str:
        """The sum of two layers."""
        return self._add("Add", [one, other], one)

    def concat(self, sources: Sequence[str], *, axis: int) -> str:
        """Several layers side by side."""
        return self._add("Concat", sources, sources[0], axis=axis)

    def enlarged(self, source: str, like: str) -> str:
        """Nearest-neighbour upsampling to the size of another layer."""
        whole, size = self._add("Shape", [source], source, end=2), self._add("Shape", [like], source, start=2)
        sizes = self._add("Concat", [whole, size], source, axis=0)
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._add("Resize", [source, "", "", sizes], source, **how)

    def rows(self, source: str, columns: int) -> str:
        """(images, channels, height, width) as (images, height x width x anchors, columns)."""
        channels_last = self._add("Transpose", [source], source, perm=[0, 2, 3, 1])
        shape = self._constant(f"{source}.shape", np.array([0, -1, columns], dtype=np.int64))
        return self._add("Reshape", [channels_last, shape], source)

    def softmax(self, source: str) -> str:
        """Shares of one over the last axis."""
        return self._add("Softmax", [source], source, axis=-1)

    def flat(self, source: str) -> str:
        """(images, everything else)."""
        return self._add("Flatten", [source], source)

    def model(self, name: str, size: Shape, outputs: Mapping[str, tuple[str, Shape]]) -> bytes:
        """The finished network: "photos" (images, 3, *size) to outputs, each with its layer and (images, *shape)."""
        self._problems += [f"unknown tensor {shown(left)}" for left in self._unused]
        if self._problems:
            raise WeightsError(listed(f"these are not weights of {name}", self._problems, most=MOST_PROBLEMS))
        for wanted, (layer, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [layer], [wanted], wanted))
        graph = helper.make_graph(
            self._nodes,
            name,
            [_value("photos", 3, *size)],
            [_value(output, *shape) for output, (_, shape) in outputs.items()],
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="mien", opset_imports=opsets, ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString(deterministic=True)
        return content

    def _constant(self, name: str, value: npt.NDArray[Any] | np.generic) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add(self, op: str, inputs: Sequence[str], after: str, **attributes: Any) -> str:
        output = f"{after.split(':', maxsplit=1)[0]}:{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [output], output, **attributes))
        return output


def _value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["images", *shape])

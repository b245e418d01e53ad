"""Checks and runs an ONNX network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mien.core.arrays import Float32s
from mien.errors import WeightsError, listed, shown

if TYPE_CHECKING:
    import onnx

Device = Literal["cpu", "cuda"]
CUDA_PROVIDER = "CUDAExecutionProvider"
PROVIDERS: dict[Device, list[Any]] = {
    "cpu": ["CPUExecutionProvider"],
    # an exhaustive search for the fastest algorithm would run for each shape of photo; TF32 would round to 10 bits
    "cuda": [(CUDA_PROVIDER, {"cudnn_conv_algo_search": "HEURISTIC", "use_tf32": 0}), "CPUExecutionProvider"],
}
CARD_LOCK = threading.Lock()  # photos are prepared on all cores, but only one thread at a time uses the card

OPSETS = frozenset({"", "ai.onnx"})  # two names of ONNX's own operators


class Network:
    """An ONNX network with one input; several threads may run it at once."""

    def __init__(
        self, content: bytes, name: str, widths: Sequence[int], *, threads: int = 1, device: Device = "cpu"
    ) -> None:
        """`widths` are the sizes of the outputs' last axes. `threads` is for one run; 0 means one for each core.

        One thread is best: spreading whole photos over the cores scales better.
        """
        import onnxruntime  # noqa: PLC0415 heavy, and a service without an encoder does not need it

        onnxruntime.set_default_logger_severity(3)  # no warnings about graphs
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=PROVIDERS[device], enable_fallback=0
            )
        except Exception as error:  # ONNX Runtime raises many kinds
            raise WeightsError(f"{name} is not a network that ONNX Runtime can run: {error}") from error
        self._name, self._widths = name, tuple(widths)
        self.device: Device = "cuda" if CUDA_PROVIDER in self._session.get_providers() else "cpu"
        self._lock = CARD_LOCK if self.device == "cuda" else nullcontext()
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise WeightsError(f"{name} has {len(inputs)} inputs: expected one, a batch of pictures")
        self._input = inputs[0].name
        self._one_at_a_time = inputs[0].shape[:1] == [1]  # exported without a batch axis of free length

    def run(self, batch: Float32s) -> list[Float32s]:
        """The outputs for a batch (images, 3, height, width), each (images, ..., width)."""
        try:
            with self._lock:
                outputs = self._outputs(batch)
        except Exception as error:  # ONNX Runtime raises many kinds
            raise WeightsError(f"{self._name} does not take pictures of shape {batch.shape[1:]}: {error}") from error
        shapes = [output.shape for output in outputs]
        if [(shape[0], shape[-1]) for shape in shapes] != [(len(batch), width) for width in self._widths]:
            raise WeightsError(f"{self._name} gives outputs of shapes {shapes}: they should end with {self._widths}")
        return outputs

    def _outputs(self, batch: Float32s) -> list[Float32s]:
        if self._one_at_a_time and len(batch) > 1:
            singles = [self._session.run(None, {self._input: picture[None]}) for picture in batch]
            return [np.concatenate(parts) for parts in zip(*singles, strict=True)]
        outputs: list[Float32s] = self._session.run(None, {self._input: batch})
        return outputs


def check_network(content: bytes, name: str = "the network") -> onnx.ModelProto:
    """Parses an ONNX file; refuses one that refers to other files, or has operators or subgraphs of its own."""
    import onnx  # noqa: PLC0415 heavy

    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's errors are no public names
        raise WeightsError(f"{name} is not an ONNX file: nothing was loaded") from error
    # ONNX Runtime takes a file with these letters for one of its own format, whatever else it may be
    if content[4:8] == b"ORTM" or not (model.ir_version and model.opset_import and model.graph.node):
        raise WeightsError(f"{name} is not an ONNX file: nothing was loaded")
    problems = list(dict.fromkeys(problem for message in _messages(model) for problem in _problems_of(message)))
    if problems:
        raise WeightsError(listed(f"{name} is refused, nothing was loaded", problems))
    return model


def _messages(message: Any) -> Iterator[Any]:
    """A protobuf message and all messages inside of it."""
    yield message
    for _, value in message.ListFields():
        for part in [value] if hasattr(value, "ListFields") else value if hasattr(value, "append") else ():
            if hasattr(part, "ListFields"):
                yield from _messages(part)


def _problems_of(message: Any) -> Iterator[str]:
    import onnx  # noqa: PLC0415 heavy

    for field, value in message.ListFields():
        texts = () if field.type != field.TYPE_STRING else [value] if isinstance(value, str | bytes) else value
        if any(isinstance(text, bytes) for text in texts):  # protobuf gives bytes where it is not UTF-8
            yield f"a {field.name} that is no text"
    if isinstance(message, onnx.TensorProto) and (message.data_location or message.external_data):
        yield f"the tensor {shown(message.name)} lies in another file"
    elif isinstance(message, onnx.AttributeProto) and (message.HasField("g") or message.graphs):
        yield f"a graph inside a layer, as its {shown(message.name)}"
    elif isinstance(message, onnx.TrainingInfoProto):
        yield "graphs for training"
    elif isinstance(message, onnx.FunctionProto):
        yield f"a function of its own, {shown(message.name)}"
    elif isinstance(message, onnx.NodeProto) and message.domain not in OPSETS:
        yield f"the operator {shown(message.op_type)} of {shown(message.domain)}, which is not ONNX's own"

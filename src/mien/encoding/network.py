"""A network file as something that runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime

from mien.core.arrays import Float32s
from mien.core.errors import WeightsError

onnxruntime.set_default_logger_severity(3)  # warnings about graphs are for those who write them


class Network:
    """An ONNX network with one input, run on one core; several threads may run it at once."""

    def __init__(self, content: bytes, name: str, widths: Sequence[int]) -> None:
        """`widths`: how many numbers each output has on its last axis."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # photos are spread over the cores, which scales better than one run does
        options.inter_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime raises many kinds
            raise WeightsError(f"{name} is not a network that ONNX Runtime can run: {error}") from error
        self._name, self._widths = name, tuple(widths)
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise WeightsError(f"{name} has {len(inputs)} inputs: expected one, a batch of pictures")
        self._input = inputs[0].name
        self._one_at_a_time = inputs[0].shape[:1] == [1]  # exported without a batch axis of free length

    def run(self, batch: Float32s) -> list[Float32s]:
        """The outputs for a batch (images, 3, height, width), each (images, ..., width)."""
        try:
            if self._one_at_a_time and len(batch) > 1:
                singles = [self._session.run(None, {self._input: picture[None]}) for picture in batch]
                outputs = [np.concatenate(parts) for parts in zip(*singles, strict=True)]
            else:
                outputs = self._session.run(None, {self._input: batch})
        except Exception as error:  # ONNX Runtime raises many kinds
            raise WeightsError(f"{self._name} does not take pictures of shape {batch.shape[1:]}: {error}") from error
        shapes = [output.shape for output in outputs]
        if [(shape[0], shape[-1]) for shape in shapes] != [(len(batch), width) for width in self._widths]:
            raise WeightsError(f"{self._name} gives outputs of shapes {shapes}: they should end with {self._widths}")
        return outputs

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

REASON = "training needs PyTorch: `make test-train` installs the extra `train` and runs these tests"


def pytest_collection_modifyitems(items):
    if find_spec("torch") is None:
        for item in items:
            if "tests/training" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture
def small_network(rng):
    """An ArcFace-style network of 112 x 112: one convolution, then Flatten, Gemm and BatchNormalization."""

    def make(*, transposed=True, norm=True, conv=False, dimensions=6):
        tensors = {
            "c.w": rng.standard_normal((4, 3, 28, 28)) / 50,
            "c.b": rng.standard_normal(4) / 10,
        }
        nodes = [helper.make_node("Conv", ["photos", "c.w", "c.b"], ["c"], strides=[28, 28], kernel_shape=[28, 28])]
        if conv:
            nodes.append(helper.make_node("GlobalAveragePool", ["c"], ["f"]))
            tensors["g.w"] = rng.standard_normal((dimensions, 4, 1, 1))
            tensors["g.b"] = rng.standard_normal(dimensions)
            nodes.append(helper.make_node("Conv", ["f", "g.w", "g.b"], ["g4"], kernel_shape=[1, 1]))
            nodes.append(helper.make_node("Flatten", ["g4"], ["g"]))
        else:
            nodes.append(helper.make_node("Flatten", ["c"], ["f"]))
            weight = rng.standard_normal((dimensions, 64))
            tensors["g.w"] = weight if transposed else weight.T
            tensors["g.b"] = rng.standard_normal(dimensions)
            nodes.append(helper.make_node("Gemm", ["f", "g.w", "g.b"], ["g"], transB=int(transposed)))
        if norm:
            tensors |= {
                "n.g": rng.uniform(0.5, 2, dimensions),
                "n.b": rng.standard_normal(dimensions),
                "n.m": rng.standard_normal(dimensions),
                "n.v": rng.uniform(0.5, 2, dimensions),
            }
            nodes.append(helper.make_node("BatchNormalization", ["g", "n.g", "n.b", "n.m", "n.v"], ["e"], epsilon=2e-5))
        else:
            nodes.append(helper.make_node("Identity", ["g"], ["e"]))
        graph = helper.make_graph(
            nodes,
            "small",
            [helper.make_tensor_value_info("photos", TensorProto.FLOAT, ["images", 3, 112, 112])],
            [helper.make_tensor_value_info("e", TensorProto.FLOAT, ["images", dimensions])],
            [numpy_helper.from_array(array.astype(np.float32), name) for name, array in tensors.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        return model.SerializeToString()

    return make

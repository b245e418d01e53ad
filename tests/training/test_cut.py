from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from mien.encoding.network import Network
from mien.errors import WeightsError
from mien.training.cut import FeatureLayer, cut, joined
from mien.training.presets import PRESETS

torch = pytest.importorskip("torch", reason="training needs PyTorch: `make test-train` installs it")

from mien.training.model import TrainableModel, first_layer  # noqa: E402 it needs PyTorch

KINDS = [{}, {"transposed": False}, {"norm": False}, {"conv": True}, {"conv": True, "norm": False}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_cut_and_joined_a_network_is_what_it_was(small_network, rng, kind):
    base = small_network(**kind)
    network = cut(base)
    pictures = rng.standard_normal((20, 3, 112, 112)).astype(np.float32)
    activations = Network(network.trunk, "trunk", [network.weight.shape[1]]).run(pictures)[0]
    layer = first_layer(network, activations)
    expected = Network(base, "base", [6]).run(pictures)[0]
    assert np.allclose(layer(activations), expected, atol=1e-4)
    assert np.allclose(Network(joined(network.trunk, layer), "joined", [6]).run(pictures)[0], expected, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_written_network_is_the_trained_layer(small_network, rng, kind):
    """After training, to 1e-5: the ONNX file, PyTorch and plain numpy agree."""
    network = cut(small_network(**kind))
    pictures = rng.standard_normal((24, 3, 112, 112)).astype(np.float32)
    activations = Network(network.trunk, "trunk", [network.weight.shape[1]]).run(pictures)[0]
    model = TrainableModel.begin(first_layer(network, activations), 3, np.ones(3), PRESETS["m0"])
    for _ in range(5):
        model.learn(activations, rng.integers(0, 3, 24))
    model.features.eval()
    with torch.no_grad():
        expected = model.features(torch.from_numpy(activations)).numpy()
    written = Network(joined(network.trunk, model.layer), "joined", [6]).run(pictures)[0]
    assert np.allclose(written, expected, atol=1e-5)
    assert np.allclose(model.layer(activations), expected, atol=1e-5)


def test_other_networks_are_refused(small_network):
    model = onnx.load_model_from_string(small_network(norm=False))
    relu = helper.make_node("Relu", [model.graph.node[-1].output[0]], ["r"])
    model.graph.node.append(relu)
    model.graph.output[0].name = "r"
    with pytest.raises(WeightsError, match="a layer Relu at its end"):
        cut(model.SerializeToString())
    with pytest.raises(WeightsError, match="not an ONNX file"):
        cut(b"no network")


def test_a_layer_has_its_equation(rng):
    norm = [rng.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4)]
    from mien.training.cut import Norm

    layer = FeatureLayer(rng.standard_normal((3, 5), np.float32), rng.standard_normal(3, np.float32), Norm(*norm, 1e-5))
    row = rng.standard_normal(5).astype(np.float32)
    for place, found in enumerate(layer(row[None])[0]):
        linear = sum(layer.weight[place, k] * row[k] for k in range(5)) + layer.bias[place]
        gamma, beta, mean, variance = (part[place] for part in norm)
        assert found == pytest.approx((linear - mean) / (variance + 1e-5) ** 0.5 * gamma + beta, abs=1e-5)

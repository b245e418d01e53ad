from __future__ import annotations

import hashlib

import numpy as np
import onnxruntime
import pytest

from mien.encoding.networks import NETWORKS, network_of
from mien.errors import WeightsError

import reference_networks as reference

KINDS = {  # the size of a picture that is quick to compute, and not a multiple of the coarsest stride
    "mobilefacenet": ("mobilefacenet", (112, 112)),
    "retinaface-mobilenet": ("retinaface_mobilenet", (76, 100)),
    "retinaface-resnet50": ("retinaface_resnet", (76, 100)),
}


def run(content, batch):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {"photos": batch})


def as_list(outputs):
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_gives_what_a_plain_numpy_forward_pass_gives(kind, rng):
    name, size = KINDS[kind]
    tensors = reference.random_tensors(getattr(reference, f"{name}_shapes")(), rng)
    pictures = rng.standard_normal((2, 3, *size)).astype(np.float32)
    outputs = run(NETWORKS[kind](tensors), pictures)
    for place, picture in enumerate(pictures):
        for ours, theirs in zip(outputs, as_list(getattr(reference, name)(tensors, picture)), strict=True):
            assert np.abs(theirs).max() > 1e-3  # something came out
            np.testing.assert_allclose(ours[place], theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("role", ["detector", "m0"])
def test_the_published_weights_give_what_a_plain_numpy_forward_pass_gives(
    role, default_encoder, published_tensors, rng
):
    origin = default_encoder.manifest.parts[role].made_from
    name, size = KINDS[origin.network]
    tensors = published_tensors(role)
    picture = rng.standard_normal((1, 3, *size)).astype(np.float32)
    content = NETWORKS[origin.network](tensors)
    for ours, theirs in zip(run(content, picture), as_list(getattr(reference, name)(tensors, picture[0])), strict=True):
        np.testing.assert_allclose(ours[0], theirs, rtol=1e-4, atol=1e-4)
    assert hashlib.sha256(content).hexdigest() == default_encoder.manifest.parts[role].sha256


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_recognised_by_its_tensors(kind, rng):
    tensors = reference.random_tensors(getattr(reference, f"{KINDS[kind][0]}_shapes")(), rng)
    assert network_of(tensors) == NETWORKS[kind](tensors)


def test_weights_that_are_not_exactly_those_of_a_network_are_refused(rng):
    tensors = reference.random_tensors(reference.mobilefacenet_shapes(), rng)
    build = NETWORKS["mobilefacenet"]
    counted = {**tensors, "bn.num_batches_tracked": np.array(7)}
    assert build(counted) == build(tensors)
    without = {name: tensor for name, tensor in tensors.items() if name != "conv3.bias"}
    with pytest.raises(WeightsError, match=r"no tensor conv3\.bias"):
        build(without)
    with pytest.raises(WeightsError, match="unknown tensor 'extra'"):
        build({**tensors, "extra": np.zeros(3)})
    with pytest.raises(WeightsError, match=r"conv3\.bias has shape \(64,\), not \(128,\)"):
        build({**tensors, "conv3.bias": np.zeros(64)})
    with pytest.raises(WeightsError, match="not finite"):
        build({**tensors, "conv3.bias": np.full(128, np.nan)})
    with pytest.raises(WeightsError, match="no known network"):
        network_of({"something": np.zeros(3)})

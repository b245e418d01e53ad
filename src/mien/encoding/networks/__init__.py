"""Builds ONNX networks from named tensors; one file per kind of network."""

from __future__ import annotations

from collections.abc import Callable

from mien.encoding.networks.graph import Tensors
from mien.encoding.networks.mobilefacenet import mobilefacenet
from mien.encoding.networks.retinaface import retinaface_mobilenet, retinaface_resnet
from mien.errors import WeightsError

NETWORKS: dict[str, Callable[[Tensors], bytes]] = {
    "mobilefacenet": mobilefacenet,
    "retinaface-mobilenet": retinaface_mobilenet,
    "retinaface-resnet50": retinaface_resnet,
}


def network_of(tensors: Tensors) -> bytes:
    """Builds the network that has these weights; refuses weights of an unknown kind."""
    problems = []
    for build in NETWORKS.values():
        try:
            return build(tensors)
        except WeightsError as error:
            problems.append(str(error))
    raise WeightsError(
        "\n  ".join(["weights of no known network; fine-tuned ones need the network they come from, --base", *problems])
    )

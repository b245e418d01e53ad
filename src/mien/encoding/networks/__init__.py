"""One file per kind of network: named tensors in, an ONNX network out."""

from __future__ import annotations

from collections.abc import Callable

from mien.core.errors import WeightsError
from mien.encoding.networks.graph import Tensors
from mien.encoding.networks.mobilefacenet import mobilefacenet
from mien.encoding.networks.retinaface import retinaface_mobilenet, retinaface_resnet

NETWORKS: dict[str, Callable[[Tensors], bytes]] = {
    "mobilefacenet": mobilefacenet,
    "retinaface-mobilenet": retinaface_mobilenet,
    "retinaface-resnet50": retinaface_resnet,
}


def network_of(tensors: Tensors) -> bytes:
    """The network that these are the weights of, if it is one of the known kinds."""
    problems = []
    for build in NETWORKS.values():
        try:
            return build(tensors)
        except WeightsError as error:
            problems.append(str(error))
    raise WeightsError(
        "\n  ".join(["weights of no known network; fine-tuned ones need the network they come from, --base", *problems])
    )

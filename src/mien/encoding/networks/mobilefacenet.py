"""MobileFaceNet with 128 dimensions: an encoder small enough for any machine."""

from __future__ import annotations

from mien.encoding.networks.graph import Graph, Tensors

BLOCKS = (  # channels after the block, whether it halves the picture
    *((64, half) for half in (True, False, False, False, False)),
    *((128, half) for half in (True, *[False] * 6, True, *[False] * 2)),
)


def mobilefacenet(tensors: Tensors) -> bytes:
    """The network as ONNX: "photos" (images, 3, 112, 112) to "embeddings" (images, 128)."""
    graph = Graph(tensors)
    x = graph.relu6(graph.conv("photos", "conv1.0", norm="conv1.1", kernel=3, stride=2))
    x = graph.relu(graph.conv(x, "dw_conv.depthwise", norm="dw_conv.bn1", kernel=3, depthwise=True))
    x = graph.relu(graph.conv(x, "dw_conv.pointwise", norm="dw_conv.bn2"))
    channels = 64
    for number, (channels_after, half) in enumerate(BLOCKS):
        inside = _bottleneck(graph, x, f"features.{number}.conv", stride=2 if half else 1)
        x = graph.add(inside, x) if channels_after == channels and not half else inside
        channels = channels_after
    x = graph.relu6(graph.conv(x, "conv2.0", norm="conv2.1"))
    x = graph.conv(x, "gdconv.depthwise", norm="gdconv.bn", kernel=7, pad=0, depthwise=True)
    x = graph.conv(x, "conv3", norm="bn", bias=True)
    return graph.model("MobileFaceNet", (112, 112), {"embeddings": (graph.flat(x), [128])})


def _bottleneck(graph: Graph, x: str, name: str, *, stride: int) -> str:
    x = graph.relu6(graph.conv(x, f"{name}.0.0", norm=f"{name}.0.1"))
    x = graph.relu6(graph.conv(x, f"{name}.1.0", norm=f"{name}.1.1", kernel=3, stride=stride, depthwise=True))
    return graph.conv(x, f"{name}.2", norm=f"{name}.3")

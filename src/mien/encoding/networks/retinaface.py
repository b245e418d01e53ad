"""RetinaFace: faces with five landmarks, on MobileNet 0.25 or on ResNet-50."""

from __future__ import annotations

from mien.encoding.networks.graph import Graph, Shape, Tensors

LEAK = 0.1  # of the small network's ReLUs; the large one has none
RESNET_BLOCKS = {"layer1": 3, "layer2": 4, "layer3": 6, "layer4": 3}
OUTPUTS = {"boxes": ("BboxHead", 4), "confidences": ("ClassHead", 2), "landmarks": ("LandmarkHead", 10)}


def retinaface_mobilenet(tensors: Tensors) -> bytes:
    """The small detector as ONNX."""
    graph = Graph(tensors)
    x = graph.relu(graph.conv("photos", "body.stage1.0.0", norm="body.stage1.0.1", kernel=3, stride=2), leak=LEAK)
    scales = []
    for stage, blocks in (("stage1", range(1, 6)), ("stage2", range(6)), ("stage3", range(2))):
        for block in blocks:
            half = block == 0 or (stage, block) in {("stage1", 2), ("stage1", 4)}
            x = _separable(graph, x, f"body.{stage}.{block}", stride=2 if half else 1)
        scales.append(x)
    return _heads(graph, scales, "RetinaFace (MobileNet 0.25)", leak=LEAK)


def retinaface_resnet(tensors: Tensors) -> bytes:
    """The large detector as ONNX: the one of the official pipeline."""
    graph = Graph(tensors)
    x = graph.relu(graph.conv("photos", "body.conv1", norm="body.bn1", kernel=7, stride=2))
    x = graph.max_pool(x, kernel=3, stride=2)
    scales = []
    for layer, blocks in RESNET_BLOCKS.items():
        for block in range(blocks):
            half = block == 0 and layer != "layer1"
            x = _residual(graph, x, f"body.{layer}.{block}", stride=2 if half else 1, first=block == 0)
        scales.append(x)
    return _heads(graph, scales[1:], "RetinaFace (ResNet-50)", leak=0)


def _separable(graph: Graph, x: str, name: str, *, stride: int) -> str:
    depthwise = graph.conv(x, f"{name}.0", norm=f"{name}.1", kernel=3, stride=stride, depthwise=True)
    return graph.relu(graph.conv(graph.relu(depthwise, leak=LEAK), f"{name}.3", norm=f"{name}.4"), leak=LEAK)


def _residual(graph: Graph, x: str, name: str, *, stride: int, first: bool) -> str:
    inside = graph.relu(graph.conv(x, f"{name}.conv1", norm=f"{name}.bn1"))
    inside = graph.relu(graph.conv(inside, f"{name}.conv2", norm=f"{name}.bn2", kernel=3, stride=stride))
    inside = graph.conv(inside, f"{name}.conv3", norm=f"{name}.bn3")
    if first:
        x = graph.conv(x, f"{name}.downsample.0", norm=f"{name}.downsample.1", stride=stride)
    return graph.relu(graph.add(inside, x))


def _heads(graph: Graph, scales: list[str], name: str, *, leak: float) -> bytes:
    """The feature pyramid, its context modules, and three outputs over all anchors, fine to coarse."""
    fine, middle, coarse = (
        graph.relu(graph.conv(x, f"fpn.output{place}.0", norm=f"fpn.output{place}.1"), leak=leak)
        for place, x in enumerate(scales, start=1)
    )
    middle = _merged(graph, middle, coarse, "fpn.merge2", leak=leak)
    fine = _merged(graph, fine, middle, "fpn.merge1", leak=leak)
    contexts = [_context(graph, x, f"ssh{n}", leak=leak) for n, x in enumerate((fine, middle, coarse), start=1)]
    outputs: dict[str, tuple[str, Shape]] = {}
    for output, (head, columns) in OUTPUTS.items():
        convs = [graph.conv(x, f"{head}.{scale}.conv1x1", bias=True) for scale, x in enumerate(contexts)]
        rows = graph.concat([graph.rows(x, columns) for x in convs], axis=1)
        outputs[output] = graph.softmax(rows) if output == "confidences" else rows, ["anchors", columns]
    return graph.model(name, ("height", "width"), outputs)


def _merged(graph: Graph, x: str, coarser: str, name: str, *, leak: float) -> str:
    both = graph.add(x, graph.enlarged(coarser, like=x))
    return graph.relu(graph.conv(both, f"{name}.0", norm=f"{name}.1", kernel=3), leak=leak)


def _context(graph: Graph, x: str, name: str, *, leak: float) -> str:
    def conv(source: str, part: str) -> str:
        return graph.conv(source, f"{name}.{part}.0", norm=f"{name}.{part}.1", kernel=3)

    wide = graph.relu(conv(x, "conv5X5_1"), leak=leak)
    wider = graph.relu(conv(wide, "conv7X7_2"), leak=leak)
    parts = [conv(x, "conv3X3"), conv(wide, "conv5X5_2"), conv(wider, "conv7x7_3")]
    return graph.relu(graph.concat(parts, axis=1))

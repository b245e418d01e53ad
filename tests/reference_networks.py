"""The networks once more, as plain numpy: convolution by convolution, batch norms not folded, one picture at a time.

Each `*_shapes` says which tensors a file of that network has; they are also what random weights are made of.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# expansion, channels after, how many, stride of the first
SHARED_BLOCKS = [
    (2, 64, 5, 2),
    (4, 128, 1, 2),
    (2, 128, 6, 1),
    (4, 128, 1, 2),
    (2, 128, 2, 1),
]


class Net:
    def __init__(self, tensors):
        self.t = tensors

    def conv(self, x, name, stride=1, pad=0, groups=1):
        w = self.t[f"{name}.weight"].astype(np.float64)
        x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
        windows = sliding_window_view(x, w.shape[2:], axis=(1, 2))[:, ::stride, ::stride]
        if groups == 1:
            y = np.tensordot(w, windows, axes=([1, 2, 3], [0, 3, 4]))
        else:
            y = np.einsum("cijkl,ckl->cij", windows, w[:, 0])
        bias = self.t.get(f"{name}.bias")
        return y if bias is None else y + bias[:, None, None]

    def bn(self, x, name):
        gain, shift, mean, var = (
            self.t[f"{name}.{part}"].astype(np.float64)[:, None, None]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / np.sqrt(var + 1e-5) * gain + shift


def leaky(x, slope):
    return np.where(x > 0, x, slope * x)


def mobilefacenet(tensors, picture):
    net = Net(tensors)

    def relu6(x):
        return np.clip(x, 0, 6)

    x = relu6(net.bn(net.conv(picture, "conv1.0", 2, 1), "conv1.1"))
    x = leaky(net.bn(net.conv(x, "dw_conv.depthwise", 1, 1, groups=64), "dw_conv.bn1"), 0)
    x = leaky(net.bn(net.conv(x, "dw_conv.pointwise"), "dw_conv.bn2"), 0)
    block = 0
    for _expansion, _out, times, first_stride in SHARED_BLOCKS:
        for n in range(times):
            name, stride = f"features.{block}.conv", first_stride if n == 0 else 1
            y = relu6(net.bn(net.conv(x, f"{name}.0.0"), f"{name}.0.1"))
            y = relu6(net.bn(net.conv(y, f"{name}.1.0", stride, 1, groups=len(y)), f"{name}.1.1"))
            y = net.bn(net.conv(y, f"{name}.2"), f"{name}.3")
            x = x + y if x.shape == y.shape else y
            block += 1
    x = relu6(net.bn(net.conv(x, "conv2.0"), "conv2.1"))
    x = net.bn(net.conv(x, "gdconv.depthwise", groups=512), "gdconv.bn")
    return net.bn(net.conv(x, "conv3"), "bn").ravel()


def retinaface_mobilenet(tensors, picture):
    net = Net(tensors)
    x = leaky(net.bn(net.conv(picture, "body.stage1.0.0", 2, 1), "body.stage1.0.1"), 0.1)
    scales = []
    for stage, strides in (("stage1", [None, 1, 2, 1, 2, 1]), ("stage2", [2, 1, 1, 1, 1, 1]), ("stage3", [2, 1])):
        for n, stride in enumerate(strides):
            if stride:
                name = f"body.{stage}.{n}"
                x = leaky(net.bn(net.conv(x, f"{name}.0", stride, 1, groups=len(x)), f"{name}.1"), 0.1)
                x = leaky(net.bn(net.conv(x, f"{name}.3"), f"{name}.4"), 0.1)
        scales.append(x)
    return _retinaface_heads(net, scales, 0.1)


def retinaface_resnet(tensors, picture):
    net = Net(tensors)
    x = leaky(net.bn(net.conv(picture, "body.conv1", 2, 3), "body.bn1"), 0)
    x = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    x = sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::2, ::2].max(axis=(3, 4))
    scales = []
    for layer, blocks in enumerate((3, 4, 6, 3), start=1):
        for n in range(blocks):
            name, stride = f"body.layer{layer}.{n}", 2 if layer > 1 and n == 0 else 1
            y = leaky(net.bn(net.conv(x, f"{name}.conv1"), f"{name}.bn1"), 0)
            y = leaky(net.bn(net.conv(y, f"{name}.conv2", stride, 1), f"{name}.bn2"), 0)
            y = net.bn(net.conv(y, f"{name}.conv3"), f"{name}.bn3")
            if n == 0:
                x = net.bn(net.conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1")
            x = leaky(x + y, 0)
        scales.append(x)
    return _retinaface_heads(net, scales[1:], 0)


def _retinaface_heads(net, scales, slope):
    def layer(x, name, pad=1):
        return net.bn(net.conv(x, f"{name}.0", 1, pad), f"{name}.1")

    def upsampled(x, like):
        rows, columns = (np.arange(like.shape[a]) * x.shape[a] // like.shape[a] for a in (1, 2))
        return x[:, rows][:, :, columns]

    one, two, three = (leaky(layer(x, f"fpn.output{n}", 0), slope) for n, x in enumerate(scales, start=1))
    two = leaky(layer(two + upsampled(three, two), "fpn.merge2"), slope)
    one = leaky(layer(one + upsampled(two, one), "fpn.merge1"), slope)
    outputs = {"BboxHead": [], "ClassHead": [], "LandmarkHead": []}
    for n, x in enumerate((one, two, three)):
        name = f"ssh{n + 1}"
        five = leaky(layer(x, f"{name}.conv5X5_1"), slope)
        seven = leaky(layer(five, f"{name}.conv7X7_2"), slope)
        parts = [layer(x, f"{name}.conv3X3"), layer(five, f"{name}.conv5X5_2"), layer(seven, f"{name}.conv7x7_3")]
        feature = leaky(np.concatenate(parts), 0)
        for head, columns in (("BboxHead", 4), ("ClassHead", 2), ("LandmarkHead", 10)):
            y = net.conv(feature, f"{head}.{n}.conv1x1")
            outputs[head].append(y.transpose(1, 2, 0).reshape(-1, columns))
    boxes, classes, landmarks = (np.concatenate(rows) for rows in outputs.values())
    shares = np.exp(classes - classes.max(axis=1, keepdims=True))
    return boxes, shares / shares.sum(axis=1, keepdims=True), landmarks


def _norm(name, channels):
    return {f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")}


def mobilefacenet_shapes():
    shapes = {"conv1.0.weight": (64, 3, 3, 3), **_norm("conv1.1", 64)}
    shapes |= {"dw_conv.depthwise.weight": (64, 1, 3, 3), **_norm("dw_conv.bn1", 64)}
    shapes |= {"dw_conv.pointwise.weight": (64, 64, 1, 1), **_norm("dw_conv.bn2", 64)}
    channels, block = 64, 0
    for expansion, out, times, _stride in SHARED_BLOCKS:
        for _ in range(times):
            name, inside = f"features.{block}.conv", expansion * channels
            shapes |= {f"{name}.0.0.weight": (inside, channels, 1, 1), **_norm(f"{name}.0.1", inside)}
            shapes |= {f"{name}.1.0.weight": (inside, 1, 3, 3), **_norm(f"{name}.1.1", inside)}
            shapes |= {f"{name}.2.weight": (out, inside, 1, 1), **_norm(f"{name}.3", out)}
            channels, block = out, block + 1
    shapes |= {"conv2.0.weight": (512, 128, 1, 1), **_norm("conv2.1", 512)}
    shapes |= {"gdconv.depthwise.weight": (512, 1, 7, 7), **_norm("gdconv.bn", 512)}
    return shapes | {"conv3.weight": (128, 512, 1, 1), "conv3.bias": (128,), **_norm("bn", 128)}


def retinaface_mobilenet_shapes():
    shapes = {"body.stage1.0.0.weight": (8, 3, 3, 3), **_norm("body.stage1.0.1", 8)}
    channels = 8
    for stage, widths in (("stage1", [None, 16, 32, 32, 64, 64]), ("stage2", [128] * 6), ("stage3", [256, 256])):
        for n, width in enumerate(widths):
            if width:
                name = f"body.{stage}.{n}"
                shapes |= {f"{name}.0.weight": (channels, 1, 3, 3), **_norm(f"{name}.1", channels)}
                shapes |= {f"{name}.3.weight": (width, channels, 1, 1), **_norm(f"{name}.4", width)}
                channels = width
    return shapes | _head_shapes([64, 128, 256], 64)


def retinaface_resnet_shapes():
    shapes = {"body.conv1.weight": (64, 3, 7, 7), **_norm("body.bn1", 64)}
    channels = 64
    for layer, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=1):
        for n in range(blocks):
            name, out = f"body.layer{layer}.{n}", 4 * width
            shapes |= {f"{name}.conv1.weight": (width, channels, 1, 1), **_norm(f"{name}.bn1", width)}
            shapes |= {f"{name}.conv2.weight": (width, width, 3, 3), **_norm(f"{name}.bn2", width)}
            shapes |= {f"{name}.conv3.weight": (out, width, 1, 1), **_norm(f"{name}.bn3", out)}
            if n == 0:
                shapes |= {f"{name}.downsample.0.weight": (out, channels, 1, 1), **_norm(f"{name}.downsample.1", out)}
            channels = out
    return shapes | _head_shapes([512, 1024, 2048], 256)


def _head_shapes(channels, width):
    shapes = {}
    for n, here in enumerate(channels, start=1):
        shapes |= {f"fpn.output{n}.0.weight": (width, here, 1, 1), **_norm(f"fpn.output{n}.1", width)}
        half, quarter = width // 2, width // 4
        for part, out, into in (
            ("conv3X3", half, width), ("conv5X5_1", quarter, width), ("conv5X5_2", quarter, quarter),
            ("conv7X7_2", quarter, quarter), ("conv7x7_3", quarter, quarter),
        ):  # fmt: skip
            shapes |= {f"ssh{n}.{part}.0.weight": (out, into, 3, 3), **_norm(f"ssh{n}.{part}.1", out)}
        for head, columns in (("ClassHead", 2), ("BboxHead", 4), ("LandmarkHead", 10)):
            conv = f"{head}.{n - 1}.conv1x1"
            shapes |= {f"{conv}.weight": (2 * columns, width, 1, 1), f"{conv}.bias": (2 * columns,)}
    for n in (1, 2):
        shapes |= {f"fpn.merge{n}.0.weight": (width, width, 3, 3), **_norm(f"fpn.merge{n}.1", width)}
    return shapes


def random_tensors(shapes, rng):
    """Weights of a size that neither dies out nor explodes."""
    tensors = {}
    for name, shape in shapes.items():
        values = rng.standard_normal(shape)
        if len(shape) == 4:
            values *= np.sqrt(2 / np.prod(shape[1:]))
        elif name.endswith("running_var"):
            values = 0.5 + rng.random(shape)
        elif name.endswith(".weight"):
            values = 0.5 + 0.5 * rng.random(shape)
        else:
            values *= 0.1
        tensors[name] = values.astype(np.float32)
    return tensors

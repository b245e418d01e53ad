from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mien.encoding.fine_tuned import fine_tuned
from mien.encoding.network import check_network
from mien.errors import WeightsError

SIDE = 8
PARTS = {
    "Conv": ("weight", "bias"),
    "BatchNormalization": ("weight", "bias", "running_mean", "running_var"),
    "Gemm": ("weight", "bias"),
}


class Built:
    """A small network of ArcFace's shape, its nodes called as PyTorch exports them: with one counter for all."""

    def __init__(self, rng, *, node_name="{op}_{total}", trans_b=1, conv_bias=True):
        self.rng, self.node_name, self.conv_bias = rng, node_name, conv_bias
        self.nodes, self.initializers, self.counts = [], [], Counter()
        x = self.prelu(self.conv("photos", 3, 4, 3, 1), 4)
        for channels, wider, stride in ((4, 6, 2), (6, 6, 1)):
            y = self.prelu(self.conv(self.norm(x, channels), channels, wider, 3, 1), wider)
            y = self.conv(y, wider, wider, 3, stride)
            x = self.add("Add", [y, x if stride == 1 else self.conv(x, channels, wider, 1, stride)])
        x = self.add("Flatten", [self.norm(x, 6)], axis=1)
        shape = (5, 6 * 4 * 4) if trans_b else (6 * 4 * 4, 5)
        x = self.add("Gemm", [x, self.tensor(*shape), self.tensor(5)], alpha=1.0, beta=1.0, transB=trans_b)
        self.output = self.norm(x, 5)

    def tensor(self, *shape):
        name = f"tensor{len(self.initializers)}"
        values = self.rng.normal(size=shape).astype(np.float32)
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op, inputs, **attributes):
        output = f"value{len(self.nodes)}"
        name = self.node_name.format(op=op, total=len(self.nodes), count=self.counts[op])
        self.counts[op] += 1
        self.nodes.append(helper.make_node(op, inputs, [output], name, **attributes))
        return output

    def conv(self, x, inputs, outputs, kernel, stride):
        bias = [self.tensor(outputs)] if self.conv_bias else []
        weight = self.tensor(outputs, inputs, kernel, kernel)
        return self.add(
            "Conv", [x, weight, *bias], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4
        )

    def prelu(self, x, channels):
        return self.add("PRelu", [x, self.tensor(channels, 1, 1)])

    def norm(self, x, channels):
        return self.add("BatchNormalization", [x, *(self.tensor(channels) for _ in range(4))], epsilon=1e-5)

    def model(self, **changes):
        graph = helper.make_graph(
            changes.get("nodes", self.nodes),
            "arcface",
            [_value("photos", ("images", 3, SIDE, SIDE)), *changes.get("inputs", [])],
            [_value(self.output, ("images", 5)), *changes.get("outputs", [])],
            changes.get("initializers", self.initializers),
        )
        return helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13), *changes.get("opsets", [])]
        )

    def bytes(self, **changes):
        return self.model(**changes).SerializeToString()


def _value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def tensors_for(model, rng, *, called="counted", slopes="initializers"):
    """Random tensors under the names that GM-Arc's files give them, the classifier's and the counters among them."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    counts, numbered, tensors = Counter(), 0, {}
    last = [node.op_type for node in model.graph.node].count("BatchNormalization") - 1
    for node in model.graph.node:
        op, count = node.op_type, counts[node.op_type]
        layer = f"{op}_{count}" if called == "counted" else node.name.replace(".", "/").lstrip("/")
        counts[op] += 1
        end = op == "Gemm" or (op == "BatchNormalization" and count == last)
        layer = "Gemm" if op == "Gemm" and called != "counted" else layer
        for part, tensor in zip(PARTS.get(op, ()), node.input[1:], strict=False):
            shape = shapes[tensor]
            if op == "Gemm" and part == "weight" and not next(a.i for a in node.attribute if a.name == "transB"):
                shape = shape[::-1]
            values = rng.uniform(0.5, 2, size=shape) if part == "running_var" else rng.normal(size=shape)
            tensors[f"{'features' if end else 'base'}.{layer}.{part}"] = values.astype(np.float32)
        if op == "BatchNormalization":
            tensors[f"{'features' if end else 'base'}.{layer}.num_batches_tracked"] = np.array(9)
        if op == "PRelu":
            slope = rng.uniform(size=shapes[node.input[1]]).astype(np.float32)
            if slopes == "initializers":
                tensors[f"base.initializers.onnx_initializer_{numbered}"] = slope
            else:
                tensors[f"base.{layer}.weight"] = slope.ravel()
            numbered += 1
    return tensors | {"classifier.1.weight": np.ones((7, 5), np.float32), "classifier.1.bias": np.ones(7, np.float32)}


def forward(tensors, photos, *, conv_bias=True):
    """The same network in plain numpy, from the tensors by name (operator and count)."""
    t = {name.split(".", 1)[1]: np.asarray(values, dtype=np.float64) for name, values in tensors.items()}
    counts = Counter()

    def layer(op):
        counts[op] += 1
        return f"{op}_{counts[op] - 1}"

    def conv(x, stride):
        name = layer("Conv")
        weight = t[f"{name}.weight"]
        size = weight.shape[-1]
        padded = np.pad(x, ((0, 0), (0, 0), (size // 2,) * 2, (size // 2,) * 2))
        patches = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
        bias = t[f"{name}.bias"][:, None, None] if conv_bias else 0
        return np.einsum("nchwij,ocij->nohw", patches, weight) + bias

    def prelu(x):
        counts["PRelu"] += 1
        slope = t[f"initializers.onnx_initializer_{counts['PRelu'] - 1}"]
        return np.where(x < 0, x * slope, x)

    def norm(x):
        name = layer("BatchNormalization")
        weight, bias, mean, variance = (
            t[f"{name}.{part}"].reshape(-1, *[1] * (x.ndim - 2)) for part in PARTS["BatchNormalization"]
        )
        return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias

    x = prelu(conv(photos, 1))
    for stride in (2, 1):
        y = conv(prelu(conv(norm(x), 1)), stride)
        x = y + (x if stride == 1 else conv(x, stride))
    x = norm(x).reshape(len(x), -1)
    return norm(x @ t["Gemm_0.weight"].T + t["Gemm_0.bias"])


def run(network, photos):
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    return session.run(None, {"photos": photos})[0]


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("conv_bias", [True, False])
def test_a_fine_tuned_network_gives_what_its_tensors_say(rng, trans_b, conv_bias):
    built = Built(rng, trans_b=trans_b, conv_bias=conv_bias)
    tensors = tensors_for(built.model(), rng)
    photos = rng.normal(size=(2, 3, SIDE, SIDE)).astype(np.float32)
    network = fine_tuned(built.bytes(), tensors)
    expected = forward(tensors, photos, conv_bias=conv_bias)
    np.testing.assert_allclose(run(network, photos), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("node_name", ["{op}_{total}", "/layer{total}.0/{op}"])
@pytest.mark.parametrize("slopes", ["initializers", "weights"])
def test_the_layers_may_be_called_after_the_nodes_of_the_base(rng, node_name, slopes):
    built = Built(rng, node_name=node_name)
    counted = tensors_for(built.model(), np.random.default_rng(5))
    called = tensors_for(built.model(), np.random.default_rng(5), called="as in the base", slopes=slopes)
    assert counted.keys() != called.keys()
    assert fine_tuned(built.bytes(), counted) == fine_tuned(built.bytes(), called)


def test_the_graph_stays_and_the_bytes_are_always_the_same(rng):
    built = Built(rng)
    tensors = tensors_for(built.model(), rng)
    network = fine_tuned(built.bytes(), tensors)
    model = onnx.load_model_from_string(network)
    assert [node.name for node in model.graph.node] == [node.name for node in built.nodes]
    assert [tensor.name for tensor in model.graph.initializer] == [tensor.name for tensor in built.initializers]
    assert network == fine_tuned(built.bytes(), dict(reversed(tensors.items())))
    slope = numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == built.nodes[1].input[1]))
    np.testing.assert_array_equal(slope, tensors["base.initializers.onnx_initializer_0"])


def test_tensors_of_other_precision_are_rounded(rng):
    built = Built(rng)
    tensors = tensors_for(built.model(), rng)
    doubles = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in tensors.items()}
    assert fine_tuned(built.bytes(), doubles) == fine_tuned(built.bytes(), tensors)


def without(tensors, name):
    return {other: array for other, array in tensors.items() if other != name}


MISFITS = {
    "missing": (lambda t: without(t, "base.Conv_2.bias"), "there is no tensor 'Conv_2.bias'"),
    "missing slope": (
        lambda t: without(t, "base.initializers.onnx_initializer_2"),
        "there is no tensor 'initializers.onnx_initializer_2'",
    ),
    "left over": (lambda t: t | {"base.Conv_9.weight": np.ones(3)}, "there is no place for the tensor 'Conv_9.weight'"),
    "twice": (lambda t: t | {"features.Conv_0.bias": np.ones(4)}, "'features.Conv_0.bias' is there twice"),
    "shape": (
        lambda t: t | {"base.Conv_1.weight": np.ones((6, 4, 1, 1))},
        r"'Conv_1.weight' has shape \(6, 4, 1, 1\), expected \(6, 4, 3, 3\)",
    ),
    "turned": (lambda t: t | {"features.Gemm_0.weight": np.ones((96, 5))}, r"has shape \(96, 5\), expected \(5, 96\)"),
    "whole numbers": (
        lambda t: t | {"base.Conv_0.bias": np.ones(4, dtype=int)},
        "'Conv_0.bias' has numbers of type int",
    ),
    "not finite": (lambda t: t | {"base.Conv_0.bias": np.full(4, np.nan)}, "'Conv_0.bias' has values that are not"),
    "too large": (lambda t: t | {"base.Conv_0.bias": np.full(4, 1e300)}, "'Conv_0.bias' has values that are not"),
    "nothing": (lambda t: {}, "there is no tensor 'Conv_0.weight'"),
}


@pytest.mark.parametrize(("change", "problem"), MISFITS.values(), ids=MISFITS)
def test_tensors_that_do_not_fit_are_refused_by_name(rng, change, problem):
    built = Built(rng)
    with pytest.raises(WeightsError, match=f"the tensors do not fit the base network:(?s:.*)({problem})"):
        fine_tuned(built.bytes(), change(tensors_for(built.model(), rng)))


def test_every_misfit_is_listed(rng):
    built = Built(rng)
    tensors = without(tensors_for(built.model(), rng), "base.Conv_0.bias") | {"base.other": np.ones(3)}
    with pytest.raises(WeightsError) as refused:
        fine_tuned(built.bytes(), tensors)
    assert str(refused.value).splitlines()[1:] == [
        "  there is no tensor 'Conv_0.bias'",
        "  there is no place for the tensor 'other'",
    ]


def test_names_that_fit_in_two_ways_are_refused(rng):
    built = Built(rng, node_name="{op}_{count}")
    tensors = tensors_for(built.model(), rng)
    fine_tuned(built.bytes(), tensors)
    first, second = (next(node for node in built.nodes if node.name == name) for name in ("Conv_4", "Conv_5"))
    first.name, second.name = second.name, first.name  # of one shape: only the order tells which is meant
    with pytest.raises(WeightsError, match="in two ways"):
        fine_tuned(built.bytes(), tensors)


def test_a_tensor_that_two_layers_share_takes_one_value_only(rng):
    built = Built(rng)
    tensors = tensors_for(built.model(), rng)
    slopes = [node for node in built.nodes if node.op_type == "PRelu"]
    slopes[2].input[1] = slopes[1].input[1]
    with pytest.raises(WeightsError, match="shares its place with another one"):
        fine_tuned(built.bytes(), tensors)
    tensors["base.initializers.onnx_initializer_2"] = tensors["base.initializers.onnx_initializer_1"]
    fine_tuned(built.bytes(), tensors)


def changed_attribute(op, name, value):
    def change(built):
        node = next(node for node in built.nodes if node.op_type == op)
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])
        return {}

    return change


def doubled(built):
    values = numpy_helper.to_array(built.initializers[0]).astype(np.float64)
    return {"initializers": [numpy_helper.from_array(values, built.initializers[0].name), *built.initializers[1:]]}


UNFIT = {
    "two inputs": (lambda built: {"inputs": [_value("more", (1,))]}, "2 inputs: expected one"),
    "two outputs": (lambda built: {"outputs": [_value("value0", ("images", 4, 8, 8))]}, "2 outputs: expected one"),
    "other operator": (
        lambda built: {"nodes": [*built.nodes, helper.make_node("Resize", ["photos"], ["other"])]},
        "the operator 'Resize'",
    ),
    "scaled": (changed_attribute("Gemm", "alpha", 0.5), "Gemm 'Gemm_15' scales or transposes its input"),
    "training": (changed_attribute("BatchNormalization", "training_mode", 1), "in training mode"),
    "no initializer": (lambda built: {"initializers": built.initializers[1:]}, "takes its parameters from other"),
    "two of one name": (lambda built: {"initializers": built.initializers + built.initializers[:1]}, "two tensors of"),
    "double precision": (doubled, "expected floats in both files"),
}


@pytest.mark.parametrize(("change", "problem"), UNFIT.values(), ids=UNFIT)
def test_a_base_of_another_kind_is_refused(rng, change, problem):
    built = Built(rng)
    tensors = tensors_for(built.model(), rng)
    with pytest.raises(WeightsError, match=problem):
        fine_tuned(built.bytes(**change(built)), tensors)


def test_a_base_that_is_not_valid_is_refused(rng):
    built = Built(rng)
    tensors = tensors_for(built.model(), rng)
    built.nodes[1].input[0] = "nowhere"
    with pytest.raises(WeightsError, match="not valid ONNX"):
        fine_tuned(built.bytes(), tensors)


def outside(location="secret.bin"):
    tensor = TensorProto(name="leak", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def hidden_graph():
    return helper.make_graph([], "hidden", [], [_value("leak", (4,))], [outside()])


def sparse():
    indices = numpy_helper.from_array(np.array([0, 1, 2, 3]), "indices")
    return helper.make_sparse_tensor(outside(), indices, [9])


def with_function(model):
    model.functions.append(
        helper.make_function("own", "Trick", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [])
    )


def with_training(model):
    model.training_info.add().algorithm.CopyFrom(hidden_graph())


def only_listed(model):
    """External data in all but name: a tensor that lists its file, and does not say that it lies there."""
    model.graph.initializer[0].external_data.add(key="location", value="secret.bin")


DANGERS = {
    "initializer": lambda model: model.graph.initializer.append(outside()),
    "memory": lambda model: model.graph.initializer.append(outside("*/_ORT_MEM_ADDR_/*")),
    "listed": only_listed,
    "constant": lambda model: model.graph.node.append(helper.make_node("Constant", [], ["c"], value=outside())),
    "sparse constant": lambda model: model.graph.node.append(
        helper.make_node("Constant", [], ["c"], sparse_value=sparse())
    ),
    "sparse initializer": lambda model: model.graph.sparse_initializer.append(sparse()),
    "tensors": lambda model: model.graph.node.append(helper.make_node("Relu", ["a"], ["b"], odd=[outside()])),
    "subgraph": lambda model: model.graph.node.append(
        helper.make_node("If", ["a"], ["b"], then_branch=hidden_graph(), else_branch=hidden_graph())
    ),
    "subgraphs": lambda model: model.graph.node.append(helper.make_node("Relu", ["a"], ["b"], odd=[hidden_graph()])),
    "function": with_function,
    "training": with_training,
    "domain": lambda model: model.graph.node.append(helper.make_node("Trick", ["a"], ["b"], domain="com.evil")),
}


@pytest.mark.parametrize("danger", DANGERS.values(), ids=DANGERS)
def test_a_network_that_leads_outside_is_refused_before_anything_is_loaded(tmp_path, monkeypatch, rng, danger):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(np.ones(4, dtype=np.float32).tobytes())
    model = Built(rng).model()
    check_network(model.SerializeToString(), "r50.onnx")
    danger(model)
    with pytest.raises(WeightsError, match=r"r50\.onnx is refused, nothing was loaded:"):
        check_network(model.SerializeToString(), "r50.onnx")
    with pytest.raises(WeightsError, match="the base network is refused"):
        fine_tuned(model.SerializeToString(), {})


def test_a_name_that_is_no_text_is_refused(rng):
    content = Built(rng).bytes().replace(b"PRelu_1", b"PRelu\xff\xff")
    with pytest.raises(WeightsError, match="no text"):
        check_network(content)


def test_a_network_that_onnx_runtime_would_take_for_its_own_format_is_refused(rng):
    content = Built(rng).bytes()
    producer = b"\x12\x06" + b"xxORT"
    check_network(producer + b"?" + content)
    with pytest.raises(WeightsError, match="nothing was loaded"):
        check_network(producer + b"M" + content)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a network" * 9, b"\x08\x08", bytes(100), b"\x80\x02}."])
def test_other_files_are_no_networks(content):
    with pytest.raises(WeightsError, match="the network is not an ONNX file: nothing was loaded"):
        check_network(content)


@pytest.mark.parametrize("networks", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_damaged_network_gives_an_error_or_a_network(rng, networks):
    built = Built(rng)
    sound, tensors = built.bytes(), tensors_for(built.model(), rng)
    refused = 0
    for _ in range(networks):
        content = bytearray(sound)
        for place in rng.integers(len(content), size=rng.integers(1, 5)):
            content[place] = rng.integers(256)
        try:
            check_network(fine_tuned(bytes(content), tensors))
        except WeightsError:
            refused += 1
    assert 0 < refused < networks

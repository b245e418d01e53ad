from __future__ import annotations

import io
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from mien.errors import InvalidFileError
from mien.storage.formats.inert_pickle import load_inert, pickle_end
from mien.storage.formats.torch_file import read_tensors

from torch_files import (
    Call,
    Module,
    Name,
    Pickled,
    Storage,
    graph_module,
    module,
    parameter,
    tensor,
    write_archive,
    write_old,
    write_zip,
)

WRITERS = pytest.mark.parametrize("write", [write_zip, write_old])


def some_tensors(rng):
    return {
        "stem.weight": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "stem.bias": rng.normal(size=4),
        "half": rng.normal(size=(2, 5)).astype(np.float16),
        "counter": np.array(7, dtype=np.int64),
        "small": np.arange(-3, 3, dtype=np.int8).reshape(2, 3),
        "mask": np.array([True, False, True]),
        "nothing": np.zeros((0, 4), dtype=np.float32),
    }


def arcface(rng, wrapped=lambda array: array):
    """A network as GM-Arc pickles it whole, and the tensors that `state_dict()` would list."""
    weight, slope, mean, gemm, head = (
        rng.normal(size=shape).astype(np.float32) for shape in ((4, 3, 3, 3), (4, 1, 1), 4, (5, 16), (2, 5))
    )
    steps = np.array(3, dtype=np.int64)
    add = Call(Name("__builtin__", "getattr"), (Name("torch._C", "_VariableFunctionsClass"), "add"))
    added = module("onnx2torch.node_converters.binary_math_operations.OnnxBinaryMathOperation")
    added.state["math_op_function"] = add
    conv = module("torch.nn.modules.conv.Conv2d", {"weight": wrapped(weight), "bias": None})
    conv.state["padding"] = Call(Name("torch", "Size"), ((1, 1),))
    norm = module("torch.nn.modules.batchnorm.BatchNorm2d", {}, {"running_mean": mean, "num_batches_tracked": steps})
    norm.state["device"] = Call(Name("torch", "device"), ("cuda", 0))
    slopes = module("onnx2torch.converter.InitializersContainer", {}, {"onnx_initializer_0": slope})
    base = graph_module(
        {}, {"cache": mean}, {"Conv_0": conv, "initializers": slopes, "BatchNormalization_0": norm, "Add_0": added},
        left_out=["cache"],
    )  # fmt: skip
    features = module(
        "torch.nn.modules.container.Sequential",
        modules={"Gemm_0": module("torch.nn.modules.linear.Linear", {"weight": wrapped(gemm)})},
    )
    classifier = module(
        "torch.nn.modules.container.Sequential",
        modules={"0": None, "1": module("torch.nn.modules.linear.Linear", {"weight": wrapped(head)})},
    )
    root = module(
        "lib.models.my_arcface.MyArcFace", modules={"base": base, "features": features, "classifier": classifier}
    )
    return root, {
        "base.Conv_0.weight": weight,
        "base.initializers.onnx_initializer_0": slope,
        "base.BatchNormalization_0.running_mean": mean,
        "base.BatchNormalization_0.num_batches_tracked": steps,
        "features.Gemm_0.weight": gemm,
        "classifier.1.weight": head,
    }


def assert_same(read, written):
    assert list(read) == list(written)
    for name, array in written.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@WRITERS
@pytest.mark.parametrize("form", [dict, OrderedDict])
def test_a_state_dict_is_read_exactly(tmp_path, rng, write, form):
    tensors = some_tensors(rng)
    write(tmp_path / "state.pth", form(tensors))
    assert_same(read_tensors(tmp_path / "state.pth"), tensors)


@WRITERS
def test_a_checkpoint_gives_its_state_dict_without_the_prefix_of_parallel_training(tmp_path, rng, write):
    tensors = some_tensors(rng)
    write(
        tmp_path / "checkpoint.pth",
        {
            "epoch": 3,
            "state_dict": OrderedDict((f"module.{name}", array) for name, array in tensors.items()),
            "optimizer": {"state": {0: np.zeros(3)}, "param_groups": [{"lr": 0.1}]},
        },
    )
    assert_same(read_tensors(tmp_path / "checkpoint.pth"), tensors)


@WRITERS
@pytest.mark.parametrize("wrapped", [parameter, lambda array: array])
def test_a_whole_module_gives_what_its_state_dict_would(tmp_path, monkeypatch, rng, write, wrapped):
    monkeypatch.chdir(tmp_path)
    root, tensors = arcface(rng, wrapped)
    write(tmp_path / "module.pth", root)
    assert_same(read_tensors(tmp_path / "module.pth"), tensors)
    assert not (tmp_path / "marker").exists()


def test_a_prefix_that_only_some_names_share_stays(tmp_path):
    write_zip(tmp_path / "state.pth", {"module.a": np.ones(1), "b": np.ones(1)})
    assert list(read_tensors(tmp_path / "state.pth")) == ["module.a", "b"]


def test_tensors_may_share_a_storage_and_lie_across_it(tmp_path, rng):
    shared = Storage("0", rng.normal(size=30).astype(np.float32))
    write_zip(tmp_path / "views.pth", {"all": tensor(shared, 0, (30,)), "turned": tensor(shared, 6, (4, 3), (1, 8))})
    read = read_tensors(tmp_path / "views.pth")
    np.testing.assert_array_equal(read["turned"], shared.numbers[[[6, 14, 22], [7, 15, 23], [8, 16, 24], [9, 17, 25]]])
    assert not read["all"].flags.writeable


def test_bfloat16_is_read_as_the_float32_of_the_same_value(tmp_path):
    values = np.array([1.0, -2.5, 0.15625], dtype=np.float32)
    upper_halves = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.int16)
    write_zip(tmp_path / "b.pth", {"x": tensor(Storage("0", upper_halves, Name("torch", "BFloat16Storage")), 0, (3,))})
    np.testing.assert_array_equal(read_tensors(tmp_path / "b.pth")["x"], values)


def test_an_archive_of_a_big_endian_machine_is_read(tmp_path, rng):
    tensors = some_tensors(rng)
    write_zip(tmp_path / "big.pth", tensors, byte_order="big")
    assert_same(read_tensors(tmp_path / "big.pth"), tensors)


def test_parameters_and_tensors_with_attributes_of_their_own_are_read(tmp_path, rng):
    array = rng.normal(size=3)
    with_state = Call(Name("torch._utils", "_rebuild_parameter_with_state"), (array, True, OrderedDict(), {"note": 1}))
    _, args, _ = tensor(Storage("9", array), 0, (3,)).__reduce__()
    typed = Call(
        Name("torch._tensor", "_rebuild_from_type_v2"),
        (Name("torch._utils", "_rebuild_tensor_v2"), Name("torch", "Tensor"), args, {"note": 2}),
    )
    write_old(tmp_path / "noted.pth", {"a": with_state, "b": typed})
    assert_same(read_tensors(tmp_path / "noted.pth"), {"a": array, "b": array})


COMMAND = "touch marker"
BOMBS = {
    "a shell": Call(Name("os", "system"), (COMMAND,)),
    "a shell under its old name": Call(Name("posix", "system"), (COMMAND,)),
    "eval": Call(Name("builtins", "eval"), (f"__import__('os').system({COMMAND!r})",)),
    "exec in Python 2": Call(Name("__builtin__", "execfile"), ("marker",)),
    "a call of a call": Call(Call(Name("builtins", "getattr"), (Name("torch", "Tensor"), "add")), ()),
    "a look-up in a foreign module": Call(Name("builtins", "getattr"), (Name("os", "path"), "os")),
    "torch.load": Call(Name("torch", "load"), ("other.pth",)),
    "torch.hub": Call(Name("torch.hub", "load"), ("a/b", "c")),
    "torch.utils": Call(Name("torch.utils._cpp_extension", "load_inline"), ("x",)),
    "a quantised tensor": Call(Name("torch._utils", "_rebuild_qtensor"), ()),
    "a sparse tensor": Call(Name("torch._utils", "_rebuild_sparse_tensor"), ()),
    "a foreign module": Module(Name("models.evil", "Net"), {}),
}  # fmt: skip


@WRITERS
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_file_with_code_is_refused_and_nothing_runs(tmp_path, monkeypatch, write, bomb):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bomb.pth", {"weight": np.ones(3), "bomb": bomb})
    with pytest.raises(InvalidFileError, match=r"mien does not read: nothing of it was run|not a readable pickle"):
        read_tensors(tmp_path / "bomb.pth")
    assert not (tmp_path / "marker").exists()


numbers = np.arange(10, dtype=np.float32)
FORGED = {
    "beyond": tensor(Storage("0", numbers), 8, (3,)),
    "wide": tensor(Storage("0", numbers), 0, (2, 2), (10, 1)),
    "expanded": tensor(Storage("0", numbers), 0, (2**40,), (0,)),
    "negative offset": tensor(Storage("0", numbers), -1, (3,)),
    "negative stride": tensor(Storage("0", numbers), 9, (3,), (-1,)),
    "negative size": tensor(Storage("0", numbers), 0, (-1, -3), (1, 1)),
    "fractional": tensor(Storage("0", numbers), 0, (1.5,), (1,)),
    "truth": tensor(Storage("0", numbers), 0, (True,), (1,)),
    "no strides": tensor(Storage("0", numbers), 0, (3,), ()),
    "many axes": tensor(Storage("0", numbers), 0, (1,) * 40),
    "huge axis": tensor(Storage("0", numbers), 0, (0, 2**100)),
    "no storage": tensor([1.0, 2.0], 0, (2,)),
    "larger storage": tensor(Storage("0", numbers, elements=11), 0, (3,)),
    "smaller storage": tensor(Storage("0", numbers, elements=9), 0, (3,)),
    "gigantic storage": tensor(Storage("0", numbers, elements=2**60), 0, (3,)),
    "negative storage": tensor(Storage("0", numbers, elements=-1), 0, (0,)),
    "complex numbers": tensor(Storage("0", numbers, Name("torch", "ComplexFloatStorage")), 0, (3,)),
    "no kind of number": tensor(Storage("0", numbers, Name("torch", "Size")), 0, (3,)),
    "a path as key": tensor(Storage("../../etc/passwd", numbers), 0, (3,)),
    "a conjugate": tensor(Storage("0", numbers), 0, (3,), None, {"conj": True}),
    "a number": 5,
    "a text": "weight",
    "a list": [np.ones(3)],
}


@WRITERS
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_tensor_that_is_not_where_or_what_it_says_is_refused(tmp_path, write, forged):
    write(tmp_path / "forged.pth", {"x": forged})
    with pytest.raises(InvalidFileError, match=r"forged\.pth: "):
        read_tensors(tmp_path / "forged.pth")


@WRITERS
@pytest.mark.parametrize("content", [{}, [], 7, None, "text", np.ones(3), {"state_dict": {}}, {3: np.ones(3)}])
def test_a_file_without_named_tensors_is_refused(tmp_path, write, content):
    write(tmp_path / "other.pth", content)
    with pytest.raises(InvalidFileError, match=r"other\.pth: not a PyTorch file that mien reads"):
        read_tensors(tmp_path / "other.pth")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"P", b"\x80\x02K\x01.", b"not a pickle\n" * 100])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "other.pth").write_bytes(content)
    with pytest.raises(InvalidFileError, match=r"other\.pth: "):
        read_tensors(tmp_path / "other.pth")


def test_a_missing_file_is_told_so(tmp_path):
    with pytest.raises(InvalidFileError, match="FileNotFoundError"):
        read_tensors(tmp_path / "missing.pth")


def test_an_old_file_that_is_cut_or_grown_is_refused(tmp_path, rng):
    path = tmp_path / "old.pth"
    write_old(path, some_tensors(rng))
    content = path.read_bytes()
    for changed in [content + b"\0", *(content[:end] for end in range(0, len(content), 7))]:
        path.write_bytes(changed)
        with pytest.raises(InvalidFileError):
            read_tensors(path)


def test_an_old_file_of_a_big_endian_machine_is_refused(tmp_path, rng):
    write_old(tmp_path / "big.pth", some_tensors(rng), machine={"little_endian": False})
    with pytest.raises(InvalidFileError, match="big-endian"):
        read_tensors(tmp_path / "big.pth")


def test_a_compressed_archive_is_refused(tmp_path):
    write_zip(tmp_path / "bomb.pth", {"x": np.zeros(10**6)}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(InvalidFileError, match="compressed"):
        read_tensors(tmp_path / "bomb.pth")


@pytest.mark.parametrize("name", ["archive/../x", "/archive/x", "x/x", "archive//x", "archive/a\0b", "archive/", "x"])
def test_an_archive_with_misleading_names_is_refused(tmp_path, name):
    described = Pickled(old=False).of({"x": np.ones(3)})
    write_archive(tmp_path / "odd.pth", {"archive/data.pkl": described, "archive/data/0": np.ones(3).tobytes()})
    assert list(read_tensors(tmp_path / "odd.pth")) == ["x"]
    content = {"archive/data.pkl": described, "archive/data/0": np.ones(3).tobytes(), name.replace("\0", "?"): b""}
    write_archive(tmp_path / "odd.pth", content)
    if "\0" in name:  # `zipfile` does not write it
        swapped = (tmp_path / "odd.pth").read_bytes().replace(name.replace("\0", "?").encode(), name.encode())
        (tmp_path / "odd.pth").write_bytes(swapped)
    with pytest.raises(InvalidFileError, match=r"misleading name|not one of PyTorch"):
        read_tensors(tmp_path / "odd.pth")


def test_an_archive_whose_entries_overlap_is_refused(tmp_path):
    path = tmp_path / "overlap.pth"
    write_zip(path, {"a": np.ones(1000), "b": np.ones(1000)})
    content = path.read_bytes()
    first, second = (content.index(f"archive/data/{key}".encode()) - 30 for key in "01")
    forged = content.replace(
        struct.pack("<L", second) + b"archive/data/1", struct.pack("<L", first) + b"archive/data/1"
    )
    assert forged != content
    path.write_bytes(forged)
    with pytest.raises(InvalidFileError):
        read_tensors(path)


def nested(depth):
    """Modules that hold the next one twice: few bytes, 2 to the depth parts."""
    inner = module("torch.nn.modules.linear.Linear")
    for _ in range(depth):
        inner = module("torch.nn.modules.container.Sequential", modules={"a": inner, "b": inner})
    return inner


def shared_tuples(depth):
    """A pickle of nested pairs whose halves are one: as text, 2 to the depth parts."""
    return b"\x80\x02)" + b"q\x00h\x00\x86" * depth


HOSTILE = {
    "deep lists": b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".",
    "deep tuples": b"\x80\x02)" + b"\x85" * 10**5 + b".",
    "deep calls": b"\x80\x02ctorch\nSize\nq\x00" + b"h\x00" * 10**5 + b")\x81" + b"\x85\x81" * 10**5 + b".",
    "a shared persistent id": shared_tuples(60) + b"Q.",
    "a huge memo index": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a huge memo index as text": b"}p2147483000\n.",
    "a huge memo index behind zeros": b"}p" + b"0" * 30 + b"2147483000\n.",
    "long bytes": b"\x80\x05\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "a long byte array": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
    "a long text": b"\x80\x05\x8d" + struct.pack("<Q", 2**62) + b"x.",
    "a long number": b"\x80\x02\x8b" + struct.pack("<l", 2**31 - 1) + b"x.",
    "a negative length": b"\x80\x02\x8b" + struct.pack("<l", -5) + b"x.",
    "a long frame": b"\x80\x05\x95" + struct.pack("<Q", 2**60) + b"}.",
    "a recursive list": b"\x80\x02]q\x00h\x00a.",
}


@WRITERS
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_pickle_is_refused_in_little_memory(tmp_path, write, hostile):
    write(tmp_path / "hostile.pth", {}, change=lambda _: hostile)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidFileError, match=r"hostile\.pth: "):
            read_tensors(tmp_path / "hostile.pth")
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()


@WRITERS
def test_a_description_longer_than_that_of_any_network_is_refused(tmp_path, write):
    write(tmp_path / "long.pth", {}, change=lambda _: b"\x80\x02(" + b"}" * (5 * 2**20) + b"t.")
    with pytest.raises(InvalidFileError, match=r"longer than that of any network|too long"):
        read_tensors(tmp_path / "long.pth")


@WRITERS
@pytest.mark.parametrize("depth", [40, 55])
def test_modules_nested_without_end_are_refused(tmp_path, write, depth):
    write(tmp_path / "nested.pth", nested(depth))
    with pytest.raises(InvalidFileError, match=r"more parts than any network|too deep"):
        read_tensors(tmp_path / "nested.pth")


def test_every_pickle_is_looked_through_before_it_is_opened(tmp_path):
    (tmp_path / "frame.pkl").write_bytes(HOSTILE["a huge memo index"])
    with pytest.raises(InvalidFileError, match="out of order"):
        load_inert(tmp_path / "frame.pkl", ())


@pytest.mark.parametrize("protocol", range(6))
def test_the_end_of_a_pickle_is_found_without_opening_it(protocol):
    content = pickle.dumps(
        [
            {str(i): (i, i * 10**20, -i / 3, bytes([i % 256]) * i, "é" * i) for i in range(400)},
            {1},
            OrderedDict,
            b"x" * 9,
        ],
        protocol,
    )
    assert pickle_end(content + b"rest") == len(content)


def mutated(content, chance):
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) or 1)
        match chance.randrange(5):
            case 0:
                del changed[place : place + chance.randint(1, 8)]
            case 1:
                start = chance.randrange(len(changed) or 1)
                changed[place:place] = changed[start : start + chance.randint(1, 30)]
            case 2:
                changed[place : place + 1] = chance.choice(
                    [b"\xff\xff\xff\x7f", b"\x00", b"\x8e", b"R", b"b", b"s", b"Q"]
                )
            case _ if changed:
                changed[place] = chance.randrange(256)
    return bytes(changed)


def damaged(form, path, sound, chance):
    if form != "pickle inside zip":  # of an archive, most damage is found by its checksums
        path.write_bytes(mutated(sound, chance))
        return
    with zipfile.ZipFile(io.BytesIO(sound)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    write_archive(path, entries | {"archive/data.pkl": mutated(entries["archive/data.pkl"], chance)})


@pytest.mark.parametrize("files", [200, pytest.param(5000, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", ["old", "zip", "pickle inside zip"])
def test_a_damaged_file_gives_an_error_or_tensors_and_no_crash(tmp_path, rng, form, files):
    path = tmp_path / "damaged.pth"
    root, _ = arcface(rng, parameter)
    chance = random.Random(20_26)
    (write_old if form == "old" else write_zip)(path, root)
    sound = path.read_bytes()
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(files):
            damaged(form, path, sound, chance)
            try:
                read = read_tensors(path)
            except InvalidFileError:
                refused += 1
            else:
                assert sum(array.nbytes for array in read.values()) < 100 * len(sound)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
    assert 0 < refused < files

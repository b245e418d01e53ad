from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from mien.core.roster import Label
from mien.encoding.photo_encoder import Photo
from mien.encoding.store import stored_encoder
from mien.encoding.subject import find_subject
from mien.errors import InvalidFileError, InvalidStudyError
from mien.simulation.photos import DrawnPerson
from mien.training.crops import Rows, TrainingData, load_data
from mien.training.cut import cut
from mien.training.export import ARCFACE_INPUT, write_encoder
from mien.training.presets import PRESETS, Augmentation

from pictures import two_portraits

QUICK = replace(PRESETS["m0"], epochs=4, batch=8)
OTHER_INPUT = ARCFACE_INPUT.model_copy(update={"mean": (1.0, 2.0, 3.0)})


def run_of(network, rng, *, preset=QUICK, seed=3):
    from mien.training.run import Run

    means = rng.integers(40, 215, (3, 1, 1, 3))
    crops = np.clip(np.repeat(means, 12, axis=0) + rng.normal(0, 25, (36, 112, 112, 3)), 0, 255).astype(np.uint8)
    classes = np.repeat(np.arange(3), 12)
    rows = np.arange(36)
    in_training = rows % 4 != 0
    data = TrainingData(
        ("a", "b", "c"),
        crops,
        Rows(rows[in_training], classes[in_training]),
        Rows(rows[~in_training], classes[~in_training]),
    )
    return Run(data, cut(network), ARCFACE_INPUT, preset, seed)


def same(one, other):
    pairs = zip((*one.layer[:2], *one.layer.norm[:4]), (*other.layer[:2], *other.layer.norm[:4]), strict=True)
    return all((mine == theirs).all() for mine, theirs in pairs) and one.log == other.log


def test_a_seed_gives_the_same_weights_bit_for_bit(small_network, tmp_path):
    from mien.training.run import run_training

    base = small_network()
    made = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        (tmp_path / name).mkdir()
        made.append(run_training(run_of(base, np.random.default_rng(1), seed=seed), tmp_path / name))
    assert same(made[0], made[1])
    assert not same(made[0], made[2])
    assert [line.epoch for line in made[0].log] == [1, 2, 3, 4]


def test_cores_change_nothing(small_network, tmp_path, monkeypatch):
    from mien.training.run import run_training

    base, made = small_network(), []
    for cores in (1, 5):
        (tmp_path / f"{cores}").mkdir()
        monkeypatch.setattr("mien.training.run.os.cpu_count", lambda cores=cores: cores)
        made.append(run_training(run_of(base, np.random.default_rng(1), preset=STEPPING), tmp_path / f"{cores}"))
    assert same(*made)


def test_it_learns(small_network, tmp_path):
    from mien.training.run import run_training

    run = run_of(
        small_network(), np.random.default_rng(1), preset=replace(QUICK, epochs=25, feature_rate=5e-3, head_rate=2e-2)
    )
    log = run_training(run, tmp_path).log
    assert log[-1].loss < log[0].loss
    assert log[-1].validation_top1 > 90


# three batches an epoch, a step after two of them and one after the epoch; all steps but the first lower the rates
STEPPING = replace(QUICK, images_per_step=16, patience=0, threshold=9.0)


@pytest.mark.parametrize("preset", [QUICK, STEPPING], ids=["a step an epoch", "two steps an epoch"])
def test_a_run_that_was_stopped_after_any_epoch_ends_with_the_same_weights(small_network, tmp_path, preset):
    from mien.training.run import run_training

    base = small_network()
    (tmp_path / "whole").mkdir()
    whole = run_training(run_of(base, np.random.default_rng(1), preset=preset), tmp_path / "whole")
    for stopped_after in (1, 3):
        folder = tmp_path / f"stopped {stopped_after}"
        folder.mkdir()

        def stop(line, stopped_after=stopped_after):
            if line.epoch == stopped_after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_training(run_of(base, np.random.default_rng(1), preset=preset), folder, stop)
        heard = []
        again = run_training(run_of(base, np.random.default_rng(1), preset=preset), folder, heard.append)
        assert same(again, whole)
        assert heard == whole.log


def test_rates_can_fall_within_an_epoch_too(small_network, tmp_path):
    """As officially: validated after so many whole batches of an epoch, and after the epoch; patience counts steps."""
    import torch

    from mien.training.model import TrainableModel, class_weights, first_layer
    from mien.training.run import Trunk, accuracy, run_training

    run = run_of(small_network(), np.random.default_rng(1), preset=STEPPING)
    done = run_training(run, tmp_path)
    assert [line.steps for line in done.log] == [2, 4, 6, 8]
    # the rates of a line are those before the step that ends its epoch; the first step is the only better one
    assert [line.feature_rate for line in done.log] == pytest.approx([5e-4, 1.25e-4, 3.125e-5, 1e-5])
    rows, looked_at = run.data.train, run.data.validation
    with Trunk(run) as trunk:
        validation = trunk.activations(looked_at.image_of_row)
        torch.manual_seed(run.seed)
        weights = class_weights(rows.class_of_row, 3, 0.5)
        model = TrainableModel.begin(first_layer(run.network, validation), 3, weights, STEPPING)
        for epoch in (1, 2, 3, 4):
            torch.manual_seed(int(np.random.default_rng([run.seed, epoch, 0]).integers(2**31)))
            first, second, third = trunk.batches(epoch)
            for batches in ([first, second], [third]):
                for batch in batches:
                    model.learn(*batch)
                model.scheduler.step(accuracy(model.scores(validation), looked_at.class_of_row, top=5))
    assert (model.layer.weight == done.layer.weight).all()


@pytest.mark.parametrize(("images", "steps"), [(10_000, 1), (24, 2), (23, 2), (8, 4), (3, 4)])
def test_an_epoch_has_its_last_step_at_its_end_even_if_one_was_just_made(small_network, tmp_path, images, steps):
    from mien.training.run import run_training

    run = run_of(small_network(), np.random.default_rng(1), preset=replace(QUICK, epochs=1, images_per_step=images))
    assert run_training(run, tmp_path).log[0].steps == steps


class Colours:
    """Crops whose channels differ, and a network that tells which one it was given where: the mean of each place."""

    crops = np.stack([np.full((112, 112, 3), colour, np.uint8) for colour in ((200, 60, 20), (210, 70, 30))])

    @staticmethod
    def network():
        nodes = [
            helper.make_node("GlobalAveragePool", ["photos"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "w", "b"], ["e"], transB=1),
        ]
        tensors = {"w": np.eye(3, dtype=np.float32), "b": np.zeros(3, np.float32)}
        graph = helper.make_graph(
            nodes,
            "colours",
            [helper.make_tensor_value_info("photos", TensorProto.FLOAT, ["images", 3, 112, 112])],
            [helper.make_tensor_value_info("e", TensorProto.FLOAT, ["images", 3])],
            [numpy_helper.from_array(array, name) for name, array in tensors.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.mark.parametrize(("channels", "expected"), [("BGR", (20, 60, 200)), ("RGB", (200, 60, 20))])
def test_training_and_validation_see_channels_in_the_order_of_the_preset(channels, expected):
    from mien.training.run import Run, Trunk

    rows = Rows(np.array([0, 1]), np.array([0, 1]))
    data = TrainingData(("a", "b"), Colours.crops, rows, rows)
    still = Augmentation(0, brightness=0, contrast=0, saturation=0, hue=0, gray_probability=0)
    preset = replace(QUICK, channels=channels, batch=2, augmentation=still)
    with Trunk(Run(data, cut(Colours.network()), ARCFACE_INPUT, preset, 1)) as trunk:
        validation = trunk.activations(np.array([0]))
        [(training, classes)] = trunk.batches(1)
    assert validation[0] * 127.5 + 127.5 == pytest.approx(expected, abs=0.1)
    assert training[classes == 0][0] * 127.5 + 127.5 == pytest.approx(expected, abs=1)


def test_gray_is_mixed_from_the_channels_where_training_has_them():
    """Officially gray is made of swapped channels as if they were not: blue counts as red does."""
    from mien.training.run import Run, Trunk

    rows = Rows(np.array([0, 1]), np.array([0, 1]))
    data = TrainingData(("a", "b"), Colours.crops, rows, rows)
    gray = Augmentation(0, brightness=0, contrast=0, saturation=0, hue=0, gray_probability=1)
    lights = {}
    for channels in ("BGR", "RGB"):
        preset = replace(QUICK, channels=channels, batch=2, augmentation=gray)
        with Trunk(Run(data, cut(Colours.network()), ARCFACE_INPUT, preset, 1)) as trunk:
            [(training, classes)] = trunk.batches(1)
        lights[channels] = float(training[classes == 0][0, 0] * 127.5 + 127.5)
    assert lights["RGB"] == pytest.approx(0.299 * 200 + 0.587 * 60 + 0.114 * 20, abs=1)
    assert lights["BGR"] == pytest.approx(0.299 * 20 + 0.587 * 60 + 0.114 * 200, abs=1)


def test_a_checkpoint_of_another_run_is_refused(small_network, tmp_path):
    from mien.training.run import CHECKPOINT, run_training

    base = small_network()
    run_training(run_of(base, np.random.default_rng(1)), tmp_path)
    for other, what in (
        (run_of(base, np.random.default_rng(1), seed=9), "seed"),
        (run_of(base, np.random.default_rng(2)), "data"),
        (run_of(small_network(), np.random.default_rng(1)), "base"),
        (run_of(base, np.random.default_rng(1), preset=replace(QUICK, batch=4)), "preset"),
        (run_of(base, np.random.default_rng(1), preset=replace(QUICK, channels="RGB")), "preset"),
        (replace(run_of(base, np.random.default_rng(1)), scaling=OTHER_INPUT), "input"),
    ):
        with pytest.raises(InvalidFileError, match=f"another run, with another {what}"):
            run_training(other, tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(b"damaged")
    with pytest.raises(InvalidFileError, match="delete it"):
        run_training(run_of(base, np.random.default_rng(1)), tmp_path)


def test_the_rest_of_an_epoch_is_left_out_unless_it_is_all_there_is(small_network):
    from mien.training.run import Trunk

    for size, expected in ((8, [8, 8, 8]), (27, [27]), (64, [27])):
        run = run_of(small_network(), np.random.default_rng(1), preset=replace(QUICK, batch=size))
        with Trunk(run) as trunk:
            batches = list(trunk.batches(1))
            assert [len(classes) for _, classes in batches] == expected
            again = list(trunk.batches(1))
            other = list(trunk.batches(2))
        assert all((one[0] == two[0]).all() for one, two in zip(batches, again, strict=True))
        assert not (batches[0][0] == other[0][0]).all()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Photos of four drawn persons as four disorders, with their tables."""
    folder, rng = tmp_path_factory.mktemp("drawn"), np.random.default_rng(3)
    (folder / "photos").mkdir()
    rows = {"train": [], "val": []}
    for person in range(4):
        drawn = DrawnPerson.drawn(rng)
        for photo in range(4):
            name = f"{person}-{photo}.png"
            Image.fromarray(drawn.photo(rng, 300)).save(folder / "photos" / name)
            rows["val" if photo == 3 else "train"].append(f"{name},p{person},d{person}")
    for table, lines in rows.items():
        (folder / f"{table}.csv").write_text("\n".join(["image_id,subject,label", *lines]) + "\n")
    return folder


def arguments(drawn, out, **changes):
    given = {
        "--preset": "m0",
        "--base": "mobilefacenet/m0",
        "--images": drawn / "photos",
        "--train": drawn / "train.csv",
        "--val": drawn / "val.csv",
        "--out": out,
        "--epochs": 3,
        "--batch": 6,
    } | {f"--{name}": value for name, value in changes.items()}
    return ["train", *(str(part) for pair in given.items() for part in pair)]


def test_the_command_writes_an_encoder_that_encodes(mien, drawn, tmp_path, default_encoder):
    code, out, err = mien(*arguments(drawn, tmp_path / "tuned"), "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["last"]["epoch"] == 3
    assert (tmp_path / "tuned" / "training.csv").read_text().count("\n") == 4
    assert "trained on BGR crops, and fed RGB as its base network is" in err
    [model] = stored_encoder(str(tmp_path / "tuned")).manifest.models
    assert (model.trained_on, model.input.channels) == ("BGR", "RGB")  # fed what the official predictor feeds
    assert "BGR crops" in model.source
    assert model.source.endswith(", on cpu")
    assert document["device"] == "cpu"
    assert (tmp_path / "tuned" / "training.png").stat().st_size > 10_000
    code, out, err = mien(
        "encode", drawn / "photos", "--encoder", tmp_path / "tuned", "--out", tmp_path / "e.parquet", "--json"
    )
    assert code == 0, err
    [encoded] = stored_encoder(str(tmp_path / "tuned")).load().encode([Photo("x", drawn / "photos" / "0-0.png")])
    assert encoded.embedding.shape == (4, 128)
    code, out, _ = mien(*arguments(drawn, tmp_path / "tuned"), "--json")  # again: nothing is left to do
    assert json.loads(out)["encoder"] == document["encoder"]


def test_a_folder_with_something_else_in_it_is_not_trained_into(mien, drawn, tmp_path, default_encoder):
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "m0.onnx").write_text("somebody's network")
    code, _, err = mien(*arguments(drawn, tmp_path / "tuned"))
    assert code == 1
    assert f"{tmp_path / 'tuned'} exists already: choose another name, or write over it with --force" in err
    assert [path.name for path in (tmp_path / "tuned").iterdir()] == ["m0.onnx"]
    assert mien(*arguments(drawn, tmp_path / "tuned"), "--force")[0] == 0
    (tmp_path / "tuned" / "checkpoint.pt").unlink()
    assert mien(*arguments(drawn, tmp_path / "tuned"))[0] == 1  # done and cleared up: nothing of a run that goes on


def test_a_lab_may_train_on_what_its_encoder_is_fed(mien, drawn, tmp_path, default_encoder):
    code, _, err = mien(*arguments(drawn, tmp_path / "tuned", channels="RGB"))
    assert code == 0, err
    assert "trained on" not in err
    [model] = stored_encoder(str(tmp_path / "tuned")).manifest.models
    assert (model.trained_on, model.input.channels) == ("RGB", "RGB")


def test_a_killed_training_ends_with_the_same_network(drawn, tmp_path, default_encoder):
    """Killed in the middle, run again: the network has the same bytes as one that was never disturbed."""

    def start(out):
        command = [sys.executable, "-m", "mien", *arguments(drawn, tmp_path / out / "tuned", epochs=12)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ)

    assert start("whole").wait(200) == 0
    killed = start("killed")
    while not (tmp_path / "killed" / "tuned" / "checkpoint.pt").exists():
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "killed" / "tuned" / "m0.onnx").exists()
    assert start("killed").wait(200) == 0
    networks = [(tmp_path / out / "tuned" / "m0.onnx").read_bytes() for out in ("whole", "killed")]
    assert networks[0] == networks[1]


@pytest.mark.parametrize(
    ("train", "val", "word"),
    [
        ("0-0.png,p,d0\nnowhere.png,q,d1\n", "0-3.png,p,d0\n", "there is no photo 'nowhere.png'"),
        ("0-0.png,p,d0\n1-0.png,q,d1\n", "2-3.png,p,d2\n", "disorder 'd2' is only in the validation table"),
        ("0-0.png,p,d0\n0-1.png,p,d0\n", "0-3.png,p,d0\n", "nothing to tell apart"),
        ("0-0.png,p,d0\nbroken.png,q,d1\n", "0-3.png,p,d0\n", "photo 'broken.png'"),
        ("0-0.png,p,d0\nwall.png,q,d1\n", "0-3.png,p,d0\n", "no face was found"),
        ("", "0-3.png,p,d0\n", "no rows"),
        ("0-0.png,p,d0\n1-0.png,q,d1\n", "", "no rows"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(mien, drawn, tmp_path, default_encoder, train, val, word):
    shutil.copytree(drawn / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "broken.png").write_bytes((drawn / "photos" / "0-0.png").read_bytes()[:500])
    Image.new("RGB", (200, 200), "gray").save(tmp_path / "photos" / "wall.png")
    for name, rows in (("train", train), ("val", val)):
        (tmp_path / f"{name}.csv").write_text("image_id,subject,label\n" + rows)
    given = {"train": tmp_path / "train.csv", "val": tmp_path / "val.csv", "images": tmp_path / "photos"}
    code, out, err = mien(*arguments(drawn, tmp_path / "tuned", **given))
    assert (code, out) == (1, "")
    assert word in err
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"base": "nowhere.onnx"}, "there is no such file"),
        ({"base": "mobilefacenet/m7"}, "is not there"),
        ({"base": "README.md/x"}, "no encoder"),
        ({"out": "a name with blanks"}, "name becomes the encoder's"),
        ({"images": "nowhere"}, "no such file or folder"),
        ({"train": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_wrong_places_are_named(mien, drawn, tmp_path, monkeypatch, default_encoder, changes, word):
    monkeypatch.chdir(tmp_path)
    code, out, err = mien(*arguments(drawn, changes.pop("out", "tuned"), **changes))
    assert (code, out) == (1, "")
    assert word in err


def test_aligned_crops_are_taken_as_they_are(photo_encoder, tmp_path, rng):
    crop = rng.integers(0, 255, (112, 112, 3), dtype=np.uint8)
    for name in ("1_rot_aligned.png", "2_rot_aligned.png"):
        Image.fromarray(crop).save(tmp_path / name)
    train, val = [Label("1", "p", "a"), Label("2", "q", "b")], [Label("2", "q", "b")]
    data = load_data(tmp_path, train, val, photo_encoder.detector, short_ids=True)
    assert (data.crops == crop).all()
    assert data.classes == ("a", "b")
    assert data.validation.class_of_row.tolist() == [1]


def test_a_photo_that_only_mien_refuses_does_not_end_a_training(photo_encoder, tmp_path):
    Image.fromarray(two_portraits()).save(tmp_path / "two.png")
    Image.fromarray(two_portraits()[:, :300]).save(tmp_path / "one.png")
    train, val = [Label("one.png", "p", "a"), Label("two.png", "q", "b")], [Label("one.png", "p", "a")]
    with pytest.raises(InvalidFileError, match=r"photo 'two\.png': 2 faces"):
        load_data(tmp_path, train, val, photo_encoder.detector)
    data = load_data(tmp_path, train, val, photo_encoder.detector, face="official")
    [line] = data.taken_as_official
    assert line.startswith("photo 'two.png' was taken as officially: 2 faces")
    assert (data.crops[1] == find_subject(two_portraits(), photo_encoder.detector, "official").crop).all()


def test_a_patient_with_two_disorders_is_learnt_from_twice(photo_encoder, tmp_path, rng):
    Image.fromarray(rng.integers(0, 255, (112, 112, 3), dtype=np.uint8)).save(tmp_path / "1.png")
    labels = [Label("1.png", "p", "b"), Label("1.png", "p", "a")]
    data = load_data(tmp_path, labels, labels[:1], photo_encoder.detector)
    assert data.train.image_of_row.tolist() == [0, 0]
    assert data.train.class_of_row.tolist() == [1, 0]


def test_one_disorder_cannot_be_trained_on():
    rows = Rows(np.array([0]), np.array([0]))
    with pytest.raises(InvalidStudyError, match="nothing to tell apart"):
        TrainingData(("a",), np.zeros((1, 112, 112, 3), np.uint8), rows, rows)


def test_the_manifest_names_what_it_was_made_from(small_network, rng, tmp_path, default_encoder):
    from mien.training.model import first_layer

    network = cut(small_network())
    layer = first_layer(network, rng.standard_normal((9, 64)).astype(np.float32))
    (tmp_path / "mine").mkdir()
    stored = write_encoder(
        tmp_path / "mine", "m0", network, layer, ARCFACE_INPUT, "BGR", detector=default_encoder, source="a test"
    )
    again = stored_encoder(str(tmp_path / "mine"))
    assert again.manifest == stored.manifest
    assert again.missing() == again.damaged() == ()
    assert again.manifest.encoder.dimensions == 6
    assert again.manifest.models[0].source == "a test"
    assert (again.manifest.models[0].trained_on, again.manifest.models[0].input.channels) == ("BGR", "RGB")


def test_the_documented_run_learns_and_loses_nothing(faces, default_encoder):
    """The command of docs/training.md, and its table."""
    root = Path(__file__).parents[2]
    command = [sys.executable, root / "scripts" / "training.py", faces]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    table = [line for line in ended.stdout.splitlines() if line.startswith("|")]
    assert "\n".join(table) in (root / "docs" / "training.md").read_text()
    before, after = ([float(cell) for cell in line.strip("|").split("|")] for line in table[2:])
    assert before[1] < 5
    assert after[1] >= 90
    assert after[2] >= before[2]

"""The settings against the published table (supp:tbl:implementation) and what the official scripts do."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest

from conftest import SHARED_DATA
from mien.encoding.alignment import grayed
from mien.training.augmentation import augmented, blended, jittered, shrunk, turned
from mien.training.cut import FeatureLayer, Norm
from mien.training.presets import PRESETS, Augmentation

torch = pytest.importorskip("torch", reason="training needs PyTorch: `make test-train` installs it")

from mien.training.model import TrainableModel, class_weights  # noqa: E402 it needs PyTorch

PUBLISHED = {  # classifier-head rate and decay, feature rate and decay, batch
    "m0": (1e-3, 5e-4, 5e-4, 5e-5, 64),
    "m1": (1e-3, 5e-4, 1e-3, 0.0, 128),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_presets_are_the_published_ones(name):
    preset = PRESETS[name]
    found = (preset.head_rate, preset.head_decay, preset.feature_rate, preset.feature_decay, preset.batch)
    assert found == PUBLISHED[name]
    assert (preset.epochs, preset.patience, preset.threshold, preset.factor, preset.least_rate) == (
        50,
        5,
        5e-4,
        0.5,
        1e-5,
    )


OFFICIAL = {  # what train_gm_arc.py and its dataset set for both models, beside the published table
    "dropout": 0.5,
    "images_per_step": 10_000,
    "least_class_weight": 0.5,
    "channels": "BGR",
    "augmentation": {
        "shrink_probability": 0.1,
        "shrink_from": 50,
        "shrink_to": 100,
        "flip_probability": 0.5,
        "brightness": 0.2,
        "contrast": 0.2,
        "saturation": 0.2,
        "hue": 0.1,
        "gray_probability": 0.1,
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_the_paper_leaves_out_is_as_in_the_official_scripts(name):
    settings = asdict(PRESETS[name])
    assert {field: settings[field] for field in OFFICIAL} == OFFICIAL
    of_the_paper = {"batch", "epochs", "patience", "threshold", "factor", "least_rate"}
    rates = {f"{part}_{kind}" for part in ("feature", "head") for kind in ("rate", "decay")}
    assert set(settings) == set(OFFICIAL) | of_the_paper | rates


@pytest.mark.parametrize(("name", "batches"), [("m0", 156), ("m1", 78)])
def test_there_are_two_steps_an_epoch_on_as_many_photos_as_gmdb_has(name, batches):
    """Of 11,128 training photos; the first step is after 10,000 of them, cut to whole batches."""
    preset = PRESETS[name]
    assert preset.batches_per_step == batches
    assert (11_128 // preset.batch) // preset.batches_per_step + 1 == 2


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_page_has_the_settings_of_the_presets(name):
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    settings = page[page.index("| | m0 | m1 |") : page.index("\n\nAll of it stands in")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in settings.splitlines()]
    cells = {what: m0 if m1 == "the same" or name == "m0" else m1 for what, m0, m1 in rows}
    preset = PRESETS[name]

    def numbers(row):
        return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", cells[row].replace(",", ""))]

    how = preset.augmentation
    assert numbers("batch") == [preset.batch]
    assert numbers("rate, weight decay of the feature layer") == [preset.feature_rate, preset.feature_decay]
    assert numbers("rate, weight decay of the head") == [preset.head_rate, preset.head_decay]
    assert numbers("epochs") == [preset.epochs]
    assert numbers("steps") == [preset.images_per_step]
    assert numbers("rates fall") == [preset.patience, preset.threshold, preset.least_rate]
    assert preset.channels in cells["channels"]
    assert numbers("varied photos") == [
        *(how.shrink_from, how.shrink_to, how.shrink_probability, how.flip_probability),
        *(how.brightness, how.contrast, how.saturation, how.hue, how.gray_probability),
    ]


def test_the_presets_agree_with_the_table_beside_the_project():
    path = SHARED_DATA.parent / "paper" / "published.json"
    if not path.exists():
        pytest.skip("the published numbers are not beside the project: ../shared/paper")
    training = json.loads(path.read_text())["encoder"]["training"]
    assert training["epochs"] == 50
    for name in ("m0", "m1"):
        preset = PRESETS[name]
        assert training[name] == {
            "batch": preset.batch,
            "head_lr": preset.head_rate,
            "head_weight_decay": preset.head_decay,
            "feature_lr": preset.feature_rate,
            "feature_weight_decay": preset.feature_decay,
        }


def model_of(name, classes=3):
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    layer = FeatureLayer(np.ones((4, 5), np.float32), zeros, Norm(ones, zeros, zeros, ones, 1e-5))
    return TrainableModel.begin(layer, classes, np.ones(classes), PRESETS[name])


@pytest.mark.parametrize("name", PUBLISHED)
def test_features_and_head_have_their_own_rates_and_decays(name):
    head_rate, head_decay, feature_rate, feature_decay, _ = PUBLISHED[name]
    model = model_of(name)
    assert isinstance(model.optimizer, torch.optim.Adam)
    features, head = model.optimizer.param_groups
    assert (features["lr"], features["weight_decay"]) == (feature_rate, feature_decay)
    assert (head["lr"], head["weight_decay"]) == (head_rate, head_decay)
    assert {id(p) for p in features["params"]} == {id(p) for p in model.features.parameters()}
    assert {id(p) for p in head["params"]} == {id(p) for p in model.head.parameters()}
    assert model.head[0].p == 0.5


def test_rates_fall_by_half_after_more_than_five_steps_without_a_better_accuracy():
    model = model_of("m0")

    def rates():
        return tuple(group["lr"] for group in model.optimizer.param_groups)

    for accuracy in (50.0, 60.0, *[60.02] * 5):  # 60.02 is not better than 60 by the threshold of 0.05 %
        model.scheduler.step(accuracy)
        assert rates() == (5e-4, 1e-3)
    model.scheduler.step(60.02)
    assert rates() == (2.5e-4, 5e-4)
    for _ in range(200):
        model.scheduler.step(10.0)
    assert rates() == (1e-5, 1e-5)


def test_class_weights_stand_in_the_order_of_the_classes():
    """Officially they stand in the order of frequency, while classes are sorted by id: here each gets its own."""
    class_of_row = np.repeat([0, 1, 2, 3], [40, 10, 80, 20])
    found = class_weights(class_of_row, 4, 0.5)
    assert found.tolist() == [0.5 + 0.5 * 10 / count for count in (40, 10, 80, 20)]
    assert found.max() == 1
    assert found.min() > 0.5


def test_the_loss_weighs_classes():
    model = model_of("m0", classes=2)
    model.loss.weight = torch.tensor([1.0, 3.0])
    scores = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    single = [float(torch.nn.functional.cross_entropy(scores[:1], torch.tensor([one]))) for one in (0, 1)]
    both = float(model.loss(scores, torch.tensor([0, 1])))
    assert both == pytest.approx((single[0] + 3 * single[1]) / 4)


@pytest.fixture
def crop(rng):
    small = rng.integers(30, 220, (14, 14, 3), dtype=np.uint8)
    return cv2.resize(small, (112, 112), interpolation=cv2.INTER_CUBIC)


def test_each_variation_comes_as_often_as_published(crop, monkeypatch):
    """Ten thousand times: counted where they happen."""
    from mien.training import augmentation

    seen = {"shrunk": [], "grayed": 0, "flipped": 0}
    marked = crop.copy()
    marked[:, :56] = 0
    monkeypatch.setattr(augmentation, "shrunk", lambda picture, side: seen["shrunk"].append(side) or picture)
    monkeypatch.setattr(augmentation, "jittered", lambda picture, how, rng: picture)
    for number in range(10_000):
        found = augmented(marked, Augmentation(), rng=np.random.default_rng(number))
        seen["flipped"] += bool(found[:, 56:].max() == 0)
        seen["grayed"] += bool((found[..., 0] == found[..., 1]).all() and (found[..., 1] == found[..., 2]).all())
    assert len(seen["shrunk"]) == pytest.approx(1000, abs=120)
    assert min(seen["shrunk"]) == 50
    assert max(seen["shrunk"]) == 99
    assert seen["flipped"] == pytest.approx(5000, abs=200)
    assert seen["grayed"] == pytest.approx(1000, abs=120)


def test_colours_are_always_jittered_within_their_range(crop):
    changed = [jittered(crop, Augmentation(), rng=np.random.default_rng(number)) for number in range(300)]
    assert all((other != crop).any() for other in changed)
    bright = [other.mean() / crop.mean() for other in changed]
    assert 0.7 < min(bright) < 0.85
    assert 1.1 < max(bright) < 1.3
    still = Augmentation(brightness=0, contrast=0, saturation=0, hue=0)
    back = jittered(crop, still, rng=np.random.default_rng(1))
    assert np.abs(back.astype(int) - crop).max() <= 1  # rounding


def test_a_variation_is_a_matter_of_its_generator(crop):
    one, other = (augmented(crop, Augmentation(), rng=np.random.default_rng([7, 3, 1])) for _ in range(2))
    assert (one == other).all()
    assert one.shape == crop.shape
    assert one.dtype == np.uint8


def test_the_steps_do_what_they_say(crop):
    assert (blended(crop, np.zeros(3), 0.5) == np.rint(crop / 2)).all()
    gray = grayed(crop)
    assert (gray == cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY)[..., None]).all()
    assert shrunk(crop, 50).shape == crop.shape
    assert np.abs(shrunk(crop, 112).astype(int) - crop).max() == 0
    red = np.zeros((112, 112, 3), np.uint8)
    red[..., 0] = 255
    green = turned(red, 1 / 3)
    assert green[0, 0].tolist() == [0, 255, 0]

"""Fine-tunes the default encoder on a folder of faces, FOLDER/person/photo_N.jpg; prints the table of docs/training.md.

Persons are the classes: three photos of each are trained on, the fourth is looked at, the fifth is held out.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mien.core.arrays import Float32s, Ints
from mien.core.roster import Label
from mien.encoding.store import DEFAULT, stored_encoder
from mien.training.crops import load_data
from mien.training.cut import FeatureLayer, cut
from mien.training.model import first_layer
from mien.training.presets import PRESETS
from mien.training.run import Run, Trunk, accuracy, run_training

EPOCHS, BATCH, SEED = 12, 16, 11  # batches of 64 would be two an epoch


def labels_of(folder: Path, *photos: int) -> list[Label]:
    """These photos of every person."""
    persons = sorted(path.name for path in folder.iterdir() if path.is_dir())
    return [Label(f"{person}/photo_{photo}.jpg", f"{person}-{photo}", person) for person in persons for photo in photos]


def rank_1(layer: FeatureLayer, known: tuple[Float32s, Ints], asked: tuple[Float32s, Ints]) -> float:
    """How often the nearest known photo shows the same person, in per cent."""
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (layer(known[0]), layer(asked[0]))]
    nearest = known[1][(units[1] @ units[0].T).argmax(axis=1)]
    return float(100 * (nearest == asked[1]).mean())


def main() -> None:
    """Trains and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    started = time.perf_counter()
    stored = stored_encoder(DEFAULT)
    model, network = stored.manifest.models[0], cut(stored.content("m0"))
    detector = stored.load().detector
    train = labels_of(folder, 0, 1, 2)
    data = load_data(folder, train, labels_of(folder, 3), detector, face="main")
    held_out = load_data(folder, train, labels_of(folder, 4), detector, face="main")
    preset = replace(PRESETS["m0"], epochs=EPOCHS, batch=BATCH, channels=model.input.channels)
    run = Run(data, network, model.input, preset, SEED)
    untrained = replace(run, preset=replace(run.preset, epochs=0))
    with Trunk(replace(run, data=held_out)) as trunk:
        known = trunk.activations(held_out.train.image_of_row), held_out.train.class_of_row
        asked = trunk.activations(held_out.validation.image_of_row), held_out.validation.class_of_row
    print("| epochs | head, held-out top-1 (%) | retrieval rank-1 (%) |\n|---|---|---|")
    for each in (untrained, run):
        with TemporaryDirectory() as out:
            done = run_training(each, Path(out))
        layer = done.layer if each is run else first_layer(network, known[0])
        head = accuracy(done.model.scores(asked[0]), asked[1], top=1)
        print(f"| {each.preset.epochs} | {head:.1f} | {rank_1(layer, known, asked):.1f} |")
    print(f"\n{len(data.classes)} persons, {time.perf_counter() - started:.0f} seconds in all")


if __name__ == "__main__":
    main()

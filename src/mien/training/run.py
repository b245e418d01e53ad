"""Runs a training: epochs, their log, and a checkpoint after each, from which an interrupted run goes on.

Everything random is drawn from (seed, epoch, row), so that threads and interruptions do not change the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from mien.core.arrays import Float32s, Ints
from mien.encoding.manifest import Scaling
from mien.encoding.network import Device, Network
from mien.encoding.photo import Pixels
from mien.encoding.store import sha256_of, write_whole
from mien.errors import InvalidFileError
from mien.evaluation.outcomes import mean_per_disorder, true_ranks
from mien.training.augmentation import augmented
from mien.training.crops import Rows, TrainingData
from mien.training.cut import CutNetwork, FeatureLayer
from mien.training.model import TrainableModel, class_weights, first_layer
from mien.training.presets import Preset

CHECKPOINT = "checkpoint.pt"
CROPS_PER_RUN = 8  # of the trunk: fixed, so that results do not depend on the number of cores
BATCHES_AHEAD = 2  # prepared while the model learns from another one
ROWS_FOR_STATISTICS = 1024  # of the batch norm, where the base network has none


class EpochLine(NamedTuple):
    """One line of the log. Accuracies are percentages: means over classes, of validation images."""

    epoch: int
    loss: float  # of the batches, as they came
    validation_top1: float
    validation_top5: float
    feature_rate: float  # before the step that ends the epoch
    head_rate: float
    steps: int  # of the scheduler so far, those within epochs too


class Trained(NamedTuple):
    """The result of a run: the trained layer, the model that it is part of, and the log."""

    layer: FeatureLayer
    model: TrainableModel
    log: list[EpochLine]


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that the result of a training depends on."""

    data: TrainingData
    network: CutNetwork
    scaling: Scaling
    preset: Preset
    seed: int
    device: Device = "cpu"

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must share with this run, so that the run can go on from it. Hashes all crops, once."""
        data = self.data
        content = b"".join(part.tobytes() for part in (data.crops, *data.train, *data.validation))
        return {
            "preset": asdict(self.preset),
            "seed": self.seed,
            "base": sha256_of(self.network.trunk + self.network.weight.tobytes()),
            "input": [*self.scaling.mean, *self.scaling.deviation],
            "data": sha256_of(content + repr(data.classes).encode()),
            "device": self.device,
        }


def run_training(run: Run, folder: Path, progress: Callable[[EpochLine], None] = lambda _line: None) -> Trained:
    """Trains the epochs that the checkpoint in this folder lacks. `progress` gets the whole log, line by line."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it, CUDA has no deterministic products
    torch.set_num_threads(1)  # the layers are small, and sums in a fixed order are reproducible
    torch.use_deterministic_algorithms(mode=True)
    data, preset = run.data, run.preset
    with Trunk(run) as trunk:
        validation, truth = trunk.activations(data.validation.image_of_row), data.validation.class_of_row
        some = data.train.image_of_row[:: max(1, len(data.train.image_of_row) // ROWS_FOR_STATISTICS)]
        layer = first_layer(run.network, trunk.activations(some) if run.network.norm is None else validation)
        torch.manual_seed(run.seed)
        weights = class_weights(data.train.class_of_row, len(data.classes), preset.least_class_weight)
        model = TrainableModel.begin(layer, len(data.classes), weights, preset, run.device)
        log = _resumed(folder / CHECKPOINT, run, model)
        for line in log:
            progress(line)
        for epoch in range(len(log) + 1, preset.epochs + 1):
            torch.manual_seed(int(np.random.default_rng([run.seed, epoch, 0]).integers(2**31)))  # for the dropout
            losses = []
            for number, batch in enumerate(trunk.batches(epoch), start=1):
                losses.append(model.learn(*batch))
                if number % preset.batches_per_step == 0:
                    model.scheduler.step(accuracy(model.scores(validation), truth, top=5))
            feature_rate, head_rate = (group["lr"] for group in model.optimizer.param_groups)
            scores = model.scores(validation)
            top1, top5 = (accuracy(scores, truth, top=top) for top in (1, 5))
            model.scheduler.step(top5)
            steps = model.scheduler.last_epoch
            log.append(EpochLine(epoch, float(np.mean(losses)), top1, top5, feature_rate, head_rate, steps))
            _save(folder / CHECKPOINT, run, model, log)
            progress(log[-1])
    return Trained(model.layer, model, log)


def accuracy(scores: Float32s, class_of_row: Ints, *, top: int) -> float:
    """Mean over classes of the share of images whose class is among the first, in per cent; the true one loses ties.

    >>> accuracy(np.array([[3.0, 1.0], [3.0, 1.0], [0.0, 1.0]], np.float32), np.array([0, 1, 1]), top=1)
    75.0
    """
    hits = (true_ranks(-scores, class_of_row) <= top).astype(np.float64)
    return 100 * mean_per_disorder(hits, class_of_row)


class Trunk:
    """The frozen network on all cores."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.network = Network(run.network.trunk, "the base network", [run.network.weight.shape[1]], device=run.device)
        self.scaling = run.scaling.model_copy(update={"channels": "RGB"})  # crops come as the preset orders them
        self.pool = ThreadPoolExecutor(os.cpu_count())

    def __enter__(self) -> Trunk:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def activations(self, images: Ints) -> Float32s:
        """The activations of crops, without augmentation."""
        return _gathered(self._started(images.tolist(), self._crop))

    def _crop(self, image: int) -> Pixels:
        """The crop with its channels in the order of the preset, as in the official scripts."""
        crop: Pixels = self.run.data.crops[image]
        return crop if self.run.preset.channels == "RGB" else np.ascontiguousarray(crop[..., ::-1])

    def batches(self, epoch: int) -> Iterator[tuple[Float32s, Ints]]:
        """Activations and classes of the training rows in random order, each crop augmented."""
        rows, size = self.run.data.train, self.run.preset.batch
        order = np.random.default_rng([self.run.seed, epoch]).permutation(len(rows.image_of_row))
        # an incomplete last batch is left out, as officially: a batch norm needs many images
        batches = [order[start : start + size] for start in range(0, max(1, len(order) - size + 1), size)]
        started: deque[tuple[list[Future[Float32s]], Ints]] = deque()
        for batch in [*batches, *[None] * BATCHES_AHEAD]:
            if batch is not None:
                started.append((self._augmented(rows, batch, epoch), rows.class_of_row[batch]))
            if len(started) > BATCHES_AHEAD or (batch is None and started):
                futures, class_of_row = started.popleft()
                yield _gathered(futures), class_of_row

    def _augmented(self, rows: Rows, batch: Ints, epoch: int) -> list[Future[Float32s]]:
        how, seed = self.run.preset.augmentation, self.run.seed

        def vary(row: int) -> Pixels:
            return augmented(self._crop(rows.image_of_row[row]), how, rng=np.random.default_rng([seed, epoch, row + 1]))

        return self._started(batch.tolist(), vary)

    def _started(self, items: Sequence[Any], crop_of: Callable[[Any], Pixels]) -> list[Future[Float32s]]:
        def job(part: Sequence[Any]) -> Float32s:
            return self.network.run(self.scaling.scaled(np.stack([crop_of(item) for item in part])))[0]

        parts = [items[start : start + CROPS_PER_RUN] for start in range(0, len(items), CROPS_PER_RUN)]
        return [self.pool.submit(job, part) for part in parts]


def _gathered(futures: Sequence[Future[Float32s]]) -> Float32s:
    return np.concatenate([future.result() for future in futures])


def _save(path: Path, run: Run, model: TrainableModel, log: Sequence[EpochLine]) -> None:
    buffer = BytesIO()
    torch.save({"identity": run.identity, "state": model.state(), "log": [list(line) for line in log]}, buffer)
    write_whole(path, buffer.getvalue())


def _resumed(path: Path, run: Run, model: TrainableModel) -> list[EpochLine]:
    """Restores the model from a checkpoint, and returns the log of its epochs."""
    if not path.exists():
        return []
    damaged = InvalidFileError(path, ["it is damaged: delete it, and the run starts anew"])
    try:
        saved: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")  # nothing in the file is run
        log = [EpochLine(*line) for line in saved["log"]]
        known = {"device": "cpu", **saved["identity"]}  # those of older versions do not name it
    except Exception as error:  # torch raises many kinds
        raise damaged from error
    if differ := [name for name, value in run.identity.items() if known.get(name) != value]:
        what = f"it belongs to another run, with another {', another '.join(differ)}"
        raise InvalidFileError(path, [f"{what}: give another --out"])
    model.restore(saved["state"])
    return log

"""The settings of training: the published ones (supp:tbl:implementation), else those of the official scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Augmentation:
    """How training photos are varied, each step with its probability."""

    shrink_probability: float = 0.1  # the crop is made this many pixels wide, and enlarged again
    shrink_from: int = 50
    shrink_to: int = 100
    flip_probability: float = 0.5
    brightness: float = 0.2  # colours always vary, by up to this share
    contrast: float = 0.2
    saturation: float = 0.2
    hue: float = 0.1  # of the whole circle
    gray_probability: float = 0.1


@dataclass(frozen=True)
class Preset:
    """How one model of the ensemble is trained."""

    batch: int
    feature_rate: float
    feature_decay: float
    head_rate: float = 1e-3
    head_decay: float = 5e-4
    epochs: int = 50  # no early stop, and the last epoch is taken
    dropout: float = 0.5  # before the head
    images_per_step: int = 10_000  # of the scheduler, rounded down to whole batches; it also steps after each epoch
    patience: int = 5  # steps without a better validation accuracy, until rates fall
    threshold: float = 5e-4  # what counts as better, relative
    factor: float = 0.5  # by which rates fall
    least_rate: float = 1e-5
    least_class_weight: float = 0.5
    channels: Literal["RGB", "BGR"] = "BGR"  # of crops in training: the official scripts read BGR and do not convert it
    augmentation: Augmentation = Augmentation()

    @property
    def batches_per_step(self) -> int:
        """After how many batches of an epoch the scheduler makes a step."""
        return max(1, self.images_per_step // self.batch)


PRESETS = {
    "m0": Preset(batch=64, feature_rate=5e-4, feature_decay=5e-5),
    "m1": Preset(batch=128, feature_rate=1e-3, feature_decay=0.0),
}

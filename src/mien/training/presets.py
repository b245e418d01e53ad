"""The published settings (supp:tbl:implementation), and those of the official scripts that the paper leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Augmentation:
    """How training photos are varied, each step with its probability."""

    shrink_probability: float = 0.1  # to a side from and up to these pixels, and back
    shrink_from: int = 50
    shrink_to: int = 100
    flip_probability: float = 0.5
    brightness: float = 0.2  # the jitter of colours: up to this share more or less, always
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
    epochs: int = 50  # all of them: no early stop, no choice among them
    dropout: float = 0.5  # before the head
    images_per_step: int = 10_000  # of an epoch, cut to whole batches; the end of an epoch is a step as well
    patience: int = 5  # steps without a better validation accuracy before rates fall
    threshold: float = 5e-4  # what counts as better, relative
    factor: float = 0.5  # by which rates fall
    least_rate: float = 1e-5
    least_class_weight: float = 0.5
    channels: Literal["RGB", "BGR"] = "BGR"  # of a crop in training: official scripts read it so, and do not swap it
    augmentation: Augmentation = Augmentation()

    @property
    def batches_per_step(self) -> int:
        """After how many batches of an epoch the scheduler makes a step."""
        return max(1, self.images_per_step // self.batch)


PRESETS = {
    "m0": Preset(batch=64, feature_rate=5e-4, feature_decay=5e-5),
    "m1": Preset(batch=128, feature_rate=1e-3, feature_decay=0.0),
}

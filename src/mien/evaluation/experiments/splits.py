"""Table 1: how many images, patients and disorders each part holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mien.core.roster import Label
from mien.evaluation.experiment_context import ExperimentContext, Tables


class SplitLine(NamedTuple):
    """Means over folds, with standard deviations."""

    part: str
    images: float
    images_sd: float
    patients: float
    patients_sd: float
    disorders: float
    disorders_sd: float
    images_per_patient: float


def run(context: ExperimentContext) -> Tables:
    """Counts as the paper does: where two parts are taken together they add up, though two patients are in both."""
    study = context.study
    frequent, rare = ([fold[part] for fold in study.folds] for part in (0, 1))
    everything = {label for fold in study.folds for split in fold for part in split for label in part}
    rare_in_all = sorted({label for split in rare for part in split for label in part})
    frequent_test = sorted({label for split in frequent for label in split.test})
    multi = [count(multi_image(labels)) for labels in (frequent_test, rare_in_all)]  # tested in some fold or not
    galleries = [[count(split.gallery) for split in part] for part in (frequent, rare)]
    unified = [tuple(map(sum, zip(*both, strict=True))) for both in zip(*galleries, strict=True)]
    lines = [
        _line("total", [count(everything)]),
        _line("training", [count(study.train)]),
        _line("validation", [count(study.validation)]),
        _line("gallery freq", galleries[0]),
        _line("gallery rare", galleries[1]),
        _line("gallery unified", unified),
        _line("rare in all", [count(rare_in_all)]),
        _line("test freq", [count(split.test) for split in frequent]),
        _line("test rare", [count(split.test) for split in rare]),
        _line("test multi", [tuple(map(sum, zip(*multi, strict=True)))]),
        _line("test multi-freq", [count(multi_image(split.test)) for split in frequent]),
        _line("test multi-rare", [count(multi_image(split.test)) for split in rare]),
        _line("rare multi in all", multi[1:]),
    ]
    return {"splits": [line for line in lines if line.images]}


def count(labels: Iterable[Label]) -> tuple[int, ...]:
    """Distinct images, patients and disorders."""
    columns = list(zip(*labels, strict=True)) or [()] * 3
    return tuple(len(set(column)) for column in columns)


def multi_image(labels: Sequence[Label]) -> list[Label]:
    """The labels of patients with more than one image of their disorder."""
    images: dict[tuple[str, str], int] = {}
    for label in labels:
        images[label[1:]] = images.get(label[1:], 0) + 1
    return [label for label in labels if images[label[1:]] > 1]


def _line(part: str, counts: Sequence[tuple[int, ...]]) -> SplitLine:
    images, patients, disorders = np.array(counts).T
    figures = [float(f(column)) for column in (images, patients, disorders) for f in (np.mean, np.std)]
    figures.append(float(images.sum() / max(patients.sum(), 1)))
    return SplitLine(part, *figures)

"""Loads labelled photos as aligned crops, and finds whatever could stop a training before it starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mien.core.arrays import Ints
from mien.core.roster import Label
from mien.encoding.alignment import CROP_SIDE
from mien.encoding.detection import Detector
from mien.encoding.folder import find_photos
from mien.encoding.photo import Pixels
from mien.encoding.photo_encoder import Photo, RefusedPhoto, crops_of
from mien.encoding.subject import Choice
from mien.errors import InvalidFileError, InvalidStudyError, shown
from mien.progress import Progress, silent


class Rows(NamedTuple):
    """The rows of a table: an image of a patient with two disorders has two."""

    image_of_row: Ints
    class_of_row: Ints


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Crops, and which of them are for training and which for validation."""

    classes: tuple[str, ...]  # disorder ids, sorted: a class is its place here
    crops: Pixels  # (images, 112, 112, 3)
    train: Rows
    validation: Rows
    taken_as_official: tuple[str, ...] = ()  # photos that would have been refused, and why

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise InvalidStudyError(f"{len(self.classes)} disorders to train on: there is nothing to tell apart")


def load_data(
    folder: Path,
    train: Sequence[Label],
    validation: Sequence[Label],
    detector: Detector,
    *,
    short_ids: bool = False,
    face: Choice = None,
    follow_links: bool = False,
    say: Callable[[str], object] = warnings.warn,
    progress: Progress = silent,
) -> TrainingData:
    """Joins tables and photos by image id. A picture of 112 x 112 is taken as an aligned crop; others are aligned."""
    classes = tuple(sorted({label.disorder_id for label in train}))
    unknown = sorted({label.disorder_id for label in validation} - set(classes))
    tables = {"training": train, "validation": validation}
    problems = [f"the {name} table has no rows" for name, rows in tables.items() if not rows]
    problems += [
        f"disorder {shown(one)} is only in the validation table: take it out, or train on it" for one in unknown
    ]
    if problems:
        raise InvalidFileError("tables", problems)
    image_ids = list(dict.fromkeys(label.image_id for label in (*train, *validation)))
    paths = _paths(folder, image_ids, short_ids=short_ids, follow_links=follow_links, say=say)
    image_of_id = {image_id: image for image, image_id in enumerate(image_ids)}
    class_of_id = {disorder_id: place for place, disorder_id in enumerate(classes)}

    def rows(labels: Sequence[Label]) -> Rows:
        images = [image_of_id[label.image_id] for label in labels]
        return Rows(np.array(images), np.array([class_of_id[label.disorder_id] for label in labels]))

    crops = np.empty((len(paths), CROP_SIDE, CROP_SIDE, 3), np.uint8)
    data = TrainingData(classes, crops, rows(train), rows(validation))
    problems, taken = [], []
    photos = [Photo(image_id, path, face) for image_id, path in zip(image_ids, paths, strict=True)]
    for image, (image_id, crop) in enumerate(zip(image_ids, crops_of(photos, lambda: detector), strict=True)):
        if isinstance(crop, RefusedPhoto):
            choice = " with --face main, the most prominent" if crop.boxes else ""
            problems.append(f"photo {shown(image_id)}: {crop.reason}{choice}")
        else:
            crops[image], refusal = crop
            taken += [] if refusal is None else [f"photo {shown(image_id)} was taken as officially: {refusal}"]
        progress(image + 1, len(image_ids))
    if problems:
        raise InvalidFileError(folder, problems, advice="mend these, or take them out of the tables")
    return replace(data, taken_as_official=tuple(taken))


def _paths(
    folder: Path, image_ids: Collection[str], *, short_ids: bool, follow_links: bool, say: Callable[[str], object]
) -> list[Path]:
    found = find_photos([folder], short_ids=short_ids, wanted=set(image_ids), follow_links=follow_links, say=say)
    if missing := [image_id for image_id in image_ids if image_id not in found]:
        advice = "" if short_ids else "ids without suffix and folder, as GMDB's, need --short-ids"
        raise InvalidFileError(folder, [f"there is no photo {shown(image_id)}" for image_id in missing], advice=advice)
    return [found[image_id] for image_id in image_ids]

"""Composites, the mean faces of disorders: they change in steps of whole blocks of patients, so that none shows one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mien.core.arrays import Float64s


class Block(NamedTuple):
    """Patients who are in a composite together, or not at all."""

    disorder_id: str
    patient_ids: list[str]


def mean_face(crops: Iterable[npt.NDArray[np.uint8]], patient_of_crop: Sequence[Hashable]) -> Float64s:
    """The mean over patients of the means over each patient's crops.

    >>> crops = np.array([0, 10, 100], np.uint8).reshape(3, 1, 1, 1)
    >>> mean_face(crops, ["p", "p", "q"]).item()
    52.5
    """
    crops_of = Counter(patient_of_crop)
    pairs = zip(crops, patient_of_crop, strict=True)
    total: Float64s = reduce(np.add, (crop / crops_of[patient] for crop, patient in pairs))
    return total / len(crops_of)


def whole_blocks(waiting: Mapping[str, Collection[str]], size: int) -> list[Block]:
    """As many blocks as can be made of the patients of each disorder that wait for one; nobody is in two.

    Patients follow each other by a hash of their ids, so that blocks do not tell in which order they came, and patients
    who are brought in again, into a gallery made anew, form the same blocks.
    """
    blocks: list[Block] = []
    taken: set[str] = set()
    for disorder_id in sorted(waiting):
        free = sorted(set(waiting[disorder_id]) - taken, key=lambda patient_id: sha256(patient_id.encode()).digest())
        whole = len(free) - len(free) % size
        blocks += [Block(disorder_id, free[start : start + size]) for start in range(0, whole, size)]
        taken.update(free[:whole])
    return blocks

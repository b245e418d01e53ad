"""What a score is: one function of the evidence for a disorder, and all that has to be known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import NamedTuple, get_args
from zlib import crc32

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.centroids import CentroidKind
from mien.errors import InvalidMethodError, naming_the_score

EVIDENCE_DISTANCES = ("nearest", "nearest_mean", "centroid")
TRIED = np.linspace(0, 2, 9)  # distances that a score is tried with
TRIED_COUNTS = np.array([1, 2, 3, 5, 10, 30, 100, 300, 1000])  # images of a disorder
IMAGES, PHOTOS = np.array([[1], [4], [300]]), np.array([[1], [3], [2]])  # beside tried distances


class Evidence(NamedTuple):
    """What is known of queries and disorders, in arrays that broadcast to (queries, disorders).

    One more axis may stand in front: lower and upper bounds of the distances.
    """

    nearest: Floats  # distance to the nearest image of the disorder
    nearest_mean: Floats  # mean distance to its k nearest images, k as the score says
    centroid: Floats  # distance to its centroid
    gallery_images: Ints  # of the disorder, without those of the query's own patient
    gallery_patients: Ints
    photos: Ints  # of the query


@dataclass(frozen=True)
class Parameter:
    """A number that a score takes, by its name in options and answers."""

    name: str
    default: float
    low: float
    high: float
    help: str
    keyword: str = ""  # what the score's functions call it: by default the name, which must be an identifier then
    above_low: bool = False  # whether `low` itself is outside

    def __post_init__(self) -> None:
        object.__setattr__(self, "keyword", self.keyword or self.name)
        if not self.keyword.isidentifier() or iskeyword(self.keyword):
            raise InvalidMethodError(f"parameter {self.name!r} is no Python name: give one as keyword=...")
        self.check(self.default)

    def check(self, value: float) -> None:
        """Refuses a value outside of the range."""
        if not isinstance(value, int | float | np.number):
            raise InvalidMethodError(f"{self.name} is {value!r}: it must be a number")
        if not (self.low <= value <= self.high) or (self.above_low and value == self.low):
            least = f"above {self.low:g}" if self.above_low else f"{self.low:g} or more"
            raise InvalidMethodError(f"{self.name} is {value}: it must be {least} and at most {self.high:g}")


@dataclass(frozen=True, repr=False)
class Score:
    """How a disorder is scored. `combine` gets evidence and the parameters by keyword, and gives distances.

    `combine` works element by element and must not fall when a distance rises. Then its value for lower bounds of the
    distances is a lower bound, and ranking needs to know nothing else about it.
    `neighbours` gets numbers of images and the parameters by keyword, and says how many of a disorder's nearest images
    `nearest_mean` is taken of: at least one, and of more images never fewer.
    Both are tried out when a score is made, and when a method has other parameters.

    >>> import numpy as np
    >>> Score("farther", lambda evidence: -evidence.nearest)
    Traceback (most recent call last):
    ...
    mien.errors.InvalidMethodError: score 'farther' falls when the distance 'nearest' rises: ...
    """

    name: str
    combine: Callable[..., Floats]
    parameters: tuple[Parameter, ...] = ()
    centroid: CentroidKind | None = "patient"  # None: `combine` looks at no centroid
    neighbours: Callable[..., Ints] | None = None  # None: only the nearest image counts

    def __post_init__(self) -> None:
        if not isinstance(self.parameters, tuple) or not all(isinstance(each, Parameter) for each in self.parameters):
            raise InvalidMethodError(f"score {self.name!r}: parameters is a tuple, like (Parameter(...),)")
        if len(set(self.parameter_names)) < len(self.parameters):
            raise InvalidMethodError(f"score {self.name!r}: two parameters have one name")
        if self.centroid not in (None, *get_args(CentroidKind)):
            raise InvalidMethodError(
                f"score {self.name!r}: centroid is {self.centroid!r}, not 'patient', 'image' or None"
            )
        self.try_out({parameter.keyword: parameter.default for parameter in self.parameters})

    def counted(self, images: Ints, arguments: Mapping[str, float]) -> Floats:
        """How many nearest images count of disorders that have so many; more than all are all."""
        if self.neighbours is None:
            return np.ones(len(images))
        with naming_the_score(self.name):
            found = np.asarray(self.neighbours(np.broadcast_to(images, images.shape), **arguments), float)
        if found.shape != images.shape or not ((found >= 1) & (found == np.floor(found))).all():
            raise InvalidMethodError(
                f"score {self.name!r}: neighbours must give a whole number, at least 1, for each number of images"
            )
        if (np.diff(found[np.argsort(images, kind="stable")]) < 0).any():
            raise InvalidMethodError(f"score {self.name!r}: neighbours must not fall when there are more images")
        return found

    def try_out(self, arguments: Mapping[str, float]) -> int:
        """Refuses a score that breaks the rules with these parameters, as far as some evidence shows it.

        Gives a checksum of what it made of this evidence: that of an edited score is another.
        """
        evidence = _tried_evidence(centroid=self.centroid is not None)
        parts = np.s_[..., :1, :1], np.s_[..., 1:2, 2:5], np.s_[..., -1:, -1:]
        with naming_the_score(self.name):
            found = np.asarray(self.combine(evidence, **arguments), float)
            alone = [self.combine(Evidence._make(array[some] for array in evidence), **arguments) for some in parts]
        if found.shape != evidence.nearest.shape or not np.isfinite(found).all():
            raise InvalidMethodError(f"score {self.name!r} gives no number for every query and disorder")
        for varied, distances in zip(EVIDENCE_DISTANCES, found, strict=False):
            if (np.diff(distances) < 0).any():
                raise InvalidMethodError(
                    f"score {self.name!r} falls when the distance {varied!r} rises: it must not, smaller is closer"
                )
        if not all(np.allclose(found[some], of_some, atol=1e-9) for some, of_some in zip(parts, alone, strict=True)):
            raise InvalidMethodError(
                f"score {self.name!r} looks at other queries or disorders, or at chance: combine sees one by one"
            )
        counted = self.counted(TRIED_COUNTS, arguments)
        one_by_one = [self.counted(one, arguments) for one in np.split(TRIED_COUNTS, len(TRIED_COUNTS))]
        if (np.concatenate(one_by_one) != counted).any():
            raise InvalidMethodError(f"score {self.name!r}: neighbours looks at other disorders, or at chance")
        values = (np.concatenate([counted, found.ravel()]) + 0.0).tolist()  # no zero with a sign
        return crc32(" ".join(f"{value:.6g}" for value in values).encode())

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What its parameters are called in options and answers."""
        return tuple(parameter.name for parameter in self.parameters)

    def __repr__(self) -> str:
        return f"<Score {self.name}>"


def _tried_evidence(*, centroid: bool) -> Evidence:
    """Evidence (varied distance, other evidence, tried distance) in which one distance after the other varies."""
    others, tried = np.repeat([[0.2], [0.7], [1.1]], len(TRIED), axis=1), np.tile(TRIED, (3, 1))
    varied = EVIDENCE_DISTANCES if centroid else EVIDENCE_DISTANCES[:2]
    given = {name: np.stack([tried if name == each else others for each in varied]) for name in EVIDENCE_DISTANCES}
    if not centroid:
        given["centroid"] = np.full_like(given["nearest"], np.nan)  # it must not be looked at
    shape = given["nearest"].shape
    return Evidence._make(
        np.broadcast_to(array, shape)  # cannot be written to
        for array in (*given.values(), IMAGES, (IMAGES + 1) // 2, PHOTOS)
    )

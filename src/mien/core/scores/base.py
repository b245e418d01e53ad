"""What a score is: one function of the evidence for a disorder, and all that has to be known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mien.core.arrays import Floats, Ints
from mien.core.errors import InvalidMethodError
from mien.core.index import CentroidKind


class Evidence(NamedTuple):
    """What is known of queries and disorders, in arrays that broadcast to (queries, disorders)."""

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
    keyword: str = ""  # in Python, where the name is no identifier; by default the name
    above_low: bool = False  # whether `low` itself is outside

    @property
    def argument(self) -> str:
        """What the score's functions call it."""
        return self.keyword or self.name

    def check(self, value: float) -> None:
        """Refuses a value outside of the range."""
        if not (self.low <= value <= self.high) or (self.above_low and value == self.low):
            least = f"above {self.low:g}" if self.above_low else f"{self.low:g} or more"
            raise InvalidMethodError(f"{self.name} is {value}: it must be {least} and at most {self.high:g}")


def one_neighbour(images_of_disorder: Ints, **_: float) -> Ints:
    """Only the nearest image counts."""
    return np.ones_like(images_of_disorder)


@dataclass(frozen=True, repr=False)
class Score:
    """How a disorder is scored. `combine` gets evidence and the parameters by keyword, and gives distances.

    `combine` works element by element and must not fall when a distance rises. Then its value for lower bounds of the
    distances is a lower bound, and ranking needs to know nothing else about it. It is tried out when a score is made.
    `neighbours` says how many of a disorder's nearest images `nearest_mean` is taken of, at least one.

    >>> import numpy as np
    >>> Score("farther", lambda evidence: -evidence.nearest)
    Traceback (most recent call last):
    ...
    mien.core.errors.InvalidMethodError: score 'farther' falls when the distance 'nearest' rises: ...
    """

    name: str
    combine: Callable[..., Floats]
    parameters: tuple[Parameter, ...] = ()
    centroid: CentroidKind | None = "patient"  # None: `combine` looks at no centroid
    neighbours: Callable[..., Ints] = one_neighbour

    def __post_init__(self) -> None:
        arguments = {parameter.argument: parameter.default for parameter in self.parameters}
        for parameter in self.parameters:
            parameter.check(parameter.default)
        distances, unseen = np.linspace(0, 2, 9), {} if self.centroid else {"centroid": np.full(9, np.nan)}
        for varied in ("nearest", "nearest_mean", "centroid")[: 3 if self.centroid else 2]:
            for other, images, photos in ((0.2, 1, 1), (0.7, 4, 3), (1.1, 300, 2)):
                given: dict[str, Any] = dict.fromkeys(("nearest", "nearest_mean", "centroid"), np.full(9, other))
                given |= {"gallery_images": np.array([images]), "gallery_patients": np.array([(images + 1) // 2])}
                evidence = Evidence(**(given | unseen | {varied: distances}), photos=np.array([photos]))
                combined = self.combine(evidence, **arguments)
                if np.shape(combined) != (9,) or not np.isfinite(combined).all():
                    raise InvalidMethodError(f"score {self.name!r} gives no number for every query and disorder")
                if (np.diff(combined) < 0).any():
                    raise InvalidMethodError(
                        f"score {self.name!r} falls when the distance {varied!r} rises: it must not, smaller is closer"
                    )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What its parameters are called in options and answers."""
        return tuple(parameter.name for parameter in self.parameters)

    def __repr__(self) -> str:
        return f"<Score {self.name}>"

"""A method: how the photos of a query are fused and how a disorder is scored."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from mien.core.errors import InvalidMethodError
from mien.core.fusion import FUSIONS
from mien.core.scores import SCORES, Score, Weights


@dataclass(frozen=True)
class Method:
    """One cell of the paper's tables.

    >>> Method(score="nearest", fusion="none") == BASELINE
    True
    >>> FULL.as_dict()
    {'fusion': 'embedding', 'score': 'hybrid', 'lambda': 0.75}
    >>> Method(score="hybrid", centroid_weight=1.5)
    Traceback (most recent call last):
    ...
    mien.core.errors.InvalidMethodError: lambda is 1.5: it must lie between 0 (nearest image) and 1 (centroid)
    """

    fusion: str = "embedding"
    score: str = "hybrid"
    centroid_weight: float = 0.75  # the paper's lambda; only the hybrid score uses it
    alpha: float = 0.05  # share of images; only the proportional score uses it

    def __post_init__(self) -> None:
        if self.fusion not in FUSIONS:
            raise InvalidMethodError(f"unknown fusion {self.fusion!r}: choose one of {', '.join(FUSIONS)}")
        if self.score not in SCORES:
            raise InvalidMethodError(f"unknown score {self.score!r}: choose one of {', '.join(SCORES)}")
        if not 0 <= self.centroid_weight <= 1:
            raise InvalidMethodError(
                f"lambda is {self.centroid_weight}: it must lie between 0 (nearest image) and 1 (centroid)"
            )
        if not 0 < self.alpha <= 1:
            raise InvalidMethodError(f"alpha is {self.alpha}: it must be above 0 and at most 1 (all images)")

    @property
    def scoring(self) -> Score:
        """The score's functions."""
        return SCORES[self.score]

    @property
    def weights(self) -> Weights:
        """The numbers that the score's functions take."""
        return Weights(self.centroid_weight, self.alpha)

    def as_dict(self) -> dict[str, str | float]:
        """The method as plain values, only those that it uses."""
        described: dict[str, str | float] = {"fusion": self.fusion, "score": self.score}
        if self.score == "hybrid":
            described["lambda"] = self.centroid_weight
        if self.score == "proportional":
            described["alpha"] = self.alpha
        return described


BASELINE = Method(fusion="none", score="nearest")
FULL = Method(fusion="embedding", score="hybrid", centroid_weight=0.75)
NAMED_METHODS = {"baseline": BASELINE, "full": FULL}


def method_of(
    name: str | None = None,
    fusion: str | None = None,
    score: str | None = None,
    centroid_weight: float | None = None,
    alpha: float | None = None,
) -> Method:
    """The method that a user's options describe: a name, or its parts, those of the full method where none is given.

    >>> method_of(centroid_weight=0.5).as_dict()
    {'fusion': 'embedding', 'score': 'hybrid', 'lambda': 0.5}
    """
    if name is not None and (fusion, score, centroid_weight, alpha) != (None, None, None, None):
        raise InvalidMethodError("method stands for all of fusion, score, lambda and alpha: give either")
    if name is not None:
        return NAMED_METHODS[name]
    score = FULL.score if score is None else score
    if centroid_weight is not None and score != "hybrid":
        raise InvalidMethodError(f"lambda belongs to the hybrid score, not to {score}")
    if alpha is not None and score != "proportional":
        raise InvalidMethodError(f"alpha belongs to the proportional score, not to {score}")
    given = {"centroid_weight": centroid_weight, "alpha": alpha}
    numbers = {field: value for field, value in given.items() if value is not None}
    return Method(fusion=FULL.fusion if fusion is None else fusion, score=score, **numbers)


TWELVE_METHODS = tuple(
    Method(fusion, score)
    for fusion, score in product(FUSIONS, ("nearest", "image-centroid", "patient-centroid", "hybrid"))
)

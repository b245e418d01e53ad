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
TWELVE_METHODS = tuple(
    Method(fusion, score)
    for fusion, score in product(FUSIONS, ("nearest", "image-centroid", "patient-centroid", "hybrid"))
)

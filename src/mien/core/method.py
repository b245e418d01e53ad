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
    centroid_weight: float = 0.75  # the paper's lambda; scores with a centroid and images use it
    alpha: float = 0.05  # share of images; the proportional scores use it

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

    @property
    def numbers(self) -> dict[str, float]:
        """Lambda and alpha, as far as the score uses them."""
        values = {"lambda": self.centroid_weight, "alpha": self.alpha}
        return {name: values[name] for name in self.scoring.uses}

    def as_dict(self) -> dict[str, str | float]:
        """The method as plain values, only those that it uses."""
        return {"fusion": self.fusion, "score": self.score, **self.numbers}

    def __str__(self) -> str:
        """The method in few words: its name, or its parts.

        >>> str(Method("none", "proportional", alpha=0.1)), str(FULL)
        ('none x proportional 0.1', 'full')
        """
        named = {method: name for name, method in NAMED_METHODS.items()}
        parts = [f"{self.fusion} x {self.score}", *(f"{value:g}" for value in self.numbers.values())]
        return named.get(self) or " ".join(parts)

    @classmethod
    def of_text(cls, text: str) -> Method:
        """The method that a text names, written as `str` writes it; numbers may be missing at the end.

        >>> Method.of_text("none x hybrid 0.5").as_dict(), Method.of_text("full") == FULL
        ({'fusion': 'none', 'score': 'hybrid', 'lambda': 0.5}, True)
        """
        if text in NAMED_METHODS:
            return NAMED_METHODS[text]
        fusion, _, rest = text.partition(" x ")
        score, *written = rest.split() or [""]
        try:
            method = cls(fusion, score)
            fields = [FIELD_OF_NUMBER[name] for name in method.scoring.uses[: len(written)]]
            return cls(fusion, score, **dict(zip(fields, map(float, written), strict=True)))
        except ValueError as error:  # no number, or one too many
            raise InvalidMethodError(f"unknown method {text!r}: write it like 'full' or 'none x hybrid 0.5'") from error


BASELINE = Method(fusion="none", score="nearest")
FULL = Method(fusion="embedding", score="hybrid", centroid_weight=0.75)
NAMED_METHODS = {"baseline": BASELINE, "full": FULL}
FIELD_OF_NUMBER = {"lambda": "centroid_weight", "alpha": "alpha"}


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
    method = Method(FULL.fusion if fusion is None else fusion, FULL.score if score is None else score)
    given = {"lambda": centroid_weight, "alpha": alpha}
    numbers = {number: value for number, value in given.items() if value is not None}
    if unused := numbers.keys() - set(method.scoring.uses):
        using = [score for score in SCORES if unused <= set(SCORES[score].uses)]
        raise InvalidMethodError(f"{min(unused)} belongs to the score {' or '.join(using)}, not to {method.score}")
    return Method(method.fusion, method.score, **{FIELD_OF_NUMBER[number]: value for number, value in numbers.items()})


TWELVE_METHODS = tuple(
    Method(fusion, score)
    for fusion, score in product(FUSIONS, ("nearest", "image-centroid", "patient-centroid", "hybrid"))
)

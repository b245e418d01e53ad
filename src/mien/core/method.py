"""A method: how the photos of a query are fused and how a disorder is scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from mien.core.arrays import Float64s, Floats, Ints
from mien.core.centroids import group_means
from mien.core.scores import Evidence, Score, known_scores, own_scores, score_named
from mien.errors import InvalidMethodError, naming_the_score, require

FUSIONS = ("none", "distance", "embedding")
ROUNDING = 1e-9  # of scores, relative


def fuse_embeddings(embeddings: Floats) -> Float64s:
    """Mean of the raw embeddings of a query's images, per representation (eq:emb-fusion).

    >>> fuse_embeddings(np.array([[[1.0, 0.0]], [[3.0, 2.0]]])).tolist()
    [[2.0, 1.0]]
    """
    # raw mean, as for centroids: a query is summarised as the patients it is compared with are
    fused: Float64s = embeddings.mean(axis=0, dtype=np.float64)
    return fused


def fuse_distances(distances: Floats, first_of_query: Ints) -> Floats:
    """Mean of the disorder distances of each query's images (eq:dist-fusion).

    >>> fuse_distances(np.array([[0.2, 0.4], [0.4, 0.8]]), np.array([0])).round(6).tolist()
    [[0.3, 0.6]]
    """
    if len(first_of_query) == len(distances):
        return distances
    return group_means(distances, first_of_query)


@dataclass(frozen=True, init=False)
class Method:
    """One cell of the paper's tables; `score` is a name, or a score of your own.

    >>> Method(score="nearest", fusion="none") == BASELINE
    True
    >>> FULL.as_dict()
    {'fusion': 'embedding', 'score': 'hybrid', 'lambda': 0.75}
    >>> Method(score="hybrid", centroid_weight=1.5)
    Traceback (most recent call last):
    ...
    mien.errors.InvalidMethodError: lambda is 1.5: it must be 0 or more and at most 1
    >>> Method(score=Score("cautious", lambda evidence: evidence.nearest + 1 / evidence.gallery_patients)).as_dict()
    {'fusion': 'embedding', 'score': 'cautious'}
    """

    fusion: str
    scoring: Score
    values: tuple[float, ...]  # of the score's parameters, in their order

    def __init__(self, fusion: str = "embedding", score: str | Score = "hybrid", **parameters: float) -> None:
        """Parameters go by their names, or by their keywords in Python (`centroid_weight` for lambda)."""
        if fusion not in FUSIONS:
            raise InvalidMethodError(f"unknown fusion {fusion!r}: choose one of {', '.join(FUSIONS)}")
        require(score, str | Score, "score", "the name of one, or Score(...)")
        scoring = score if isinstance(score, Score) else score_named(score)
        if own_scores().get(scoring.name, scoring) is not scoring:  # answers and calibrations know a score by its name
            raise InvalidMethodError(f"a score of mien is called {scoring.name!r}: give yours another name")
        values = []
        for parameter in scoring.parameters:
            value = parameters.pop(parameter.name, parameters.pop(parameter.keyword, parameter.default))
            parameter.check(value)
            values.append(float(value))
        if parameters:
            raise InvalidMethodError(_belongs_elsewhere(min(parameters), scoring))
        for field, given in (("fusion", fusion), ("scoring", scoring), ("values", tuple(values))):
            object.__setattr__(self, field, given)
        if values != [parameter.default for parameter in scoring.parameters]:
            scoring.try_out(self._arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        known = own_scores().get(self.score) is self.scoring  # it travels by its name: its functions have none
        return partial(Method, self.fusion, self.score if known else self.scoring, **self.parameters), ()

    @property
    def score(self) -> str:
        """The score's name."""
        return self.scoring.name

    @property
    def parameters(self) -> dict[str, float]:
        """The score's parameters by name."""
        return {each.name: value for each, value in zip(self.scoring.parameters, self.values, strict=True)}

    @property
    def _arguments(self) -> dict[str, float]:
        return {each.keyword: value for each, value in zip(self.scoring.parameters, self.values, strict=True)}

    @cached_property
    def behaviour(self) -> str:
        """What its score does with some evidence, as a checksum: that of an edited score is another."""
        return f"{self.scoring.try_out(self._arguments):08x}"

    def distance(self, evidence: Evidence) -> Floats:
        """The distances by which disorders are ranked. Scores cannot write to evidence, or see what they do not use."""
        shape = np.broadcast_shapes(*(array.shape for array in evidence))
        if self.scoring.centroid is None:
            evidence = evidence._replace(centroid=np.full((1,) * len(shape), np.nan))
        with naming_the_score(self.score):
            seen = Evidence._make(np.broadcast_to(array, array.shape) for array in evidence)
            return np.broadcast_to(np.asarray(self.scoring.combine(seen, **self._arguments), float), shape)

    def require_rising(self, low: Floats, high: Floats) -> None:
        """Refuses a score that breaks its rules where it was not tried out: with this gallery's numbers, say."""
        if not np.isfinite([low, high]).all() or (low > high + ROUNDING * np.abs(high)).any():
            raise InvalidMethodError(
                f"score {self.score!r} gives no number for a disorder of this gallery, or falls when a distance rises"
            )

    def neighbours(self, images_of_disorder: Ints) -> Ints:
        """How many of a disorder's nearest images count, all at most."""
        if self.scoring.neighbours is None:
            return np.minimum(1, images_of_disorder)
        return np.minimum(self.scoring.counted(images_of_disorder, self._arguments), images_of_disorder).astype(np.intp)

    def as_dict(self) -> dict[str, str | float]:
        """The method as plain values, only those that it uses."""
        return {"fusion": self.fusion, "score": self.score, **self.parameters}

    def __str__(self) -> str:
        """The method in few words: its name, or its parts.

        >>> str(Method("none", "proportional", alpha=0.1)), str(FULL)
        ('none x proportional 0.1', 'full')
        """
        named = {method: name for name, method in NAMED_METHODS.items()}
        parts = [f"{self.fusion} x {self.score}", *(f"{value:g}" for value in self.values)]
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
            names = cls(fusion, score).scoring.parameter_names[: len(written)]
            return cls(fusion, score, **dict(zip(names, map(float, written), strict=True)))
        except ValueError as error:  # no number, or one too many
            raise InvalidMethodError(f"unknown method {text!r}: write it like 'full' or 'none x hybrid 0.5'") from error


BASELINE = Method(fusion="none", score="nearest")
FULL = Method(fusion="embedding", score="hybrid")
NAMED_METHODS = {"baseline": BASELINE, "full": FULL}


def method_of(
    name: str | None = None,
    fusion: str | None = None,
    score: str | None = None,
    parameters: Mapping[str, float | None] | None = None,
) -> Method:
    """The method that a user's options describe: a name, or its parts, those of the full method where none is given.

    >>> method_of(parameters={"lambda": 0.5, "alpha": None}).as_dict()
    {'fusion': 'embedding', 'score': 'hybrid', 'lambda': 0.5}
    """
    given = {parameter: value for parameter, value in (parameters or {}).items() if value is not None}
    if name is None:
        return Method(FULL.fusion if fusion is None else fusion, FULL.scoring if score is None else score, **given)
    if fusion is not None or score is not None or given:
        raise InvalidMethodError("method stands for all of fusion, score and the score's parameters: give either")
    return Method.of_text(name)


def _belongs_elsewhere(parameter: str, scoring: Score) -> str:
    names = {score.name: [*score.parameter_names] for score in (*known_scores().values(), scoring)}
    using = [name for name, taken in names.items() if parameter in taken] or ["no known score"]
    return f"{parameter} belongs to {' or '.join(using)}, not to {scoring.name}, which takes {names[scoring.name]}"


TWELVE_METHODS = tuple(
    Method(fusion, score)
    for fusion, score in product(FUSIONS, ("nearest", "image-centroid", "patient-centroid", "hybrid"))
)

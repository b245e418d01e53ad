"""Which encoder made an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mien.errors import EncoderMismatchError

VIEWS = ((0, 0), (0, 1), (1, 0), (1, 1))  # (flip, gray) of each model's representations, in their order


def representation_name(model: str, flip: int | str, gray: int | str) -> str:
    """What a representation is called.

    >>> representation_name("m0", 0, 1)
    'm0/flip0/gray1'
    """
    return f"{model}/flip{flip}/gray{gray}"


@dataclass(frozen=True)
class Encoder:
    """An encoder's identity. What is unknown is None and agrees with everything; what is known must be equal."""

    representations: int
    dimensions: int
    name: str | None = None
    weights_sha256: str | None = None
    representation_names: tuple[str, ...] | None = None  # in the order of the embedding
    trained_on_syndromes: bool | None = None  # else it may follow age, sex and ancestry

    def __str__(self) -> str:
        weights = f", weights {self.weights_sha256[:12]}" if self.weights_sha256 else ""
        return f"{self.name or 'unnamed encoder'} ({self.representations} x {self.dimensions}{weights})"

    def require_same(self, other: Encoder, *, here: str, there: str) -> None:
        """Raises `EncoderMismatchError`, which names both encoders, when the two cannot be the same.

        >>> Encoder(1, 320, "a").require_same(Encoder(1, 128, "b"), here="the query", there="the gallery")
        Traceback (most recent call last):
        ...
        mien.errors.EncoderMismatchError: the query is encoded by a (1 x 320) and the gallery by b (1 x 128): ...
        """
        for field, mine in vars(self).items():
            theirs = getattr(other, field)
            if mine is not None and theirs is not None and mine != theirs:
                raise EncoderMismatchError(
                    f"{here} is encoded by {self} and {there} by {other}: "
                    f"{field.replace('_', ' ')} differ, encode both with the same encoder"
                )

    def completed_by(self, other: Encoder) -> Encoder:
        """This identity, its unknown fields taken from `other`."""
        return Encoder(**{name: getattr(other, name) if value is None else value for name, value in vars(self).items()})

    def as_dict(self) -> dict[str, Any]:
        """The identity as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Encoder:
        """The inverse of `as_dict`, also after a way through JSON."""
        names: Sequence[str] | None = values.get("representation_names")
        return cls(**{**values, "representation_names": None if names is None else tuple(names)})

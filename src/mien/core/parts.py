"""Work on something that is in several parts: in this process, or on the machines of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

Part = TypeVar("Part")
Outer = TypeVar("Outer")
Part_co = TypeVar("Part_co", covariant=True)
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")


class Everywhere(Protocol[Part_co]):
    """Asks every part, where the part is. Questions and answers may travel, parts stay.

    So a question is a function of a module, or `functools.partial` of one.
    """

    def __call__(self, ask: Callable[[Part_co], Answer]) -> list[Answer]:
        """The answers, in the order of the parts."""

    def combined(
        self, asks: Sequence[Callable[[Part_co], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together near to where they are given."""


@dataclass(frozen=True)
class Here(Generic[Part]):
    """Parts that are in this process.

    >>> Here(["ab", "c"])(len)
    [2, 1]
    >>> Here(["ab", "c"]).combined([len, str.isupper], sum)
    [3, 0]
    """

    parts: Sequence[Part]

    def __call__(self, ask: Callable[[Part], Answer]) -> list[Answer]:
        """The answers, in the order of the parts."""
        return [ask(part) for part in self.parts]

    def combined(
        self, asks: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together."""
        return [combine(self(ask)) for ask in asks]


@dataclass(frozen=True)
class Inside(Generic[Outer, Part]):
    """Parts that are inside of others: an index in a gallery."""

    everywhere: Everywhere[Outer]
    reach: Callable[[Outer], Part]

    def __call__(self, ask: Callable[[Part], Answer]) -> list[Answer]:
        """The answers, in the order of the parts."""
        return self.everywhere(partial(_reached, self.reach, ask))

    def combined(
        self, asks: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together near to where they are given."""
        return self.everywhere.combined([partial(_reached, self.reach, ask) for ask in asks], combine)


def _reached(reach: Callable[[Any], Part], ask: Callable[[Part], Answer], outer: Any) -> Answer:
    return ask(reach(outer))

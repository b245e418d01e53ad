"""Work on something that is in several parts: in this process, or on the machines of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Answer = TypeVar("Answer")
Combined = TypeVar("Combined")


class Parts(Protocol[Part_co]):
    """Asks parts, where they are. Questions and answers may travel, parts stay.

    So a question is a function of a module, or `functools.partial` of one.
    """

    def __len__(self) -> int: ...

    def ask(self, question: Callable[[Part_co], Answer]) -> list[Answer]:
        """Every part's answer, in the order of the parts."""

    def ask_each(self, questions: Sequence[Callable[[Part_co], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""

    def combined(
        self, questions: Sequence[Callable[[Part_co], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together near to where they are given."""


@dataclass(frozen=True)
class LocalParts(Generic[Part]):
    """Parts that are in this process.

    >>> LocalParts(["ab", "c"]).ask(len)
    [2, 1]
    >>> LocalParts(["ab", "c"]).combined([len, str.isupper], sum)
    [3, 0]
    """

    parts: Sequence[Part]

    def __len__(self) -> int:
        return len(self.parts)

    def ask(self, question: Callable[[Part], Answer]) -> list[Answer]:
        """Every part's answer."""
        return self.ask_each([question] * len(self))

    def ask_each(self, questions: Sequence[Callable[[Part], Answer]]) -> list[Answer]:
        """The answers, where each part gets a question of its own."""
        return [question(part) for question, part in zip(questions, self.parts, strict=True)]

    def combined(
        self, questions: Sequence[Callable[[Part], Answer]], combine: Callable[[Sequence[Answer]], Combined]
    ) -> list[Combined]:
        """All parts' answers to each question, put together."""
        return [combine(self.ask(question)) for question in questions]

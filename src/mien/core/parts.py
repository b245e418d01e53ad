"""Work on something that is in several parts: in this process, or on the machines of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Answer = TypeVar("Answer")


class Everywhere(Protocol[Part_co]):
    """Asks every part a question, where the part is; answers come in the order of the parts.

    Questions and answers may travel, parts stay: a question is a function of a module, or `functools.partial` of one.
    """

    def __call__(self, ask: Callable[[Part_co], Answer]) -> list[Answer]:
        """The answers."""


def here(parts: Sequence[Part]) -> Everywhere[Part]:
    """Parts that are in this process.

    >>> here(["ab", "c"])(len)
    [2, 1]
    """

    def everywhere(ask: Callable[[Part], Answer]) -> list[Answer]:
        return [ask(part) for part in parts]

    return everywhere

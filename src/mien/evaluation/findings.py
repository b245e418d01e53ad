"""A statement of the paper beside what a run shows: how near is near enough, and whether it is.

A range means inside the range, "at most" means at most, an order means strictly so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

SIGNIFICANT, HIGHLY_SIGNIFICANT = 0.05, 0.001

Numbers = Sequence[float]


class Finding(NamedTuple):
    """One statement of the paper, and whether this run finds the same."""

    where: str  # in the paper
    claim: str
    rule: str  # when it counts as held
    published: str
    measured: str
    holds: bool


def finding(text: str, rule: str, printed: object, measured: str, *, holds: bool) -> Finding:
    """A statement, written as "where: claim"."""
    where, _, claim = text.partition(": ")
    return Finding(where, claim, rule, str(printed), measured, holds)


def near(text: str, measured: Numbers, printed: Numbers, tolerance: float) -> Finding:
    """Each number within a tolerance of the printed one."""
    holds = all(abs(one - other) <= tolerance for one, other in zip(measured, printed, strict=True))
    return finding(text, f"within {tolerance:g}", numbers(printed), numbers(measured), holds=holds)


def inside(text: str, measured: Numbers, low: float, high: float) -> Finding:
    """Each number inside a range."""
    bounds = f"{low:g} to {high:g}"
    return finding(
        text, f"inside {bounds}", bounds, numbers(measured), holds=low <= min(measured) <= max(measured) <= high
    )


def at_most(text: str, measured: Numbers, most: float, printed: object = "") -> Finding:
    """No number above the largest, which is the printed one unless another is said."""
    return finding(text, f"at most {most:g}", printed or f"{most:g}", numbers(measured), holds=max(measured) <= most)


def order(text: str, chains: Sequence[Numbers], printed: str = "") -> Finding:
    """Numbers that rise strictly, in each of some chains."""
    holds = all(one < other for chain in chains for one, other in pairwise(chain))
    return finding(text, "each below the next", printed, "; ".join(map(numbers, chains)), holds=holds)


def signs(text: str, measured: Numbers, sign: int) -> Finding:
    """Numbers all above zero, or all below."""
    rule = "each above 0" if sign > 0 else "each below 0"
    return finding(text, rule, "", numbers(measured), holds=min(sign * value for value in measured) > 0)


def significance(text: str, measured: float, printed: str) -> Finding:
    """A p-value on the same side of the usual limits as the printed one."""
    limit = HIGHLY_SIGNIFICANT if printed == "<0.001" else SIGNIFICANT
    below = printed == "<0.001" or float(printed) < SIGNIFICANT
    rule = f"below {limit:g}" if below else f"{limit:g} or more"
    return finding(text, rule, printed, f"{measured:.4f}", holds=(measured < limit) == below)


def numbers(values: Numbers) -> str:
    """Numbers as a row shows them."""
    return " / ".join(f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}" for value in values)

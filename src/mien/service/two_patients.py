"""Two patients side by side: siblings, or two of whom somebody thinks that they share a disorder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FORM_FIELDS = ("first", "second")  # for the photos of each patient
FIRST_SHOWN = 10

Line = Mapping[str, Any]  # of an answer's document, as much as it tells


class CommonDisorder(NamedTuple):
    """A disorder that both patients have in their lists."""

    first: Line
    second: Line
    distance: float | None  # the mean of both, as if they were photos of one patient (eq:dist-fusion)


class Pair(NamedTuple):
    """What two patients are like, together and each."""

    words: str
    together: list[CommonDisorder]  # the closest first
    each: tuple[Sequence[Line], Sequence[Line]]  # the first three


def compare_patients(first: Sequence[Line], second: Sequence[Line]) -> Pair:
    """Finds the disorders that both patients are most like, by mean distance; by ranks where there are no distances.

    >>> lines = [{"rank": rank, "disorder_id": name, "disorder_name": None} for rank, name in enumerate("abc", start=1)]
    >>> compare_patients(lines, [lines[2]]).words
    'The first is most like a, the second most like c. The closest to both, c, is at ranks 3 and 3.'
    """
    other_of = {line["disorder_id"]: line for line in second}
    together = []
    for line in first:
        if other := other_of.get(line["disorder_id"]):
            mean = (line["distance"] + other["distance"]) / 2 if "distance" in line else None
            together.append(CommonDisorder(line, other, mean))
    together.sort(
        key=lambda both: (both.distance or both.first["rank"] + both.second["rank"], both.first["disorder_id"])
    )
    names = _name(first[0]), _name(second[0])
    if first[0]["disorder_id"] == second[0]["disorder_id"]:
        words = f"Both are most like {names[0]}."
    else:
        joint = ""
        if together:
            closest, ranks = together[0], f"{together[0].first['rank']} and {together[0].second['rank']}"
            joint = f" The closest to both, {_name(closest.first)}, is at ranks {ranks}."
        words = f"The first is most like {names[0]}, the second most like {names[1]}.{joint}"
    return Pair(words, together[:FIRST_SHOWN], (first[:3], second[:3]))


def _name(line: Line) -> str:
    name: str = line["disorder_name"] or line["disorder_id"]
    return name

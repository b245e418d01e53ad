"""Groups of patients by what is known of their photos: sex, age."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mien.core.study import ImageFacts

AGES = {2: "under 2", 12: "2 to 11", 18: "12 to 17"}  # years


def _age_group(facts: ImageFacts | None) -> str | None:
    if facts is None or facts.age_years is None:
        return None
    return next((group for end, group in AGES.items() if facts.age_years < end), "18 and older")


FACTS: Mapping[str, Callable[[ImageFacts | None], str | None]] = {
    "sex": lambda facts: facts.sex if facts else None,
    "age": _age_group,
}

"""Age and sex of images, as `image_metadata_<version>.tsv` has them beside other columns. Read and written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from mien.core.study import ImageFacts
from mien.errors import shown
from mien.storage.formats.text_tables import read_table, write_table

COLUMNS = ("image_id", "gender", "age_year", "age_month")
BLANKS = frozenset({"", "nan", "none", "na", "n/a", "null", "unknown"})
SEXES = {"m": "male", "male": "male", "f": "female", "female": "female"}  # whatever else is written is not known
OLDEST = 120  # years


def read_image_metadata(path: Path) -> dict[str, ImageFacts]:
    """What a table knows of its images; those of which it knows nothing are left out."""
    facts: dict[str, ImageFacts] = {}

    def take(row: dict[str, str]) -> str | None:
        image_id = row["image_id"]
        if not image_id.strip():
            return "the image's id is blank: fill it in or take the row out"
        try:
            known = ImageFacts(_age(row["age_year"], row["age_month"]), SEXES.get(row["gender"].strip().lower()))
        except ValueError as error:
            return str(error)
        if facts.setdefault(image_id, known) != known:
            return f"image {shown(image_id)} has other facts in an earlier row: keep one"
        return None

    read_table(path).each_row(COLUMNS, take)
    return {image_id: known for image_id, known in facts.items() if known != ImageFacts()}


def write_image_metadata(path: Path, facts_of_image: Mapping[str, ImageFacts]) -> None:
    """Writes ages in years and months, to a thousandth of a month."""
    rows = []
    for image_id, (age, sex) in facts_of_image.items():
        years_and_months = ("", "") if age is None else (f"{part:g}" for part in divmod(round(12 * age, 3), 12))
        rows.append((image_id, sex or "", *years_and_months))
    write_table(path, COLUMNS, rows)


def _age(year: str, month: str) -> float | None:
    """Years, from whole years and the months beyond them; either may be blank.

    >>> _age("2", "6.0"), _age("", "18"), _age("nan", "")
    (2.5, 1.5, None)
    """
    years = _number("age_year", year, OLDEST)
    months = _number("age_month", month, 12 * OLDEST if years is None else 12)
    return None if years is None and months is None else (12 * (years or 0) + (months or 0)) / 12


def _number(field: str, text: str, limit: int) -> float | None:
    if text.strip().lower() in BLANKS:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < limit:
        what = f"{field} is {shown(text.strip())}"
        raise ValueError(f"{what}: give a number from 0 to below {limit}, or nothing where it is not known")
    return number

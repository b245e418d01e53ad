"""A table of priors: disorder_id, prior."""

from __future__ import annotations

from pathlib import Path

from mien.errors import shown
from mien.storage.formats.text_tables import read_table


def read_prior(path: Path) -> dict[str, float]:
    """The prior of each disorder, and of "none of these", as they are written."""
    found: dict[str, float] = {}

    def take(row: dict[str, str]) -> str | None:
        if row["disorder_id"] in found:
            return f"disorder {shown(row['disorder_id'])} is there twice: give it one prior"
        try:
            found[row["disorder_id"]] = float(row["prior"])
        except ValueError:
            return f"the prior {shown(row['prior'])} is not a number"
        return None

    read_table(path).each_row(["disorder_id", "prior"], take)
    return found

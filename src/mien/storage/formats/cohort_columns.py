"""One more column of a table of images: subgroups, or the groups of a cohort."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mien.core.cohort import Query
from mien.errors import InvalidFileError, shown
from mien.storage.formats.text_tables import read_table

GROUP = "group"


def read_column(path: Path, column: str) -> dict[str, str]:
    """The values of a column by image id; empty ones are left out."""
    pairs, names = _pairs(path, column)
    if pairs is None:
        raise InvalidFileError(path, [f"no column {shown(column)}: it has {', '.join(map(shown, names))}"])
    return dict(pairs)


def read_groups(path: Path, queries: Sequence[Query]) -> dict[str, str] | None:
    """The group of each patient who has one, by patient id; None where the table has no column `group`."""
    pairs, _ = _pairs(path, GROUP)
    if pairs is None:
        return None
    patient_of = {image_id: query.patient_id or "" for query in queries for image_id in query.encodings.image_ids}
    groups: dict[str, str] = {}
    for image_id, group in pairs:
        patient_id = patient_of.get(image_id)
        if patient_id is not None and groups.setdefault(patient_id, group) != group:
            both = f"{shown(groups[patient_id])} and {shown(group)}"
            raise InvalidFileError(path, [f"patient {shown(patient_id)} is in the groups {both}: give one"])
    return groups


def _pairs(path: Path, column: str) -> tuple[list[tuple[str, str]] | None, list[str]]:
    """Image ids with the values of a column, None where there is no such column; and the columns that there are."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq  # noqa: PLC0415 heavy

        names = pq.read_schema(path).names
        if column not in names:
            return None, names
        table = pq.read_table(path, columns=list({"image_id", column}))
        cells = zip(*(table.column(name).to_pylist() for name in ("image_id", column)), strict=True)
        return [(str(image_id), str(value)) for image_id, value in cells if value not in {None, ""}], names
    text = read_table(path)
    if column not in text.names:
        return None, text.names
    found: list[tuple[str, str]] = []

    def take(row: dict[str, str]) -> str | None:
        if row[column]:
            found.append((row["image_id"], row[column]))
        return None

    text.each_row(["image_id", column], take)
    return found, text.names

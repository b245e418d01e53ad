"""One more column of a cohort table, for subgroups."""

from __future__ import annotations

from pathlib import Path

from mien.core.errors import InvalidFileError, shown
from mien.storage.formats.text_tables import read_table


def read_column(path: Path, column: str) -> dict[str, str]:
    """The values of a column by image id; empty ones are left out."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq  # noqa: PLC0415 heavy

        names = pq.read_schema(path).names
        if column not in names:
            raise _missing(path, column, names)
        table = pq.read_table(path, columns=["image_id", column])
        pairs = zip(*(table.column(name).to_pylist() for name in ("image_id", column)), strict=True)
        return {str(image_id): str(value) for image_id, value in pairs if value not in {None, ""}}
    table = read_table(path)
    if column not in table.names:
        raise _missing(path, column, table.names)
    found: dict[str, str] = {}

    def take(row: dict[str, str]) -> str | None:
        if row[column]:
            found[row["image_id"]] = row[column]
        return None

    table.each(["image_id", column], take)
    return found


def _missing(path: Path, column: str, names: list[str]) -> InvalidFileError:
    return InvalidFileError(path, [f"no column {shown(column)}: it has {', '.join(map(shown, names))}"])

"""Rankings as JSON, TSV and Parquet, each with its provenance."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mien.core.errors import MienError, shown
from mien.core.evidence import RankedDisorder
from mien.core.method import Method
from mien.core.ranking import Ranking
from mien.storage.gallery import Gallery
from mien.version import __version__

NOTICE = "mien supports a clinician's judgement and never gives a diagnosis."
DIGITS = 7  # distances are products of float32 rows: further digits are noise
SUFFIXES = (".json", ".tsv", ".parquet")


def ranking_document(rankings: Sequence[Ranking], gallery: Gallery, method: Method) -> dict[str, Any]:
    """The answer as plain values, for JSON."""
    return {
        "tool": {"name": "mien", "version": __version__},
        "method": method.as_dict(),
        "gallery": gallery.as_dict(),
        "queries": [plain(ranking) for ranking in rankings],
        "notice": NOTICE,
    }


def plain(value: Any) -> Any:
    """Named tuples as dictionaries, distances rounded."""
    if isinstance(value, Ranking | RankedDisorder):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def ranking_rows(rankings: Sequence[Ranking], gallery: Gallery, method: Method) -> Iterator[dict[str, Any]]:
    """One row per query and disorder; the last columns say where the numbers come from."""
    for ranking in rankings:
        for line in ranking.disorders:
            yield {
                "patient_id": ranking.patient_id,
                "image_ids": json.dumps(ranking.image_ids),
                "excluded_gallery_patients": json.dumps(ranking.excluded_gallery_patients),
                **plain(line),
                "method": json.dumps(method.as_dict()),
                "gallery_generation": gallery.generation,
                "encoder": str(gallery.encoder),
                "mien_version": __version__,
            }


def write_rankings(
    path: Path, rankings: Sequence[Ranking], gallery: Gallery, method: Method, beside: Mapping[str, Any]
) -> None:
    """Writes a file in the format that its suffix names; JSON has room for what is to be said beside the rankings."""
    if path.suffix.lower() == ".json":
        path.write_text(json.dumps({**ranking_document(rankings, gallery, method), **beside}, indent=1) + "\n")
        return
    rows = list(ranking_rows(rankings, gallery, method))
    if path.suffix.lower() == ".tsv":
        write_separated(path, rows, delimiter="\t")
    else:
        import pyarrow as pa  # noqa: PLC0415 heavy
        import pyarrow.parquet as pq  # noqa: PLC0415

        kinds = {int: pa.int64(), float: pa.float64()}
        schema = pa.schema([(name, kinds.get(type(value), pa.string())) for name, value in rows[0].items()])
        pq.write_table(pa.Table.from_pylist(rows, schema), path)


def write_separated(path: Path, rows: Sequence[Mapping[str, Any]], *, delimiter: str) -> None:
    """A file for spreadsheets, with the names of the columns in its first line."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def check_out(path: Path, *, inputs: Sequence[Path], gallery: Path) -> None:
    """Refuses a file name that names no format, or would overwrite what the ranking is made of."""
    if path.suffix.lower() not in SUFFIXES:
        raise MienError(f"{path}: the suffix names the format: use one of {', '.join(SUFFIXES)}")
    if path.resolve().is_relative_to(gallery.resolve()) or path.resolve() in [file.resolve() for file in inputs]:
        raise MienError(f"{path}: this would overwrite the gallery or the input: choose another name")


def _cell(value: Any) -> Any:
    """Text without control characters; what a spreadsheet would take for a formula gets a quote before it."""
    if not isinstance(value, str):
        return value
    text = value if value.isprintable() else shown(value, longest=len(value))[1:-1]
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text

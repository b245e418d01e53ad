"""The folder of a report: all values as JSON, a CSV file for each table, figures, and one page."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mien.errors import MienError
from mien.evaluation.experiment_context import Tables
from mien.report.evaluation import as_row
from mien.report.rankings import csv_text
from mien.storage.outputs import refuse_existing

RESULTS, PAGE = "results.json", "index.html"


def check_report_folder(out: Path, *, force: bool = False) -> None:
    """Refuses a folder that holds something else than an earlier report, and that too unless it may be replaced."""
    if out.exists() and not out.is_dir():
        raise MienError(f"{out}: this is a file: give the name of a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / RESULTS).exists():
        raise MienError(f"{out}: the folder holds something else: give a new one")
    refuse_existing(out, force=force)


def write_results(
    out: Path, document: Mapping[str, Any], tables: Tables, *, known_tables: Collection[str], figures: Collection[str]
) -> None:
    """Writes the JSON and the tables. Tables and figures of an earlier report go, where their names are known here."""
    # first, because it marks the folder as a report: a run that is cut short can be repeated
    (out / RESULTS).write_text(json.dumps(document, indent=1) + "\n")
    old_files = {
        "tables": [f"{name}.csv" for name in known_tables],
        "figures": [f"{name}.{suffix}" for name in figures for suffix in ("svg", "png")],
    }
    for folder, names in old_files.items():
        (out / folder).mkdir(exist_ok=True)
        for name in names:
            (out / folder / name).unlink(missing_ok=True)
    for name, rows in tables.items():
        if rows:
            lines = [{field: _cell(value) for field, value in as_row(row).items()} for row in rows]
            (out / "tables" / f"{name}.csv").write_text(csv_text(lines), newline="")


def _cell(value: Any) -> Any:
    return "; ".join(value) if isinstance(value, tuple) else value

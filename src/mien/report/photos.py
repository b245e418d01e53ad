"""Writes which photos were encoded and which refused: as plain values, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mien.encoding.photo_encoder import EncodedPhoto, Result
from mien.encoding.quality import PhotoFacts
from mien.report.rankings import write_csv

BOX = ("left", "top", "right", "bottom")
FACTS = tuple(field.name for field in fields(PhotoFacts) if field.name != "box")
COLUMNS = ("image_id", "encoded", "reason", "warnings", *FACTS, *BOX)


def photo_document(result: Result) -> dict[str, Any]:
    """A photo's facts and warnings, or why it was refused."""
    if isinstance(result, EncodedPhoto):
        return {"image_id": result.image_id, "encoded": True, **result.facts.as_dict()}
    return {"image_id": result.image_id, "encoded": False, "reason": result.reason, "boxes": result.boxes}


def write_photos(path: Path, results: Sequence[Result]) -> None:
    """A row per photo, the refused ones first."""
    rows = []
    for result in sorted(results, key=lambda result: isinstance(result, EncodedPhoto)):
        values = photo_document(result)
        values["encoded"] = "yes" if values["encoded"] else "no"
        values["warnings"] = "; ".join(values.get("warnings", ()))
        values |= dict(zip(BOX, values.pop("box", ()), strict=False))
        rows.append({name: values.get(name, "") for name in COLUMNS})
    write_csv(path, rows)

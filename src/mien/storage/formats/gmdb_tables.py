"""GMDB metadata: who is on each image, and the names of disorders. Tables with our own column names are read too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mien.core.roster import Disorder, Label
from mien.errors import shown
from mien.storage.formats.annotations import Annotations
from mien.storage.formats.text_tables import Table, read_table

OMIM = re.compile(r"(?:OMIM(?P<series>PS)?:|(?P<ps>PS))?(?P<number>\d{6})(?:\.0)?", re.IGNORECASE)


def read_metadata(paths: Iterable[Path], *, labelled: bool) -> Annotations:
    """Reads image tables and name tables, told apart by their columns. `labelled`: every image needs a disorder."""
    annotations = Annotations()
    for path in paths:
        table = read_table(path)
        if "syndrome_id" in table.names:
            read_names(table, annotations)
        else:
            read_images(table, annotations, labelled=labelled)
    return annotations


def read_images(
    table: Table, annotations: Annotations, *, labelled: bool = True, by_split: bool = False
) -> dict[int, list[Label]]:
    """Adds the images of a table. Gives its labels `by_split`, the column of the rare tables; else all as split 0."""
    patient, disorder = (
        next((name for name in either if name in table.names), " or ".join(either))  # so a message names both
        for either in (("patient_id", "subject"), ("disorder_id", "label"))
    )
    labels_of_split: dict[int, list[Label]] = {}

    def take(row: dict[str, str]) -> str | None:
        split = row["split"] if by_split else "0"
        if not (split.isascii() and split.isdecimal()):
            return f"the split {shown(split)} is not a whole number: number the folds from 0 on"
        disorder_id = row[disorder] if labelled else None
        wrong = annotations.add_image(row["image_id"], row[patient], disorder_id)
        if disorder_id and row.get("disorder_name"):
            wrong = wrong or annotations.add_disorder(Disorder(disorder_id, row["disorder_name"]))
        if disorder_id and not wrong:
            labels_of_split.setdefault(int(split), []).append(Label(row["image_id"], row[patient], disorder_id))
        return wrong

    table.each_row(["image_id", patient, *[disorder] * labelled, *["split"] * by_split], take)
    return labels_of_split


def read_names(table: Table, annotations: Annotations) -> None:
    """Adds what a table calls its disorders."""

    def take(row: dict[str, str]) -> str | None:
        omim = omim_with_prefix(row.get("OMIM", ""))
        return annotations.add_disorder(Disorder(row["syndrome_id"], row["syndrome_name"] or None, omim))

    table.each_row(["syndrome_id", "syndrome_name"], take)


def omim_with_prefix(text: str) -> str | None:
    """OMIM numbers with their prefix, `OMIM:` for a phenotype and `OMIMPS:` for a series; None for anything else.

    >>> [omim_with_prefix(text) for text in ("135900", "PS135900", "OMIMPS:135900", "163950, 123456", "-")]
    ['OMIM:135900', 'OMIMPS:135900', 'OMIMPS:135900', 'OMIM:163950 OMIM:123456', None]
    """
    found = [OMIM.fullmatch(part) for part in re.split(r"[\s,;|/]+", text.strip())]
    numbers = [f"OMIM{'PS' if one['series'] or one['ps'] else ''}:{one['number']}" for one in found if one]
    return " ".join(numbers) or None

"""GMDB metadata: who is on each image, and the names of disorders. Tables with our own column names are read too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mien.core.errors import InvalidFileError
from mien.core.roster import Disorder
from mien.storage.formats import text_tables
from mien.storage.formats.annotations import Annotations

OMIM = re.compile(r"(?:OMIM(?P<series>PS)?:|(?P<ps>PS))?(?P<number>\d{6})(?:\.0)?", re.IGNORECASE)


def read_metadata(paths: Iterable[Path], *, labelled: bool) -> Annotations:
    """Reads image tables and name tables, told apart by their columns. `labelled`: every image needs a disorder."""
    annotations = Annotations()
    for path in paths:
        try:
            text = text_tables.read_text(path)
        except OSError as error:
            raise InvalidFileError(path, [f"{error.strerror}: check the path"]) from error
        names, separator = text_tables.header_of(path, text)
        if "syndrome_id" in names:
            _read_names(path, text, names, separator, annotations)
        else:
            _read_images(path, text, names, separator, annotations, labelled=labelled)
    return annotations


def _read_images(
    path: Path, text: str, names: list[str], separator: str, annotations: Annotations, *, labelled: bool
) -> None:
    patient = "patient_id" if "patient_id" in names else "subject"
    disorder = "disorder_id" if "disorder_id" in names else "label"
    text_tables.require_columns(path, names, ["image_id", patient, *([disorder] if labelled else [])], separator)
    image_at, patient_at = names.index("image_id"), names.index(patient)
    disorder_at = names.index(disorder) if labelled else None
    name_at = names.index("disorder_name") if labelled and "disorder_name" in names else None
    problems: list[str] = []
    for row, fields in text_tables.rows(text, separator, len(names), problems):
        disorder_id = None if disorder_at is None else fields[disorder_at]
        wrong = annotations.add(fields[image_at], fields[patient_at], disorder_id)
        if name_at is not None and disorder_id and fields[name_at]:
            wrong = wrong or annotations.name(Disorder(disorder_id, fields[name_at]))
        if wrong:
            problems.append(f"row {row}: {wrong}")
    if problems:
        raise InvalidFileError(path, problems)


def _read_names(path: Path, text: str, names: list[str], separator: str, annotations: Annotations) -> None:
    text_tables.require_columns(path, names, ["syndrome_id", "syndrome_name"], separator)
    id_at, name_at = names.index("syndrome_id"), names.index("syndrome_name")
    omim_at = names.index("OMIM") if "OMIM" in names else None
    problems: list[str] = []
    for row, fields in text_tables.rows(text, separator, len(names), problems):
        omim = None if omim_at is None else omim_with_prefix(fields[omim_at])
        wrong = annotations.name(Disorder(fields[id_at], fields[name_at] or None, omim))
        if wrong:
            problems.append(f"row {row}: {wrong}")
    if problems:
        raise InvalidFileError(path, problems)


def omim_with_prefix(text: str) -> str | None:
    """OMIM numbers with their prefix, `OMIM:` for a phenotype and `OMIMPS:` for a series; None for anything else.

    >>> [omim_with_prefix(text) for text in ("135900", "PS135900", "OMIMPS:135900", "163950, 123456", "-")]
    ['OMIM:135900', 'OMIMPS:135900', 'OMIMPS:135900', 'OMIM:163950 OMIM:123456', None]
    """
    found = [OMIM.fullmatch(part) for part in re.split(r"[\s,;|/]+", text.strip())]
    numbers = [f"OMIM{'PS' if one['series'] or one['ps'] else ''}:{one['number']}" for one in found if one]
    return " ".join(numbers) or None

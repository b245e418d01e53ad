"""Writes rankings as JSON, TSV and Parquet, with their provenance; exact or coarse."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from mien.answers.examination import Examination
from mien.answers.genes import Description
from mien.answers.ranking import Ranking, notice_for, without_nothing
from mien.core.embeddings import Encoder
from mien.core.method import Method
from mien.errors import MienError, shown
from mien.storage.outputs import private_file, refuse_existing
from mien.storage.sharded import AnyGallery
from mien.version import TOOL

DIGITS = 7  # distances are products of float32 rows: further digits are noise
SUFFIXES = (".json", ".tsv", ".parquet")
BANDS = {"very close": 0.6, "close": 0.75, "fair": 0.9, "far": float("inf")}  # distances are below these
BANDS_IN_WORDS = {band: f"below {end}" if end < 2 else "everything else" for band, end in BANDS.items()}
COARSE_LISTED = 10  # disorders in a coarse answer
ROUNDED_DIGITS = 3  # of distances that a service tells: two photos of one face differ by more
SMALL = 3  # disorders with fewer patients are small: the average of one photo is that photo
SMALL_DIGITS = 2
PARTS = ("nearest_distance", "centroid_distance")
EXACT = (
    *("distance", *PARTS),
    *("probability", "log10_likelihood_ratio", "none_of_these"),  # they tell the distances
)


def ranking_document(rankings: Sequence[Ranking], gallery: AnyGallery, method: Method) -> dict[str, Any]:
    """The answer as plain values, for JSON."""
    return {
        "tool": TOOL,
        "method": method.as_dict(),
        "gallery": gallery.as_dict(),
        "queries": [_with_curies(as_plain_values(ranking), gallery.descriptions) for ranking in rankings],
        "notice": notice_for(gallery.encoder),
    }


def _with_curies(query: dict[str, Any], descriptions: Mapping[str, Description]) -> dict[str, Any]:
    """Adds to each line what its disorder is in OMIM or Orphanet, if the gallery's disorders are described."""
    for line in (*query["disorders"], *query.get("genes", ())) if descriptions else ():
        line["curie"] = descriptions[line["disorder_id"]].curie if line["disorder_id"] in descriptions else None
    return query


def examination_document(examination: Examination, gallery: AnyGallery, method: Method) -> dict[str, Any]:
    """The answer with the evidence of each disorder: nearest cases, ranks by each photo alone and by all but each."""
    document = ranking_document([examination.ranking], gallery, method)
    lines = document["queries"][0]["disorders"]
    for line, evidence in zip(lines, examination.evidence, strict=True):
        line.update(as_plain_values(evidence))
    return document


def coarse_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with bands instead of distances, and the first disorders only.

    From distances, and from ranks in long lists as well, an embedding could be reconstructed.
    """
    return {**document, "bands": BANDS_IN_WORDS, "queries": [_coarse(_first(query)) for query in document["queries"]]}


def _first(query: Mapping[str, Any]) -> dict[str, Any]:
    """Keeps the first disorders and genes of a query. Ranks by other photos become ranks among the kept disorders."""
    lines = [dict(line) for line in query["disorders"][:COARSE_LISTED]]
    for name in ("alone", "without"):
        standings = [line.get(name, ()) for line in lines]
        ranks_by = [sorted(one["rank"] for one in of_photo) for of_photo in zip(*standings, strict=True)]
        for line, own in zip(lines, standings, strict=True):
            if own:
                line[name] = [{"rank": 1 + r.index(one["rank"])} for one, r in zip(own, ranks_by, strict=True)]
    genes = {"genes": query["genes"][:COARSE_LISTED]} if "genes" in query else {}
    return {**query, "disorders": lines, **genes}


def rounded_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with as many digits as a clinician can use; for small disorders without parts of the distance."""
    queries = [
        {
            **{name: _rounded(name, value, ROUNDED_DIGITS) for name, value in query.items()},
            **{
                name: [_rounded_line(line, small=line["gallery_patients"] < SMALL) for line in query[name]]
                for name in ("disorders", "genes")
                if name in query
            },
        }
        for query in document["queries"]
    ]
    return {**document, "queries": queries}


def _rounded_line(line: Mapping[str, Any], *, small: bool) -> dict[str, Any]:
    digits = SMALL_DIGITS if small else ROUNDED_DIGITS
    shared = {name: _rounded(name, value, digits) for name, value in line.items()}
    if small:  # with one part and the distance, the other part could be computed
        shared |= {name: None for name in PARTS if name in line}
    for name in ("alone", "without"):
        if name in line:
            shared[name] = [_rounded_line(standing, small=small) for standing in line[name]]
    if "nearest_cases" in line:
        shared["nearest_cases"] = [
            {**case, "distance": None if small else round(case["distance"], digits)} for case in line["nearest_cases"]
        ]
    return shared


def _rounded(name: str, value: Any, digits: int) -> Any:
    return round(value, digits) if name in EXACT and value is not None else value


def band_of(distance: float) -> str:
    """How close a distance is, in words.

    >>> band_of(0.6)
    'close'
    """
    return next(band for band, end in BANDS.items() if distance < end)


def _coarse(value: Any) -> Any:
    if isinstance(value, Mapping):
        band = {"band": band_of(value["distance"])} if "disorder_id" in value else {}
        return {name: _coarse(item) for name, item in value.items() if name not in EXACT} | band
    return [_coarse(item) for item in value] if isinstance(value, list) else value


def as_plain_values(value: Any) -> Any:
    """Named tuples as dictionaries, without fields of a calibration or of genes where there is none; rounded."""
    if hasattr(value, "_asdict"):
        value = without_nothing(value)
    if isinstance(value, dict):
        return {name: as_plain_values(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [as_plain_values(item) for item in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def ranking_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per query and disorder, or gene; the last columns say where the numbers come from."""
    encoder = document["gallery"]["encoder"]
    for query in document["queries"]:
        for line in query.get("genes", query["disorders"]):
            standings = [key for key in ("alone", "without") if key in line]  # by each photo alone, by all but each
            yield {
                "patient_id": query["patient_id"],
                "image_ids": json.dumps(query["image_ids"]),
                "excluded_gallery_patients": json.dumps(query["excluded_gallery_patients"]),
                **{name: value for name, value in line.items() if not isinstance(value, list)},
                **({"disorder_ids": json.dumps(line["disorder_ids"])} if "disorder_ids" in line else {}),
                **_sureness_columns(query, line),
                **{f"ranks_{key}": json.dumps([standing["rank"] for standing in line[key]]) for key in standings},
                "method": json.dumps(document["method"]),
                "gallery_generation": document["gallery"]["generation"],
                "encoder": None if encoder is None else str(Encoder.from_dict(encoder)),
                "mien_version": document["tool"]["version"],
                "notice": document["notice"],
            }


def _sureness_columns(query: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    if "prediction_set" not in query:
        return {}
    none = {"none_of_these": query["none_of_these"]} if "none_of_these" in query else {}  # not where it is coarse
    own = line.get("disorder_ids", [line["disorder_id"]])
    inside = not set(own).isdisjoint(query["prediction_set"]["disorder_ids"])
    return {
        **none,
        "in_prediction_set": str(inside).lower(),
        "calibration_stale": str(query["calibration"]["stale"]).lower(),
    }


def write_rows(path: Path, document: Mapping[str, Any], rows_of_document: Iterable[Mapping[str, Any]]) -> None:
    """Writes in the format of the file's suffix: a whole document as .json, its rows only as .tsv or .parquet."""
    if path.suffix.lower() == ".json":
        with private_file(path) as file:
            file.write(f"{json.dumps(document, indent=1)}\n".encode())
        return
    rows = list(rows_of_document)
    if path.suffix.lower() == ".tsv":
        write_csv(path, rows, delimiter="\t")
    else:
        import pyarrow as pa  # noqa: PLC0415 heavy
        import pyarrow.parquet as pq  # noqa: PLC0415

        kinds = {int: pa.int64(), float: pa.float64()}
        values = {name: next((row[name] for row in rows if row[name] is not None), None) for name in rows[0]}
        schema = pa.schema([(name, kinds.get(type(value), pa.string())) for name, value in values.items()])
        with private_file(path) as file:
            pq.write_table(pa.Table.from_pylist(rows, schema), file)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], delimiter: str = ",") -> None:
    """Writes rows as a file that only its owner can read, because they may name patients."""
    with private_file(path) as file:
        file.write(csv_text(rows, delimiter=delimiter).encode())


def csv_text(rows: Sequence[Mapping[str, Any]], delimiter: str = ",") -> str:
    """Rows as CSV with column names in the first line, safe to open in a spreadsheet."""
    file = StringIO()
    writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def check_output_file(
    path: Path,
    *,
    inputs: Iterable[Path | None],
    galleries: Iterable[Path] = (),
    any_suffix: bool = False,
    force: bool = False,
) -> None:
    """Refuses a file name that names no format, is taken, or would overwrite what the output is made of."""
    if not any_suffix and path.suffix.lower() not in SUFFIXES:
        raise MienError(f"{path}: the suffix names the format: use one of {', '.join(SUFFIXES)}")
    inside = any(path.resolve().is_relative_to(gallery.resolve()) for gallery in galleries)
    if inside or path.resolve() in [file.resolve() for file in inputs if file is not None]:
        raise MienError(f"{path}: this would overwrite the gallery or the input: choose another name")
    if not path.parent.is_dir():
        raise MienError(f"{path}: there is no folder {path.parent}: make it, or choose another name")
    refuse_existing(path, force=force)


def _cell(value: Any) -> Any:
    """Escapes control characters, and puts a quote before what a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    text = value if value.isprintable() else shown(value, longest=len(value))[1:-1]
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text

"""Results of LIRICAL 2: its table (.tsv), or its JSON, which lists the ratio of every HPO term."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from mien.errors import InvalidFileError, shown, shown_ids
from mien.storage.formats.text_tables import Table, header_of, read_text

COLUMNS = ("rank", "diseaseName", "diseaseCurie", "pretestprob", "posttestprob", "compositeLR")
WITH_VARIANTS = ("entrezGeneId", "variants")
OTHER_SPELLING = {"postestprob": "posttestprob"}  # of its documentation
FACE = ("HP:0000234", "HP:0000356", "HP:0030669")  # head with the face, outer ear, eyelids with brows and lashes
TERMS = ("observedPhenotypicFeatures", "excludedPhenotypicFeatures")


class Lirical(NamedTuple):
    """What LIRICAL says of one patient, by disease: OMIM:147920."""

    version: str
    log10_ratio_of: dict[str, float]
    name_of: dict[str, str]
    face_terms: tuple[str, ...] = ()  # HPO terms that are not in the ratios


def read_lirical(path: Path, face_terms: Collection[str] = ()) -> Lirical:
    """Reads a result; from JSON the ratios of some HPO terms can be left out."""
    text = read_text(path)
    if path.suffix.lower() == ".json":
        return _of_json(path, _parsed(path, text), face_terms)
    if face_terms:
        raise InvalidFileError(path, ["a table has no ratio of each HPO term: give LIRICAL's JSON to leave some out"])
    return _of_table(path, text)


def _of_table(path: Path, text: str) -> Lirical:
    lines = text.splitlines()
    begin = next((place for place, line in enumerate(lines) if not line.startswith("!")), 0)
    version = _version(path, re.search(r"^! LIRICAL TSV Output \((.*)\)", text, flags=re.MULTILINE))
    body = "\n".join([lines[begin], *[""] * begin, *lines[begin + 1 :]])  # so that rows keep their numbers
    names, separator = header_of(Path("lirical.tsv"), body)
    ours = [OTHER_SPELLING.get(name, name) for name in names]
    if unknown := [name for name in ours if name not in {*COLUMNS, *WITH_VARIANTS}]:
        raise InvalidFileError(path, [f"the column {shown(name)} is not one of LIRICAL 2" for name in unknown])
    found, name_of = {}, {}

    def take(row: dict[str, str]) -> str | None:
        disease = row["diseaseCurie"]
        if disease in found:
            return f"disease {shown(disease)} is there twice"
        try:
            found[disease] = _finite(float(row["compositeLR"]))
        except ValueError:
            return f"compositeLR is {shown(row['compositeLR'])}, not a number with a decimal point"
        name_of[disease] = row["diseaseName"]
        return None

    Table(path, body, ours, separator).each_row(COLUMNS, take)
    return Lirical(version, found, name_of)


def _of_json(path: Path, content: Any, face_terms: Collection[str]) -> Lirical:
    """Ratios are not logarithms there."""
    found, left_out = {}, set()
    try:
        version = _version(path, re.fullmatch("(.*)", content["analysisMetadata"]["liricalVersion"]))
        for result in content["analysisResults"]:
            log10_ratio = _finite(math.log10(result["compositeLR"]))
            for term in (term for kind in TERMS for term in result[kind] if term["query"] in face_terms):
                log10_ratio -= _finite(math.log10(term["lr"]))
                left_out.add(term["query"])
            found[str(result["diseaseId"])] = log10_ratio
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidFileError(path, [f"it is no result of LIRICAL 2 ({type(error).__name__}: {error})"]) from error
    return Lirical(version, found, {}, tuple(sorted(left_out)))


def _version(path: Path, found: re.Match[str] | None) -> str:
    if found is None or not re.match(r"v?2\.", found[1]):
        said = f"version {shown(found[1])} of LIRICAL" if found else "it does not begin like a table of LIRICAL"
        raise InvalidFileError(path, [f"{said}: mien reads results of LIRICAL 2"])
    return found[1]


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{number} is no ratio")
    return number


def read_face_terms(path: Path) -> frozenset[str]:
    """The terms of HPO (hp.json) that a face can show: head, outer ear, eyelids, and all that is below them."""
    try:
        edges = [edge for graph in _parsed(path, read_text(path))["graphs"] for edge in graph["edges"]]
        pairs = [(_curie(edge["sub"]), _curie(edge["obj"])) for edge in edges if edge["pred"] == "is_a"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidFileError(path, ["it is no hp.json of the HPO, as LIRICAL downloads it"]) from error
    below: dict[str, list[str]] = {}
    for child, parent in pairs:
        below.setdefault(parent, []).append(child)
    if missing := [root for root in FACE if root not in below]:
        raise InvalidFileError(path, [f"the HPO there has no terms below {shown_ids(missing)}: give a whole hp.json"])
    found, waiting = set(), list(FACE)
    while waiting:
        term = waiting.pop()
        if term not in found:
            found.add(term)
            waiting += below.get(term, [])
    return frozenset(found)


def _curie(uri: str) -> str:
    return uri.rpartition("/")[2].replace("_", ":")


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(path, [f"it is not JSON ({error})"]) from error

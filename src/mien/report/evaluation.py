"""Writes an evaluation as plain values, for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mien.answers.ranking import NOTICE
from mien.core.embeddings import Encoder
from mien.core.method import Method
from mien.core.study import MOST_PATIENTS_OF_RARE, Study
from mien.evaluation.bootstrap import RESAMPLES
from mien.evaluation.comparison import Comparison
from mien.evaluation.results import PatientRank, Result, not_in_gallery
from mien.report.rankings import write_rows
from mien.version import TOOL, __version__

DIGITS = 6  # further digits of a mean are noise
NORMALISED = (  # the figures: scripts/normalised.py
    "All embeddings have length one. So centroids and fused photos are means of unit vectors, and differ from the "
    "paper's, which averages raw embeddings: on simulated data by 0.23 points on average, 1.9 at most."
)
ROUNDED = {"p_value": 8, "p_top1": 8, "p_top5": 8}


def evaluation_document(
    study: Study, comparison: Comparison, results: Sequence[Result], *, seed: int, per_image: bool = False
) -> dict[str, Any]:
    """The answer as plain values, for JSON."""
    return _document(protocol_document(study, comparison, seed=seed, per_image=per_image), "results", results)


def write_ranks(path: Path, document: Mapping[str, Any], ranks: Iterable[PatientRank]) -> None:
    """Writes ranks in the format of the file's suffix. JSON has the whole document, too."""
    protocol = document["protocol"]
    provenance = {
        "source": protocol["source"],
        "encoder": str(Encoder.from_dict(protocol["encoder"])),
        "mien_version": __version__,
        "notice": NOTICE,
    }
    rows = [rank._asdict() for rank in ranks]
    write_rows(path, {**document, "ranks": rows}, (row | provenance for row in rows))


def beyond_paper_document(study: Study, name: str, rows: Sequence[NamedTuple], *, seed: int) -> dict[str, Any]:
    """Rows of an evaluation that the paper does not have, as plain values."""
    return _document({**_facts_of(study), "seed": seed}, name, rows)


def _document(protocol: dict[str, Any], name: str, rows: Sequence[NamedTuple]) -> dict[str, Any]:
    return {"tool": TOOL, "protocol": protocol, name: [as_row(row) for row in rows], "notice": NOTICE}


def _facts_of(study: Study) -> dict[str, Any]:
    return {
        "source": study.source,
        "simulated": study.simulated,
        "encoder": study.encodings.encoder.as_dict(),
        "folds": len(study.folds),
        "gallery_patients_per_disorder": study.gallery_patients or "all",
    }


def protocol_document(study: Study, comparison: Comparison, *, seed: int, per_image: bool = False) -> dict[str, Any]:
    """Everything that must be known to get the same numbers again."""
    return {
        **_facts_of(study),
        "normalised": study.encodings.normalised,
        "images": len(study.encodings.image_ids),
        "frequent": f"more than {MOST_PATIENTS_OF_RARE} patients",
        "measure": "images within disorder" if per_image else "images within patient, patients within disorder",
        "bootstrap": {"resamples": RESAMPLES, "seed": seed, "stages": ["disorders", "patients within disorder"]},
        "not_in_gallery": not_in_gallery(comparison),
        "tested_and_in_gallery": {
            "left_out_of_gallery_for_own_queries": not per_image,  # the older protocol leaves nobody out
            "patient_ids": sorted({patient_id for both in study.tested_and_in_gallery for patient_id in both}),
            "of_fold": {str(fold): list(both) for fold, both in enumerate(study.tested_and_in_gallery) if both},
        },
    }


def p_value_text(value: float) -> str:
    """A p-value as the paper prints it.

    >>> p_value_text(0.0004), p_value_text(0.0312)
    ('<0.001', '0.031')
    """
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def p_equals(value: float) -> str:
    """A p-value with its name, for the middle of a sentence.

    >>> p_equals(0.0004), p_equals(0.0312)
    ('p < 0.001', 'p = 0.031')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def as_row(row: NamedTuple) -> dict[str, Any]:
    """A row as files have it: rounded, a method in its parts, and the centroid's weight under the name lambda."""
    written: dict[str, Any] = {}
    for name, value in row._asdict().items():
        if isinstance(value, Method):
            written |= {"fusion": value.fusion, "score": value.score, "lambda": None, "alpha": None} | value.parameters
        else:
            rounded = round(value, ROUNDED.get(name, DIGITS)) if isinstance(value, float) else value
            written["lambda" if name == "centroid_weight" else name] = rounded
    return written

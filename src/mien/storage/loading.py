"""Encodings and metadata joined by image id, into a cohort or into queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mien.core.cohort import Cohort, Encodings, Query
from mien.errors import InvalidFileError, shown
from mien.progress import Progress
from mien.storage.formats import missing_encodings, read_encodings
from mien.storage.formats.annotations import Annotations
from mien.storage.formats.gmdb_tables import read_metadata


@dataclass(frozen=True)
class Source:
    """Where images come from: one encodings file, and the tables that say who is on them."""

    encodings: Path
    metadata: Sequence[Path] = ()
    encoder_name: str | None = None  # for files that do not say which encoder made them
    allow_missing: bool = False


@dataclass(frozen=True)
class LeftOut:
    """What the join did not take."""

    encodings_without_metadata: int
    images_without_encoding: tuple[str, ...]


def load_cohort(source: Source, progress: Progress) -> tuple[Cohort, LeftOut]:
    """Labelled images for a gallery; images without a label are left out."""
    encodings, annotations, left_out = _load(source, progress, labelled=True)
    if not annotations.labels:
        empty = "disorder_id" if annotations.patient_of else "patient_id"
        what = f"no image has both a patient and a disorder: the column {shown(empty)} is missing or empty"
        raise InvalidFileError(source.encodings, [f"{what}: fill it in, or give a table with --metadata"])
    return labelled_cohort(encodings, annotations), left_out


def labelled_cohort(encodings: Encodings, annotations: Annotations) -> Cohort:
    """The encodings that the annotations label."""
    present = set(encodings.image_ids)
    labels = [label for label in annotations.labels if label.image_id in present]
    return Cohort.join(encodings, labels, annotations.disorders)


def load_queries(source: Source, progress: Progress) -> tuple[list[Query], LeftOut]:
    """One query per patient, in the order of the table. Without patient ids, all images are of one patient."""
    encodings, annotations, left_out = _load(source, progress, labelled=False)
    if not encodings.image_ids:
        raise InvalidFileError(source.encodings, ["no images to rank"])
    if not annotations.patient_of:
        return [Query(encodings)], left_out
    return queries_of(encodings, annotations), left_out


def queries_of(encodings: Encodings, annotations: Annotations) -> list[Query]:
    """One query per patient, in the order of the annotations."""
    row_of = {image_id: row for row, image_id in enumerate(encodings.image_ids)}
    rows_of_patient: dict[str, list[int]] = {}
    for image_id, patient_id in annotations.patient_of.items():
        if image_id in row_of:
            rows_of_patient.setdefault(patient_id, []).append(row_of[image_id])
    return [Query(encodings.only(rows), patient_id) for patient_id, rows in rows_of_patient.items()]


def _load(source: Source, progress: Progress, *, labelled: bool) -> tuple[Encodings, Annotations, LeftOut]:
    annotations = read_metadata(source.metadata, labelled=labelled) if source.metadata else Annotations()
    if not annotations.patient_of:  # at most names of disorders: a cohort table has its own labels
        file = read_encodings(source.encodings, labelled=labelled, progress=progress)
        file.annotations.disorders |= annotations.disorders
        return file.with_encoder_name(source.encoder_name), file.annotations, LeftOut(0, ())
    file = read_encodings(source.encodings, wanted=annotations.patient_of, labelled=False, progress=progress)
    missing = file.missing(annotations.patient_of)
    if missing and not source.allow_missing:
        raise missing_encodings(source.encodings, missing, otherwise="go on without them with --allow-missing")
    annotations.disorders = {**file.annotations.disorders, **annotations.disorders}
    return file.with_encoder_name(source.encoder_name), annotations, LeftOut(file.left_out, missing)

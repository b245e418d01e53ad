"""Encodings files, recognised by their content, joined with metadata by image id: into a cohort or into queries."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from mien.core.cohort import Cohort, Encodings, Query
from mien.core.embeddings import Encoder
from mien.errors import InvalidFileError, shown
from mien.progress import Progress, silent
from mien.storage.formats.annotations import Annotations, EncodingsFile
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


def missing_encodings(path: Path, image_ids: Sequence[str], *, otherwise: str) -> InvalidFileError:
    """The error for labelled images that an encodings file lacks; `otherwise` is advice beside encoding them."""
    problems = [f"no encoding of image {shown(image_id)}" for image_id in image_ids]
    return InvalidFileError(path, problems, advice=f"encode these images, or {otherwise}")


def check_writable(path: Path, image_ids: Sequence[str], encoder: Encoder) -> None:
    """Refuses encodings that could not be written under this name, before they are made."""
    if path.suffix.lower() == ".csv":
        from mien.storage.formats.gm_arc_csv import check_gm_arc  # noqa: PLC0415 heavy

        check_gm_arc(path, image_ids, encoder)


def write_encodings(path: Path, encodings: Encodings, progress: Progress) -> None:
    """Writes Parquet, or the GM-Arc layout where the name ends in .csv; the file is there completely or not at all."""
    from mien.storage.formats.cohort_parquet import write_encodings_parquet  # noqa: PLC0415 pyarrow is heavy
    from mien.storage.formats.gm_arc_csv import write_gm_arc_csv  # noqa: PLC0415

    write = write_gm_arc_csv if path.suffix.lower() == ".csv" else write_encodings_parquet
    write(path, encodings, progress)


def read_encodings(
    path: Path,
    *,
    wanted: Container[str] | None = None,
    labelled: bool = True,
    progress: Progress = silent,
) -> EncodingsFile:
    """Reads GM-Arc CSV, a pickled frame or dict, cohort Parquet or cohort CSV; of it the wanted images, or all.

    `labelled`: a cohort's disorders count, and none may be blank.
    """
    if path.exists() and not path.is_file():
        raise InvalidFileError(path, ["it is not a regular file: save it as one first"])
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise InvalidFileError(path, [f"{error.strerror}: check the path"]) from error
    if start.startswith(b"PAR1"):
        from mien.storage.formats.cohort_parquet import read_cohort_parquet  # noqa: PLC0415 pyarrow is heavy

        return read_cohort_parquet(path, wanted, labelled=labelled)
    if start.startswith(b"\x1f\x8b"):
        raise InvalidFileError(path, ["it is compressed: unpack it first"])
    if start.startswith(b"\x80"):
        from mien.storage.formats.gm_arc_pickle import read_gm_arc_pickle  # noqa: PLC0415

        return read_gm_arc_pickle(path, wanted)
    if b"img_name" in start.split(b"\n")[0]:
        from mien.storage.formats.gm_arc_csv import read_gm_arc_csv  # noqa: PLC0415

        return read_gm_arc_csv(path, wanted, progress)
    from mien.storage.formats.cohort_csv import read_cohort_csv  # noqa: PLC0415

    return read_cohort_csv(path, wanted, labelled=labelled)

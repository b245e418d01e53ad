"""Measures the default encoder on a folder of faces, FOLDER/person/photo_N.jpg; prints the tables of docs/faces.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.metrics import roc_auc_score

from mien.core.cohort import Cohort
from mien.core.embeddings import mean_cosine_distance, unit_rows
from mien.core.method import BASELINE, FULL
from mien.encoding.photo_encoder import EncodedPhoto, Photo
from mien.encoding.store import DEFAULT, stored_encoder
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.folds import cohort_study
from mien.evaluation.results import Result, evaluate

SIDES = (None, 40, 32, 28)  # the photos as they are, then shrunk to so many pixels and enlarged again
PATIENT_OF_PHOTO = ("a", "a", "b", "c", "c")  # a person's photos as those of three patients, one of them tested


def photos_of(folder: Path, side: int | None) -> list[Photo]:
    """All photos, perhaps with less to see on them."""
    paths = sorted(folder.glob("*/*.jpg"))
    return [
        Photo(path.relative_to(folder).as_posix(), path.read_bytes() if side is None else _shrunk(path, side), "main")
        for path in paths
    ]


def _shrunk(path: Path, side: int) -> bytes:
    with Image.open(path) as photo:
        small = photo.convert("RGB").resize((side, side), Image.Resampling.BOX)
        buffer = BytesIO()
        small.resize(photo.size, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def identity_row(encoded: Sequence[EncodedPhoto]) -> list[str]:
    """How well photos of one person are told from photos of two."""
    persons = np.array([photo.image_id.split("/")[0] for photo in encoded])
    nearest, aucs = [], []
    for views in (slice(None), slice(1)):
        rows = unit_rows(np.stack([photo.embedding[views] for photo in encoded]))
        distances = mean_cosine_distance(rows, rows)
        same, pairs = persons[:, None] == persons, np.triu_indices(len(persons), 1)
        aucs.append(roc_auc_score(same[pairs], -distances[pairs]))
        np.fill_diagonal(distances, np.inf)
        nearest.append(persons[distances.argmin(axis=1)])
    rank_1 = (nearest[0] == persons).mean()
    return [f"{len(encoded)}", f"{aucs[0]:.5f}", f"{rank_1:.3f}", f"{(nearest[0] != nearest[1]).mean():.3f}"]


def disorder_row(encoded: Sequence[EncodedPhoto]) -> list[str]:
    """Every person as a disorder with three patients: baseline and full method, end to end from photos."""
    persons = [photo.image_id.split("/")[0] for photo in encoded]
    places = [int(Path(photo.image_id).stem.rpartition("_")[2]) for photo in encoded]
    cohort = Cohort.of(
        np.stack([photo.embedding for photo in encoded]),
        image_ids=[photo.image_id for photo in encoded],
        patient_ids=[f"{person} {PATIENT_OF_PHOTO[place]}" for person, place in zip(persons, places, strict=True)],
        disorder_ids=persons,
    )
    study = cohort_study(cohort, "faces", seed=1)
    methods = (BASELINE, FULL)
    results = evaluate(Comparison(study.encodings, evaluated_folds(study), methods=methods), methods, seed=1)
    base, full = (result for result in results if result.set == "rare" and result.gallery == "unified")
    return [f"{base.top1:.1f}", f"{full.top1:.1f}", _difference(full), f"{base.top5:.1f}", f"{full.top5:.1f}"]


def _difference(full: Result) -> str:
    return f"{full.delta_top1:+.1f} ({full.ci_low_top1:+.1f} to {full.ci_high_top1:+.1f})"


def main() -> None:
    """Prints both tables, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    encoder = stored_encoder(DEFAULT).load()
    for side in SIDES:
        results = list(encoder.encode(photos_of(folder, side)))
        encoded = [result for result in results if isinstance(result, EncodedPhoto)]
        what = "as they are" if side is None else f"shrunk to {side} x {side}"
        print(f"| {what} | {' | '.join(identity_row(encoded))} |")
        print(f"| {what} | {' | '.join(disorder_row(encoded))} |", flush=True)


if __name__ == "__main__":
    main()

"""The whole study, and the four official pairs of test set and gallery."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from mien.benchmark.measure import Line, best_of
from mien.benchmark.ranking import usual_ranking
from mien.core.arrays import Float64s, Ints
from mien.core.embeddings import unit_rows
from mien.core.method import BASELINE
from mien.core.roster import Label
from mien.core.study import Study
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import EvaluatedFold, evaluated_folds
from mien.evaluation.results import evaluate
from mien.report.reproduction import reproduce


def studying_benchmarks(study: Study) -> Iterator[Line]:
    """Of a simulated GMDB; the usual way gets one fold, of ten it would take ten times as long."""
    folds = evaluated_folds(study)
    ours, usual = best_of(1, partial(_four_pairs, study, folds[:1]), partial(_usual_four_pairs, study, folds[0]))
    yield Line("evaluate the four official pairs, one fold", ours, "the usual way", usual, "")
    with tempfile.TemporaryDirectory() as directory:
        reproducing, products = best_of(
            1, lambda: reproduce(study, Path(directory) / "report", seed=1), _bare_products(study, folds)
        )
    yield Line("reproduce: all tables and figures", reproducing, "the bare matrix products it needs", products, "")


def _four_pairs(study: Study, folds: tuple[EvaluatedFold, ...]) -> object:
    return evaluate(Comparison(study.encodings, folds, methods=[BASELINE]), [BASELINE], per_image=True)


def _usual_four_pairs(study: Study, one: EvaluatedFold) -> object:
    embeddings = study.encodings.embeddings
    for patients, own in zip(one.patients.values(), one.galleries, strict=True):
        photos = embeddings[[image for patient in patients for image in patient.images]]
        for gallery in (own, one.unified_gallery):
            usual_ranking(photos, embeddings[_rows(study, gallery)], _disorders(gallery))
    return None


def _bare_products(study: Study, folds: tuple[EvaluatedFold, ...]) -> Callable[[], object]:
    """Each distinct test image and fused patient times each distinct gallery image, and the same for validation."""
    patients = {patient for one in folds for patient in (*one.patients["freq"], *one.patients["rare"])}
    images = sorted({image for patient in patients for image in patient.images})
    # as many rows as there are fused patients, whichever they are
    fused = [patient.images[0] for patient in sorted(patients) if len(patient.images) > 1]
    gallery_of_all = {label for one in folds for label in one.unified_gallery}
    gallery = _unit(study, sorted({study.row_of_image[label.image_id] for label in gallery_of_all}))
    tested = _unit(study, images + fused)
    validation = _unit(study, _rows(study, study.validation))
    trained = gallery[: len(gallery) - len(validation)]
    return lambda: (tested @ gallery.T, validation @ trained.T)


def _unit(study: Study, rows: list[int]) -> Float64s:
    return unit_rows(study.encodings.embeddings[rows])


def _rows(study: Study, labels: tuple[Label, ...]) -> list[int]:
    return [study.row_of_image[label.image_id] for label in labels]


def _disorders(labels: tuple[Label, ...]) -> Ints:
    return np.unique([label.disorder_id for label in labels], return_inverse=True)[1].astype(np.intp)

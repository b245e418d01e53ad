"""Figure 1: the method on one patient, chosen by a rule and not by eye."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from mien.answers.ranking import rank
from mien.core.arrays import Ints
from mien.core.centroids import patient_weighted_centroid
from mien.core.cohort import Cohort, Query
from mien.core.embeddings import unit_rows
from mien.core.method import BASELINE, FULL, Method
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.experiments.rank_changes import CENSORED_AT

PANELS = {
    "A": BASELINE,
    "B1": Method("embedding", "nearest"),
    "B2": Method("embedding", "patient-centroid"),
    "B3": FULL,
}
OTHER = "A, other image"  # only the true disorder of its list
LISTED = 5  # lines of each list
DRAWN = 3  # first disorders of the first and of the last list, beside the true one


class OverviewLine(NamedTuple):
    """The first lines of the list that a panel ends in, and the true disorder's."""

    panel: str
    rank: int
    disorder_id: str
    disorder_name: str | None
    distance: float
    true_disorder: bool


class OverviewPoint(NamedTuple):
    """One image or mean in the plane that tells the disorders' centroids apart best."""

    kind: str  # gallery image, centroid, the image (of panel A), other image, fused
    disorder_id: str
    nearest: bool  # of its disorder's gallery images, to the image of panel A
    x: float
    y: float


def run(context: ExperimentContext) -> Tables:
    """Of the multi-image patients of frequent disorders who gain, the one in the middle: with the median gain.

    The gain is from the rank of a patient's middle image by the baseline (of two the worse one), which panel A shows,
    to the rank by the full method; ranks are censored, the gallery is that of the first fold.
    """
    nothing: Tables = {"overview": [], "overview_points": []}
    if "multi-freq" not in context.sets:
        return nothing
    single, full = (context.ranks("multi-freq", method)[0] for method in (BASELINE, FULL))
    ranks_of = [single.ranks[single.patient_of_ranking == patient] for patient in range(len(single.patients))]
    before = np.array([ranks[_middle(ranks)] for ranks in ranks_of])
    gains = np.minimum(before, CENSORED_AT) - np.minimum(full.ranks, CENSORED_AT)
    improved = np.flatnonzero(gains > 0)
    if not len(improved):
        return nothing
    chosen = improved[_middle(gains[improved])]
    patient = single.patients[chosen]
    labels = single.fold.unified_gallery
    gallery = Cohort.join(context.study.encodings, labels, context.study.disorders)
    query = Query(context.study.encodings.only(patient.images), patient.patient_id)
    return _overview(gallery, query, patient.disorder_id, _middle(ranks_of[chosen]))


def _middle(values: Ints) -> int:
    """Where the median stands; of an even number the upper one."""
    return int(np.argsort(values, kind="stable")[len(values) // 2])


def _overview(gallery: Cohort, query: Query, true_disorder: str, shown: int) -> Tables:
    answers = {panel: rank(gallery, query, method, top=None) for panel, method in PANELS.items()}
    lists = {panel: of[shown if panel == "A" else 0].disorders for panel, of in answers.items()}
    others = [answer.disorders for image, answer in enumerate(answers["A"]) if image != shown]
    lines = [
        OverviewLine(panel, *line[:3], line.distance, true_disorder=line.disorder_id == true_disorder)
        for panel, disorders in (*lists.items(), *((OTHER, of_image) for of_image in others))
        for line in disorders
        if (line.rank <= LISTED and panel != OTHER) or line.disorder_id == true_disorder
    ]
    first = {true_disorder, *(line.disorder_id for panel in ("A", "B3") for line in lists[panel][:DRAWN])}
    nearest = {line.nearest_image_id for line in lists["A"] if line.disorder_id in first}
    points, rows, centroids = [], [], []
    for disorder in sorted(gallery.roster.disorder_of_id[disorder_id] for disorder_id in first):
        images = gallery.roster.images_with(disorder)
        units, patients = unit_rows(gallery.embeddings[images]), gallery.roster.patient_of_image[images]
        rows.append(units)
        centroids.append(patient_weighted_centroid(units, patients).mean[np.newaxis])
        disorder_id, image_ids = gallery.roster.disorders[disorder].disorder_id, gallery.roster.image_ids
        points += [("gallery image", disorder_id, image_ids[image] in nearest) for image in images.tolist()]
    points += [("centroid", disorder_id, False) for disorder_id in dict.fromkeys(point[1] for point in points)]
    own = unit_rows(query.encodings.embeddings)
    kinds = ["the image" if image == shown else "other image" for image in range(len(own))]
    points += [(kind, true_disorder, False) for kind in (*kinds, "fused")]
    # means of unit rows stand in the middle of what they are means of, which those of raw embeddings would not
    plane = PCA(2, svd_solver="full").fit(np.concatenate(centroids))
    places = plane.transform(np.concatenate([*rows, *centroids, own, own.mean(axis=0, keepdims=True)])).tolist()
    placed = [OverviewPoint(*point, x, y) for point, (x, y) in zip(points, places, strict=True)]
    return {"overview": lines, "overview_points": placed}

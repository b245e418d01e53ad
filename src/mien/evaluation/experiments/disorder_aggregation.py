"""Table 3: disorders as centroids, and the centroid weighed against the nearest photo."""

from __future__ import annotations

from mien.core.method import BASELINE, Method
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.results import evaluate

METHODS = (BASELINE, *(Method("none", score) for score in ("image-centroid", "patient-centroid", "hybrid")))


def run(context: ExperimentContext) -> Tables:
    """Each image alone, all patients, unified gallery."""
    sets = context.all_patients
    rows = evaluate(context.comparison, METHODS, seed=context.seed, sets=sets, galleries=["unified"])
    return {"disorder_aggregation": rows}

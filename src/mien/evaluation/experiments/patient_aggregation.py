"""Table 2: several photos of a patient, combined before or after the comparison."""

from __future__ import annotations

from mien.core.method import BASELINE, Method
from mien.evaluation.experiment_context import ExperimentContext, Tables
from mien.evaluation.results import evaluate

METHODS = (BASELINE, Method("distance", "nearest"), Method("embedding", "nearest"))


def run(context: ExperimentContext) -> Tables:
    """Nearest-image retrieval of multi-image patients in the unified gallery."""
    sets = context.multi_image_patients
    rows = evaluate(context.comparison, METHODS, seed=context.seed, sets=sets, galleries=["unified"])
    return {"patient_aggregation": rows}

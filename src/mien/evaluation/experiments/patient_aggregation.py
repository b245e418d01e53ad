"""Table 2: several photos of a patient, combined before or after the comparison."""

from __future__ import annotations

from mien.core.method import BASELINE, Method
from mien.evaluation.lab import Lab, Tables
from mien.evaluation.results import evaluate

METHODS = (BASELINE, Method("distance", "nearest"), Method("embedding", "nearest"))


def run(lab: Lab) -> Tables:
    """Nearest-image retrieval of multi-image patients in the unified gallery."""
    sets = [name for name in lab.sets if name.startswith("multi")]
    return {"patient_aggregation": evaluate(lab.comparison, METHODS, seed=lab.seed, sets=sets, galleries=["unified"])}

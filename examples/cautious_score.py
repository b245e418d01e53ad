"""A score of your own: the hybrid, with a weight of the centroid that falls with the number of patients behind it.

The centroid of two patients is mostly noise of these two, and the nearest photo of hundreds is near by chance. So the
weight of the nearest image grows with the number of gallery patients, and never reaches one.

Nothing of mien has to be edited. From the command line, with this file's folder on PYTHONPATH:

    mien rank --gallery gallery --encodings cohort.csv --score cautious_score:SCORE --parameter half=10
    mien evaluate --cohort cohort.csv --score cautious_score:SCORE --against full

A package that is installed can name it once, and then it is in `mien rank --help`:

    [project.entry-points."mien.scores"]
    cautious = "cautious_score:SCORE"
"""

from __future__ import annotations

from typing import Any

import mien
from mien import Evidence, Method, Parameter, Score

HALF = Parameter(
    "half", default=20.0, low=0.0, high=1000.0, help="Patients at which the nearest image has half its weight."
)
MOST = Parameter("most", default=0.5, low=0.0, high=1.0, help="Weight of the nearest image with very many patients.")


def cautious_distance(evidence: Evidence, *, half: float, most: float) -> Any:
    """Weighted mean of the nearest image and the centroid; the weight depends on the number of gallery patients."""
    weight = most * evidence.gallery_patients / (evidence.gallery_patients + half)
    return weight * evidence.nearest + (1 - weight) * evidence.centroid


SCORE = Score("cautious", cautious_distance, parameters=(HALF, MOST))


def compared(study: mien.Study, **parameters: float) -> list[str]:
    """A line for each test set of a study: top-1 of both methods, and their difference at top-5."""
    results = mien.evaluate(study, [Method(score=SCORE, **parameters)], against=mien.FULL)
    return [
        f"{result.set:10} {result.gallery:8} {result.score:8} top-1 {result.top1:5.1f}"
        f"   top-5 against full {result.delta_top5:+.1f}"
        for result in results
    ]


if __name__ == "__main__":
    from mien.simulation.study import simulated_gmdb

    print("Simulated patients: nobody here exists.")
    print("\n".join(compared(simulated_gmdb(1))))

"""`mien demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from mien.cli import show
from mien.core.cohort import Cohort
from mien.core.method import BASELINE, FULL, Method
from mien.core.outcomes import patient_outcomes
from mien.core.ranking import rank
from mien.report.rankings import NOTICE
from mien.simulation.cohort import simulated_cohort
from mien.storage.gallery import Gallery

SEED = 9
PATIENTS_OF_DISORDER = [12, 8, 6, 5, 4, 3, 3, 2, 2, 1]
SHOWN_PATIENT = "patient-026"  # whose photos disagree


def demo() -> None:
    """The whole job on a few simulated patients: a gallery, a query with several photos, two rankings."""
    out = show.console()
    cohort = simulated_cohort(np.random.default_rng(SEED), patients_of_disorder=PATIENTS_OF_DISORDER)
    [query] = [query for query in cohort.queries() if query.patient_id == SHOWN_PATIENT]
    [truth] = {label.disorder_id for label in cohort.roster.labels() if label.patient_id == SHOWN_PATIENT}
    out.print("[bold yellow]Simulated data:[/] nobody here exists; the numbers say nothing about real patients.\n")
    with tempfile.TemporaryDirectory() as directory:
        Gallery.build(Path(directory), cohort)
        gallery = Gallery.open(directory)
        out.print(
            f"A gallery of {len(gallery.roster.patient_ids)} patients with {len(gallery.roster.disorders)} disorders."
            f" One of them, {SHOWN_PATIENT}, is the query and left out of it: {len(query.encodings.image_ids)} photos,"
            f" which disagree. The true disorder is {truth}.\n"
        )
        out.print("[bold]1. The baseline:[/] each photo alone; the nearest gallery photo decides.\n")
        show.print_rankings(rank(gallery, query, BASELINE, top=3))
        out.print("\n[bold]2. The full method:[/] all photos fused; disorder centroid and nearest photo weighed.\n")
        show.print_rankings(rank(gallery, query, FULL, top=5))
    baseline, full = (100 * _share_first(cohort, method) for method in (BASELINE, FULL))
    out.print(
        f"\nWith each patient left out in turn, the true disorder is first for {baseline:.0f} % with the baseline"
        f" and for {full:.0f} % with the full method (simulated)."
    )
    out.print(f"\n[dim]Distances: smaller is closer. {NOTICE}[/]")
    out.print("Next, with your own patients: [cyan]mien gallery build DIR --encodings FILE --metadata FILE...[/]")


def _share_first(cohort: Cohort, method: Method) -> float:
    """Share of patients whose true disorder is ranked first, when each is the query once."""
    disorder_of = {label.patient_id: label.disorder_id for label in cohort.roster.labels()}
    rankings = rank(cohort, cohort.queries(), method, top=1)
    places = [1 if r.disorders[0].disorder_id == disorder_of[str(r.patient_id)] else 2 for r in rankings]
    patients = [cohort.roster.patient_of_id[str(ranking.patient_id)] for ranking in rankings]
    return float(patient_outcomes(np.array(places), np.array(patients), top=1).mean())

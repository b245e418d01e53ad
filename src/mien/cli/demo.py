"""`mien demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from mien.cli import show
from mien.core.cohort import Cohort
from mien.core.method import BASELINE, FULL
from mien.core.ranking import rank
from mien.simulation.cohort import simulated_cohort
from mien.storage.gallery import Gallery


def demo() -> None:
    """The whole job on a few simulated patients: a gallery, a query with several photos, two rankings."""
    out = show.console()
    patients_of_disorder = [12, 8, 6, 5, 4, 3, 3, 2, 2, 1]
    everybody = simulated_cohort(np.random.default_rng(7), patients_of_disorder=patients_of_disorder)
    query = max(everybody.queries(), key=lambda query: len(query.encodings.image_ids))
    labels = [label for label in everybody.roster.labels() if label.patient_id != query.patient_id]
    [truth] = {label.disorder_id for label in everybody.roster.labels() if label.patient_id == query.patient_id}
    names = {disorder.disorder_id: disorder for disorder in everybody.roster.disorders}
    out.print("[bold yellow]Simulated data:[/] nobody here exists; the numbers say nothing about real patients.\n")
    with tempfile.TemporaryDirectory() as directory:
        Gallery.build(Path(directory) / "gallery", Cohort.join(everybody.encodings, labels, names))
        gallery = Gallery.open(Path(directory) / "gallery")
        out.print(
            f"A gallery of {len(gallery.roster.patient_ids)} patients, and one query: patient {query.patient_id},"
            f" {len(query.encodings.image_ids)} photos, who has {names[truth].name}.\n"
        )
        out.print("[bold]1. As GestaltMatcher-Arc does it:[/] each photo alone, the nearest gallery photo decides.")
        show.print_rankings(rank(gallery, query, BASELINE, top=3), gallery, BASELINE)
        out.print("\n[bold]2. The full method:[/] all photos fused, disorder centroid and nearest photo mixed.")
        show.print_rankings(rank(gallery, query, FULL, top=5), gallery, FULL)
    out.print("\nNext: [cyan]mien gallery build DIR --encodings FILE --metadata FILE...[/] with your own patients.")

"""`mien demo`."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from mien.answers.ranking import NOTICE, rank
from mien.cli import show, show_study
from mien.cli.serve import PORT, serve_demo
from mien.core.cohort import Cohort, Query
from mien.core.method import BASELINE, FULL
from mien.core.study import Study
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import EvaluatedPatient, evaluated_folds
from mien.evaluation.results import evaluate
from mien.report.evaluation import protocol_document

SEED = 1
PHOTOS = 3  # of the patient who is shown


def demo(
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the web page on simulated patients instead, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="The page's port; 0 takes a free one.", min=0, max=65535)] = PORT,
) -> None:
    """The whole job on a simulated GMDB: the study's headline, then one patient. Needs no data, takes half a minute."""
    if serve:
        serve_demo(port)
        return
    from mien.simulation.study import simulated_gmdb  # noqa: PLC0415 scipy is heavy

    out = show.console()
    with show.progress("simulating"):
        study = simulated_gmdb(SEED)
    with show.progress("comparing") as report:
        comparison = Comparison(study.encodings, evaluated_folds(study), methods=[BASELINE, FULL], progress=report)
        results = evaluate(comparison, [BASELINE, FULL], seed=SEED, galleries=["unified"])
    out.print("[bold]1. How often is the true disorder first?[/] In a database of GMDB's shape:\n")
    show_study.print_study(study, protocol_document(study, comparison, seed=SEED))
    show_study.print_results(results, published=True)
    _show_patient(study, comparison)
    out.print(f"\n[dim]Distances: smaller is closer. {NOTICE}[/]\n")
    out.print("Next: every table and figure of the paper  [cyan]mien reproduce --out report[/]")
    out.print("      the web page                         [cyan]mien demo --serve[/]")
    out.print("      your own patients                    [cyan]mien gallery build DIR --encodings FILE ...[/]")


def _show_patient(study: Study, comparison: Comparison) -> None:
    patient = _patient_with_disagreeing_photos(comparison)
    query = Query(study.encodings.only(patient.images), patient.patient_id)
    fold = study.folds[0]
    with show.progress("building the gallery"):
        labels = [*fold.frequent.gallery, *fold.rare.gallery]
        gallery = Cohort.join(study.encodings, labels, study.disorders)
        baseline, full = rank(gallery, query, BASELINE, top=3), rank(gallery, query, FULL, top=5)
    out = show.console()
    out.print(
        f"[bold]2. One patient[/] with {len(patient.images)} photos, chosen because they disagree. The true disorder is"
        f" [bold]{study.disorders[patient.disorder_id].name}[/].\n"
    )
    out.print("The baseline: each photo alone; the nearest gallery photo decides.\n")
    show.print_rankings(baseline)
    out.print("\nThe full method: all photos fused; disorder centroid and nearest photo weighed.\n")
    show.print_rankings(full)


def _patient_with_disagreeing_photos(comparison: Comparison) -> EvaluatedPatient:
    """The patient whose photos disagree most, of those whom the full method ranks right."""
    single, fused = (comparison.ranks("multi-freq", "unified", method)[0] for method in (BASELINE, FULL))
    spread = [
        int(np.ptp(single.ranks[single.patient_of_ranking == place]))
        if len(patient.images) == PHOTOS and fused.ranks[place] == 1
        else -1
        for place, patient in enumerate(single.patients)
    ]
    return single.patients[int(np.argmax(spread))]

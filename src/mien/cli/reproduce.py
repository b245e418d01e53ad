"""`mien reproduce`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show, show_study
from mien.cli.evaluate import GmdbEncodingsOption, GmdbOption, StrictOption, load_gmdb, on_cluster
from mien.report.report_folder import check_report_folder
from mien.storage.formats.gmdb_folder import read_releases

SIMULATED_RUNS = 3  # the agreement with the paper is the mean over so many simulated databases


def reproduce(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write: index.html and all files.")],
    gmdb: GmdbOption = None,
    encodings: GmdbEncodingsOption = None,
    versions: Annotated[
        Path | None, typer.Option(readable=False, help="Table of database versions: version, released, folder.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run this experiment only; can be repeated.")
    ] = None,
    growth: Annotated[int | None, typer.Option(help="Without --gmdb: simulate so many times the size.", min=1)] = None,
    seed: options.SeedOption = 1,
    strict: StrictOption = False,
    force: options.ForceOption = False,
    encoder: options.EncoderOption = None,
    cluster: options.ClusterOption = None,
    json: options.JsonOption = False,
) -> None:
    """Every table and figure of the paper beside the published numbers; without --gmdb on a simulated GMDB."""
    from mien.evaluation.experiments import EXPERIMENTS  # noqa: PLC0415 figures and scipy are heavy
    from mien.report import reproduction  # noqa: PLC0415
    from mien.simulation.study import simulated_gmdb  # noqa: PLC0415

    if unknown := [name for name in only or () if name not in EXPERIMENTS]:
        raise typer.BadParameter(f"--only {unknown[0]}: give one of {', '.join(EXPERIMENTS)}")
    simulated = gmdb is None and encodings is None
    if growth is not None and not simulated:
        raise typer.BadParameter("--growth belongs to the simulated GMDB: give it without --gmdb and --encodings")
    check_report_folder(out, force=force)
    releases = read_releases(versions) if versions else []
    if simulated:
        with show.progress("simulating"):
            study = simulated_gmdb(seed, growth=growth or 1)
    else:
        study = load_gmdb(gmdb, encodings, encoder)
    if strict:
        study.refuse_tested_in_gallery()
    chosen = [name for name in EXPERIMENTS if not only or name in only]
    alike = simulated and not only and growth is None
    others = range(seed + 1, seed + SIMULATED_RUNS) if alike else ()
    with on_cluster(cluster) as places, show.named_progress("reproducing") as report:
        parts = None
        if places:
            parts = places.of_simulation(seed, growth or 1) if simulated else places.of_file(encodings or Path())
        done = reproduction.reproduce(
            study,
            out,
            seed=seed,
            force=force,
            only=chosen,
            releases=releases,
            parts=parts,
            siblings=[
                (partial(simulated_gmdb, other), places.of_simulation(other, 1) if places else None) for other in others
            ],
            progress=report,
        )
    if json:
        document = reproduction.reproduction_document(done)
        show.print_json({name: value for name, value in document.items() if name != "tables"})
    else:
        show_study.print_reproduction(done, out)

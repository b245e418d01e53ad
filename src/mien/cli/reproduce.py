"""`mien reproduce`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show, show_study
from mien.cli.evaluate import GmdbEncodingsOption, GmdbOption, SeedOption, load_gmdb
from mien.storage.formats.gmdb_folder import read_releases

SIMULATED_RUNS = 3  # the agreement with the paper is the mean over so many simulated databases


def reproduce(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write: index.html and all files.")],
    gmdb: GmdbOption = None,
    encodings: GmdbEncodingsOption = None,
    versions: Annotated[
        Path | None,
        typer.Option("--versions", readable=False, help="Table of database versions: version, released, folder."),
    ] = None,
    seed: SeedOption = 1,
    encoder: options.EncoderOption = None,
    json: options.JsonOption = False,
) -> None:
    """Every table and figure of the paper beside the published numbers; without --gmdb on a simulated GMDB."""
    from mien.report import reproduction  # noqa: PLC0415 figures and scipy are heavy
    from mien.simulation.study import simulated_gmdb  # noqa: PLC0415

    reproduction.check_out(out)
    releases = read_releases(versions) if versions else []
    simulated = gmdb is None and encodings is None
    if simulated:
        with show.progress("simulating"):
            study = simulated_gmdb(seed)
    else:
        study = load_gmdb(gmdb, encodings, encoder)
    siblings = [partial(simulated_gmdb, seed + number) for number in range(1, SIMULATED_RUNS)] if simulated else []
    with show.named_progress("reproducing") as report:
        done = reproduction.reproduce(study, out, seed=seed, releases=releases, siblings=siblings, progress=report)
    if json:
        document = reproduction.reproduction_document(done)
        show.print_json({name: value for name, value in document.items() if name != "tables"})
    else:
        show_study.print_reproduction(done, out)

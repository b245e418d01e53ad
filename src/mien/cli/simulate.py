"""`mien simulate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.core.roster import Roster
from mien.core.study import Study
from mien.storage.formats.gmdb_folder import ENCODINGS, write_gmdb
from mien.storage.outputs import refuse_existing
from mien.version import TOOL


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write: new, or empty.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same patients.", min=0)] = 1,
    growth: Annotated[int, typer.Option(help="So many times as many disorders, patients and images.", min=1)] = 1,
    csv: Annotated[bool, typer.Option("--csv", help="Write the encodings in the GM-Arc layout too.")] = False,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Write a folder of GMDB's shape, metadata tables and encodings, in which nobody is real."""
    from mien.simulation.study import simulated_gmdb, version  # noqa: PLC0415 scipy is heavy

    refuse_existing(out, force=force)
    with show.progress("simulating"):
        study = simulated_gmdb(seed, growth=growth)
    with show.progress("writing") as report:
        write_gmdb(out, study, version(seed, growth), csv=csv, force=force, progress=report)
    _print_result(out, study, seed, json=json)


def _print_result(out: Path, study: Study, seed: int, *, json: bool) -> None:
    roster = Roster.of_labels(label for fold in study.folds for split in fold for part in split for label in part)
    counts = {
        "images": len(roster.image_ids),
        "patients": len(roster.patient_ids),
        "disorders": len(roster.disorders),
        "folds": len(study.folds),
    }
    following = ["mien", "evaluate", "--gmdb", str(out), "--encodings", str(out / ENCODINGS)]
    about = {"tool": TOOL, "out": str(out), "source": study.source, "seed": seed, "simulated": True}
    show.print_result(
        {**about, **counts, "next": following},
        f"{show.printable(str(out))}: {counts['images']:,} images of {counts['patients']:,} patients with"
        f" {counts['disorders']:,} disorders, in {counts['folds']} folds ({show.printable(study.source)})",
        show.SIMULATED,
        f"Next: [cyan]{show.printable(shlex.join(following))}[/]",
        as_json=json,
    )

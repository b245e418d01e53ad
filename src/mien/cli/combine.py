"""`mien combine`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from mien.answers.combination import WEIGHT
from mien.answers.ranking import percent
from mien.cli import options, show
from mien.report.combination import combined_document, read_answer
from mien.storage.formats.lirical import read_face_terms, read_lirical

TWICE = (
    "Terms that describe the face count twice, once here and once there: leave them out with LIRICAL's JSON and --hpo."
)


def combine(
    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="What 'mien rank --top all --json' printed.")],
    lirical: Annotated[Path, typer.Option(help="LIRICAL's result for the same patient: .tsv or .json.")],
    weight: Annotated[float, typer.Option(help="How much LIRICAL's log ratios count, from 0 to 1.")] = WEIGHT,
    hpo: Annotated[
        Path | None, typer.Option(help="The HPO's hp.json, to leave out terms of the face. Needs LIRICAL's JSON.")
    ] = None,
    top: Annotated[str, typer.Option(help="How many disorders to list, or 'all'.")] = "10",
    json: options.JsonOption = False,
) -> None:
    """Join the face's evidence with that of HPO terms, from LIRICAL, in one list."""
    if not 0 <= weight <= 1:
        raise typer.BadParameter("give a number from 0 to 1", param_hint="--weight")
    limit = options.limit_of(top)
    result = read_lirical(lirical, read_face_terms(hpo) if hpo else ())
    document = combined_document(read_answer(answer), result, weight)
    document["disorders"] = document["disorders"][:limit]
    if hpo is None:
        show.note(TWICE)
    show.print_result(document, *_for_people(document), as_json=json)


def _for_people(document: Mapping[str, Any]) -> list[RenderableType]:
    """The joined list, with the part of each side."""
    lirical = document["lirical"]
    left_out = f", {len(lirical['face_terms_left_out'])} face terms left out" if lirical["face_terms_left_out"] else ""
    version = show.printable(lirical["version"])
    source = f"[bold]LIRICAL[/] {version}, weight {lirical['weight']:g}{left_out}"
    none = f"Not in the gallery: {percent(document['none_of_these'])}\n"
    headings = "", "disorder", "probability", "log10 ratio", "= face", "+ weight x LIRICAL", "rank by face"
    table = show.table_of(headings, {"disorder"}, apart=1)
    for line in document["disorders"]:
        ids = line["disorder_id"], line["curie"]
        face, other = (line[f"{side}_log10_likelihood_ratio"] for side in ("face", "lirical"))
        table.add_row(
            str(line["rank"]),
            f"{show.printable(line['disorder_name'])} [dim]{show.printable(' '.join(filter(None, ids)))}[/]",
            percent(line["probability"]),
            f"{line['log10_likelihood_ratio']:.2f}",
            f"{face:.2f}" if "face" in line["known_to"] else "unknown",
            f"{other:.2f}" if "lirical" in line["known_to"] else "unknown",
            str(line["face_rank"] or ""),
        )
    return [source, none, table, Text.from_markup(f"\n[dim]{document['notice']}[/]")]

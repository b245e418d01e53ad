"""`mien bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from mien.cli import options, show


def bench(
    size: Annotated[float, typer.Option(help="Size of the gallery, as a share of GMDB's.", min=0.001, max=1)] = 1.0,
    json: options.JsonOption = False,
) -> None:
    """Speed against the machine's limit and against the usual way, as ratios measured in one run."""
    import pandas as pd  # noqa: F401, PLC0415 first: the extra that brings it brings all that is measured

    from mien.benchmark.run import benchmarks, line_count  # noqa: PLC0415 figures and scipy are heavy

    lines = []
    with show.progress("measuring") as report:
        for line in benchmarks(size):
            lines.append(line)
            report(len(lines), line_count(size))
    table = show.table_of(["", "found", "compared with", "there", "ratio", "wanted"], {"", "compared with", "wanted"})
    for line in lines:
        scale, unit = (1000, "ms") if line.unit == "s" else (1, line.unit)
        found, there = (f"{scale * amount:,.1f} {unit}" for amount in (line.amount, line.reference))
        table.add_row(line.what, found, line.compared_with, there, f"[bold]{line.ratio:.3g}[/]", line.wanted)
    document = {"lines": [{**line._asdict(), "ratio": line.ratio} for line in lines]}
    show.print_result(document, table, as_json=json)

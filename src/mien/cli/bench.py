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
    if json:
        show.print_json({"lines": [{**line._asdict(), "ratio": line.ratio} for line in lines]})
    else:
        show.print_benchmarks(lines)

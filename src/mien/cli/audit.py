"""`mien audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show

app = typer.Typer(help="The log of a service: who asked what and when.", no_args_is_help=True)


@app.callback()
def audit() -> None:
    """Makes `verify` a subcommand: typer would turn a single command into `mien audit` itself."""


@app.command()
def verify(
    log: Annotated[Path, typer.Argument(metavar="FILE", help="The log that `mien serve --audit` wrote.")],
    head: Annotated[str | None, typer.Option(help="A hash noted earlier: that line must still be there.")] = None,
    json: options.JsonOption = False,
) -> None:
    """Check that no line of the log was changed, dropped or inserted."""
    from mien.service.audit import verify_log  # noqa: PLC0415 FastAPI is heavy

    last, _ = verify_log(log, head=head)
    words = f"{show.printable(str(log))}: {last.number:,} lines, none changed"
    note = f"note the last hash elsewhere: {last.hash}"
    show.print_result({"lines": last.number, "head": last.hash}, words, note, as_json=json)

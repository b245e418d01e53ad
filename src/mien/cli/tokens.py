"""`mien tokens`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.service.tokens import RIGHTS, USUAL_RIGHTS, add_people, read_people, revoke_people

app = typer.Typer(help="The people who may use a service, and what each may do.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file that `mien serve --tokens` reads.")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help="The people, as the audit log names them.")]


@app.command()
def add(
    file: FileArgument,
    names: NamesArgument,
    rights: Annotated[
        str, typer.Option(help="; ".join(f"{right}: {what}" for right, what in RIGHTS.items()) + ".")
    ] = ",".join(USUAL_RIGHTS),
    json: options.JsonOption = False,
) -> None:
    """Give people a token each. It is printed once and stored nowhere."""
    tokens = add_people(file, names, [right.strip() for right in rights.split(",")])
    show.print_result(tokens, *(show.printable(f"{name} {token}") for name, token in tokens.items()), as_json=json)


@app.command("list")
def list_people(file: FileArgument, json: options.JsonOption = False) -> None:
    """Name the people and their rights."""
    people = {name: [right for right in RIGHTS if right in person.rights] for name, person in read_people(file).items()}
    lines = (show.printable(f"{name} {','.join(rights)}") for name, rights in people.items())
    show.print_result(people, *lines, as_json=json)


@app.command()
def revoke(file: FileArgument, names: NamesArgument) -> None:
    """Take people's tokens back; a running service notices it with the next request."""
    revoke_people(file, names)

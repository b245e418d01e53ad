"""`mien`: the command line."""

from __future__ import annotations

import sys
from pathlib import PurePath

import typer

from mien.cli import bench, demo, gallery, rank
from mien.core.errors import MienError
from mien.version import __version__

app = typer.Typer(
    help="Ranks rare genetic disorders for a patient from facial photos, and shows the evidence for every rank.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.add_typer(gallery.app, name="gallery")
app.command("rank")(rank.rank)
app.command("bench")(bench.bench)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mien {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=_print_version, is_eager=True),
) -> None:
    """Options that stand before any command."""


def repeat_option(arguments: list[str], option: str = "--metadata") -> list[str]:
    """Lets `--metadata a.csv b.tsv` say what `--metadata a.csv --metadata b.tsv` says.

    >>> repeat_option(["build", "DIR", "--metadata", "a.csv", "b.tsv", "--json"])
    ['build', 'DIR', '--metadata', 'a.csv', '--metadata', 'b.tsv', '--json']
    """
    result: list[str] = []
    in_option = False
    for place, argument in enumerate(arguments):
        first_value = place > 0 and arguments[place - 1] == option
        if in_option and not first_value:
            in_option = PurePath(argument).suffix.lower() in (".csv", ".tsv") and not argument.startswith("-")
            result += [option] if in_option else []
        in_option = in_option or argument == option
        result.append(argument)
    return result


def main() -> None:
    """Runs a command; refused input ends with one message and exit code 1."""
    try:
        app(repeat_option(sys.argv[1:]))
    except MienError as error:
        sys.stderr.write(f"mien: {error}\n")
        sys.exit(1)
    except OSError as error:
        sys.stderr.write(f"mien: {error.filename or 'output'}: {error.strerror}\n")
        sys.exit(1)

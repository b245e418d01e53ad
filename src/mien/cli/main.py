"""`mien`: the command line."""

from __future__ import annotations

import os
import sys
from functools import cache
from io import TextIOWrapper
from pathlib import PurePath
from typing import Any

import typer

from mien.cli import (
    audit,
    bench,
    calibrate,
    cohort,
    combine,
    demo,
    encode,
    evaluate,
    gallery,
    rank,
    reproduce,
    serve,
    simulate,
    tokens,
    train,
    weights,
)
from mien.cli.examples import add_examples
from mien.errors import MienError, MissingExtraError
from mien.extras import missing_extra
from mien.version import __version__

app = typer.Typer(
    help="Ranks rare genetic disorders for a patient from facial photos, and shows the evidence for every rank.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.add_typer(gallery.app, name="gallery")
app.command("rank")(rank.rank)
app.command("calibrate")(calibrate.calibrate)
app.command("tune")(calibrate.tune)
app.command("cohort")(cohort.cohort)
app.command("combine")(combine.combine)
app.command("evaluate")(evaluate.evaluate)
app.command("reproduce")(reproduce.reproduce)
app.command("encode")(encode.encode)
app.add_typer(weights.app, name="weights")
app.command("train")(train.train)
app.command("serve")(serve.serve)
app.add_typer(tokens.app, name="tokens")
app.add_typer(audit.app, name="audit")
app.command("bench")(bench.bench)
add_examples(app)


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
    values = 0  # of the option, so far
    for argument in arguments:
        if values and (argument.startswith("-") or PurePath(argument).suffix.lower() not in {".csv", ".tsv"}):
            values = 0
        if values:
            result.append(option)
        if values or (result and result[-1] == option) or argument.startswith(f"{option}="):
            values += 1
        result.append(argument)
    return result


@cache
def _command() -> Any:
    """All commands as click sees them: making them takes as long as a small ranking."""
    return typer.main.get_command(app)


def called_command(arguments: list[str]) -> str:
    """The command as a person would say it.

    >>> called_command(["gallery", "build", "DIR", "--photos", "rank"])
    'mien gallery build'
    """
    words, command = ["mien"], _command()
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        words.append(word)
    return " ".join(words)


def main() -> None:
    """Runs a command. If the reader of its output stops early, as `head` does, it ends quietly with exit code 141."""
    try:
        try:
            _main()
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:  # typer and rich exit where they meet a broken pipe
        if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more
        sys.exit(128 + 13)  # as if by SIGPIPE


def _main() -> None:
    """Runs a command; where it refuses its input, prints one message and ends with exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where the terminal lacks a character
    try:
        _command()(repeat_option(sys.argv[1:]))
    except UnicodeEncodeError as error:
        message = f"mien: {error.object!r} is not UTF-8 text"
    except ModuleNotFoundError as error:
        message = str(missing_extra(called_command(sys.argv[1:]), error))
    except MissingExtraError as error:  # it names the function
        message = str(error)
    except MienError as error:
        message = f"mien: {error}"
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"mien: {error.filename or 'output'}: {error.strerror}"
    else:
        return
    sys.stderr.write(f"{message}\n")
    sys.exit(1)

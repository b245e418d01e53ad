"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from mien.core.method import FUSIONS, NAMED_METHODS, Method, method_of
from mien.core.scores import Parameter, known_scores
from mien.errors import InvalidMethodError

Fusion = StrEnum("Fusion", {name: name for name in FUSIONS})  # type: ignore[misc] # names come from the core
MethodName = StrEnum("MethodName", {name: name for name in (*NAMED_METHODS, "tuned")})  # type: ignore[misc]
DeviceName = StrEnum("DeviceName", ["auto", "cpu", "cuda"])
TUNED = Method()  # stands for the method that was tuned for a gallery, until the gallery is open

MethodOption = Annotated[
    MethodName | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="A named method: baseline (none x nearest), full (embedding x hybrid), or tuned, the gallery's own.",
    ),
]
FusionOption = Annotated[
    Fusion | None, typer.Option("--fusion", metavar="NAME", help="How photos are combined: none, distance, embedding.")
]
ScoreOption = Annotated[
    str | None,
    typer.Option(
        "--score",
        metavar="NAME",
        help=f"How a disorder is scored: {', '.join(known_scores())}; or PACKAGE:SCORE, one of your own.",
    ),
]
ParameterOption = Annotated[
    list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="A parameter of a score of your own.")
]
EncodingsOption = Annotated[
    Path | None, typer.Option("--encodings", readable=False, help="GM-Arc CSV, pickled frame or dict; or cohort table.")
]
PhotosOption = Annotated[
    Path | None, typer.Option("--photos", help="Or a folder of photos; a photo's id is its path below the folder.")
]
FaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--face",
        metavar="FACE",
        help="Which face of a photo with several: its number from the left, or 'main', the most prominent one;"
        " PHOTO=N for one photo. For studies, not for `rank`: 'official' takes the surest face, as the official"
        " pipeline does, where a photo would be refused.",
    ),
]
MetadataOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--metadata", metavar="FILE...", readable=False, help="Tables: image_id, subject, label; and disorders' names."
    ),
]
ShortIdsOption = Annotated[
    bool, typer.Option("--short-ids", help="A photo's id is its name up to the first '_' or '.', as GMDB numbers them.")
]
FollowLinksOption = Annotated[
    bool, typer.Option("--follow-links", help="Follow links below a folder of photos, to folders and to photos.")
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Encoder of photos, a name or a folder; or the encoder's name, where the encodings do not say.",
        show_default=False,
    ),
]
AllowMissingOption = Annotated[
    bool, typer.Option("--allow-missing", help="Go on without images that have no encoding, and list them.")
]
KeepFacesOption = Annotated[
    bool, typer.Option("--keep-faces", help="Keep the aligned face of each photo in the gallery: docs/kept_faces.md.")
]
CompositePatientsOption = Annotated[
    int | None,
    typer.Option(
        "--composite-patients",
        min=3,
        help="Composites show this many patients, or as many more: 5 without it. The first faces fix it.",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="WHERE",
        help="Work on a Dask cluster: 'local' (this machine's cores), tls://HOST:PORT, or the scheduler's file.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Behind every random number.", min=0)]
DeviceOption = Annotated[
    DeviceName, typer.Option("--device", help="Where networks run; auto takes a graphics card if there is one.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over an output that exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine output.")]


class PhotoOptions(NamedTuple):
    """How photos are found, encoded and kept."""

    encoder: str | None
    face: Sequence[str] | None
    device: str
    follow_links: bool
    short_ids: bool = False
    allow_missing: bool = False
    keep_faces: bool = False
    composite_patients: int | None = None


def limit_of(top: str) -> int | None:
    """How many lines --top asks for; None: all."""
    if not (top.lower() == "all" or (top.isdecimal() and int(top) > 0)):
        raise typer.BadParameter("give a number from 1 on, or 'all'", param_hint="--top")
    return None if top.lower() == "all" else int(top)


def with_method(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that describe a method, in place of its argument `method`.

    Each parameter of a known score becomes an option. The command gets a Method, None if no option is given, or `TUNED`
    for the method that was tuned for the gallery.
    """
    declared = {each.name: each for score in known_scores().values() for each in score.parameters}

    def run(**given: Any) -> None:
        name, fusion, score, parameter = (given.pop(option) for option in ("name", "fusion", "score", "parameter"))
        numbers = {each.name: given.pop(each.keyword) for each in declared.values()} | _parsed(parameter or ())
        method = None
        others = (fusion, score, *numbers.values())
        if name == "tuned" and all(option is None for option in others):
            method = TUNED
        elif any(option is not None for option in (name, *others)):
            try:
                method = method_of(name and str(name), fusion and str(fusion), score, numbers)
            except InvalidMethodError as error:
                raise typer.BadParameter(str(error)) from error
        command(method=method, **given)

    def option(argument: str, annotation: Any) -> inspect.Parameter:
        return inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    fixed = {"name": MethodOption, "fusion": FusionOption, "score": ScoreOption}
    numbers = {each.keyword: Annotated[float | None, _number_option(each)] for each in declared.values()}
    options = [option(*of) for of in {**fixed, **numbers, "parameter": ParameterOption}.items()]
    others = inspect.signature(command, eval_str=True).parameters
    every = [each for name, one in others.items() for each in (options if name == "method" else [one])]
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in every]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _number_option(parameter: Parameter) -> Any:
    users = [score.name for score in known_scores().values() if parameter in score.parameters]
    help_ = f"{parameter.help} Of {', '.join(users)}. Default: {parameter.default:g}."
    return typer.Option(f"--{parameter.name}", help=help_)


def _parsed(texts: Sequence[str]) -> dict[str, float]:
    try:
        return {name: float(value) for name, _, value in (text.partition("=") for text in texts)}
    except ValueError as error:
        raise typer.BadParameter("write a name and a number, like strength=3", param_hint="--parameter") from error

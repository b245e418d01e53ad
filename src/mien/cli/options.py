"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from mien.core import method as core_method
from mien.core.errors import InvalidMethodError
from mien.core.fusion import FUSIONS
from mien.core.method import NAMED_METHODS, Method
from mien.core.scores import SCORES

Fusion = StrEnum("Fusion", {name: name for name in FUSIONS})  # type: ignore[misc] # names come from the core
ScoreName = StrEnum("ScoreName", {name: name for name in SCORES})  # type: ignore[misc]
MethodName = StrEnum("MethodName", {name: name for name in NAMED_METHODS})  # type: ignore[misc]

MethodOption = Annotated[
    MethodName | None,
    typer.Option("--method", help="A named method: baseline (none x nearest) or full (embedding x hybrid)."),
]
FusionOption = Annotated[Fusion | None, typer.Option("--fusion", help="How the photos of a query are combined.")]
ScoreOption = Annotated[ScoreName | None, typer.Option("--score", help="How a disorder is scored.")]
LambdaOption = Annotated[
    float | None, typer.Option("--lambda", help="Weight of the centroid in the hybrid score, 0 to 1.  [default: 0.75]")
]
AlphaOption = Annotated[
    float | None, typer.Option("--alpha", help="Share of images in the proportional score.  [default: 0.05]")
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
        metavar="N|main|official|PHOTO=N",
        help="Which face of a photo with several: its number from the left, or the most prominent one. For studies, not"
        " for `rank`: 'official' takes the surest face, as the official pipeline does, where a photo would be refused.",
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
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="local|tcp://HOST:PORT|FILE",
        help="Work on a Dask cluster: this machine's cores, a scheduler's address, or the file that it wrote.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over an output that exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine output.")]


class ImportOptions(NamedTuple):
    """How images are taken into a gallery."""

    encoder: str | None
    face: Sequence[str] | None
    short_ids: bool
    allow_missing: bool


def method_of(
    name: MethodOption, fusion: FusionOption, score: ScoreOption, centroid_weight: LambdaOption, alpha: AlphaOption
) -> Method:
    """The method that the options describe; contradictions are wrong usage."""
    named, fused, scored = (None if part is None else str(part) for part in (name, fusion, score))
    try:
        return core_method.method_of(named, fused, scored, centroid_weight, alpha)
    except InvalidMethodError as error:
        raise typer.BadParameter(str(error)) from error

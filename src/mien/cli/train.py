"""`mien train`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mien.cli import options, show
from mien.errors import InvalidFileError, MienError
from mien.storage.outputs import refuse_existing
from mien.training.presets import PRESETS

if TYPE_CHECKING:
    from mien.encoding.manifest import Scaling
    from mien.training.run import EpochLine

PresetName = StrEnum("PresetName", {name: name for name in PRESETS})  # type: ignore[misc] # names come from the table
FaceName = StrEnum("FaceName", ["main", "official"])
ChannelsName = StrEnum("ChannelsName", {"RGB": "RGB", "BGR": "BGR"})
TableOption = Annotated[Path, typer.Option(readable=False, help="Table: image_id, subject, label.")]


def train(
    preset: Annotated[PresetName, typer.Option(help="The published settings of a model of GM-Arc.")],
    base: Annotated[str, typer.Option(help="The network to start from: an .onnx file, or ENCODER/PART.")],
    images: Annotated[Path, typer.Option(help="Folder of photos, or of aligned crops of 112 x 112.")],
    train: TableOption,
    val: TableOption,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write; what was cut off goes on there.")],
    epochs: Annotated[int | None, typer.Option(help="Other than the preset's 50.", min=1)] = None,
    batch: Annotated[int | None, typer.Option(help="Images in a batch, other than the preset's.", min=2)] = None,
    channels: Annotated[
        ChannelsName | None,
        typer.Option(case_sensitive=False, help="Order of channels to train on, other than the official BGR."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same network.", min=0)] = 11,
    short_ids: options.ShortIdsOption = False,
    face: Annotated[
        FaceName | None,
        typer.Option(help="Of several faces the most prominent; or the official pipeline's choice, see `mien encode`."),
    ] = None,
    device: options.DeviceOption = options.DeviceName.auto,
    follow_links: options.FollowLinksOption = False,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Fine-tune an encoder on diagnosed patients: a new last layer for a frozen network."""
    import torch  # noqa: F401, PLC0415 first: the extra that brings it brings all that training needs

    from mien.encoding.device import chosen_device, onnxruntime_report, torch_report  # noqa: PLC0415 heavy
    from mien.encoding.store import DEFAULT, stored_encoder  # noqa: PLC0415
    from mien.report.training import write_training  # noqa: PLC0415
    from mien.storage.formats.gmdb_tables import read_metadata  # noqa: PLC0415
    from mien.training.crops import load_data  # noqa: PLC0415
    from mien.training.cut import cut  # noqa: PLC0415
    from mien.training.export import check_name, write_encoder  # noqa: PLC0415
    from mien.training.run import CHECKPOINT, Run, run_training  # noqa: PLC0415

    published = PRESETS[preset]
    chosen = replace(
        published,
        epochs=epochs or published.epochs,
        batch=batch or published.batch,
        channels=published.channels if channels is None else "RGB" if channels == ChannelsName.RGB else "BGR",
    )
    runs_on = chosen_device(device, onnxruntime_report, torch_report)
    check_name(out)
    if not (out / CHECKPOINT).exists():  # a run that was cut off goes on
        refuse_existing(out, force=force)
    content, scaling = _base(base)
    network = cut(content)
    finder = stored_encoder(DEFAULT)
    trained_on, looked_at = (read_metadata([path], labelled=True).labels for path in (train, val))
    with show.progress("reading photos") as report:
        data = load_data(
            images,
            trained_on,
            looked_at,
            finder.load_detector(runs_on),
            short_ids=short_ids,
            face=None if face is None else "main" if face == FaceName.main else "official",
            follow_links=follow_links,
            say=show.note,
            progress=report,
        )
    show.print_first(data.taken_as_official, "photos were taken as officially")
    out.mkdir(parents=True, exist_ok=True)
    log: list[EpochLine] = []
    source = (
        f"fine-tuned by mien train: preset {preset}, {chosen.epochs} epochs, {chosen.channels} crops, seed {seed},"
        f" from {base}, on {runs_on}"
    )
    with show.progress("training") as report:

        def add_line(line: EpochLine) -> None:
            log.append(line)
            report(line.epoch, chosen.epochs)

        done = run_training(Run(data, network, scaling, chosen, seed, runs_on), out, add_line)
    write_training(out, [line._asdict() for line in log], source)
    stored = write_encoder(
        out, str(preset), network, done.layer, scaling, chosen.channels, detector=finder, source=source
    )
    if chosen.channels != scaling.channels:
        how = f"trained on {chosen.channels} crops, and fed {scaling.channels} as its base network is"
        show.note(f"{how}: --channels {scaling.channels} trains on what the encoder is fed")
    last = log[-1]
    facts = {"encoder": stored.manifest.encoder.as_dict(), "device": runs_on}
    show.print_result(
        {**facts, "folder": str(out), "last": last._asdict()},
        f"{show.printable(str(out))}: {stored.manifest.models[0].file}, encoder.json, training.csv, training.png",
        f"validation after {last.epoch} epochs, mean over {len(data.classes)} disorders:"
        f" top-1 {last.validation_top1:.1f} %, top-5 {last.validation_top5:.1f} %",
        as_json=json,
    )


def _base(base: str) -> tuple[bytes, Scaling]:
    """The network of a file or of an encoder's part, and its input scaling."""
    from mien.encoding.store import stored_encoder  # noqa: PLC0415
    from mien.training.export import ARCFACE_INPUT  # noqa: PLC0415

    if base.lower().endswith(".onnx"):
        path = Path(base)
        if not path.is_file():
            raise InvalidFileError(path, ["there is no such file: check the path"])
        return path.read_bytes(), ARCFACE_INPUT
    name, _, part = base.rpartition("/")
    stored = stored_encoder(name)
    model = next((model for model in stored.manifest.models if model.name == part), None)
    if model is None or part in stored.missing():
        raise MienError(f"{base} is not there: give an .onnx file, or ENCODER/PART as in `mien weights list`")
    return stored.content(part), model.input

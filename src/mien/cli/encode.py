"""`mien encode`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mien.cli import options, show
from mien.errors import MienError

SUFFIXES = (".parquet", ".csv")


def encode(
    paths: Annotated[list[Path], typer.Argument(metavar="PHOTO...", help="Photos, or folders of photos.")],
    out: Annotated[Path, typer.Option(help="Write .parquet, or .csv in the GM-Arc layout.")],
    encoder: Annotated[str | None, typer.Option(help="The encoder, a name or a folder.", show_default=False)] = None,
    face: options.FaceOption = None,
    short_ids: options.ShortIdsOption = False,
    device: options.DeviceOption = options.DeviceName.auto,
    follow_links: options.FollowLinksOption = False,
    cluster: options.ClusterOption = None,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Turn photos into embeddings; a run that was cut off goes on where it stopped."""
    from mien.cli.photos import chosen_photos, encode_photos, refusals  # noqa: PLC0415 heavy
    from mien.encoding.folder import find_photos  # noqa: PLC0415
    from mien.encoding.journal import discard  # noqa: PLC0415
    from mien.encoding.photo_encoder import EncodedPhoto  # noqa: PLC0415
    from mien.encoding.store import encoder_for  # noqa: PLC0415
    from mien.report.photos import photo_document, write_photos  # noqa: PLC0415
    from mien.storage.loading import check_writable, write_encodings  # noqa: PLC0415
    from mien.storage.outputs import refuse_existing  # noqa: PLC0415

    if cluster is not None and device == "cuda":
        raise typer.BadParameter("the workers of a cluster encode on their processors", param_hint="--device")
    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise MienError(f"{out}: the suffix names the format: use one of {', '.join(SUFFIXES)}")
    if out.is_dir() or not out.parent.is_dir():
        raise MienError(f"{out}: give the name of a file in a folder that is there")
    journal, table = out.with_name(f"{out.name}.partial"), out.with_name(f"{out.name}.photos.csv")
    for path in (out, *(() if journal.exists() else (table,))):  # a run that was cut off may have left a table
        refuse_existing(path, force=force)
    own_files = {path.resolve() for path in (out, journal, table)}
    short_ids = short_ids or suffix == ".csv"
    found = find_photos(paths, short_ids=short_ids, own_files=own_files, follow_links=follow_links, say=show.note)
    photos = chosen_photos(found, face)
    stored = encoder_for(None, encoder)
    loaded = stored.load("cpu" if cluster is not None else device)
    check_writable(out, list(found), loaded.encoder)
    if cluster is None:
        results = encode_photos(loaded, photos, journal)
    else:
        from mien.cluster.connection import connected  # noqa: PLC0415 heavy
        from mien.cluster.photos import ClusterEncoder  # noqa: PLC0415

        with connected(cluster, show.note) as workers:
            results = encode_photos(ClusterEncoder.of(workers, stored), photos, journal)
    write_photos(table, results)
    encoded = sum(isinstance(result, EncodedPhoto) for result in results)
    if not encoded:
        discard(journal)
        raise MienError(f"none of the {len(results):,} photos could be encoded, see {table}: {refusals(results)[0]}")
    with show.progress("writing") as report:
        write_encodings(out, loaded.encodings_of(results), report)
    discard(journal)
    if json:
        documents = [photo_document(result) for result in results]
        facts = {"encoder": loaded.encoder.as_dict(), "device": loaded.device}
        show.print_json({"out": str(out), **facts, "encoded": encoded, "photos": documents})
        return
    show.print_first(refusals(results), f"photos were refused, see {table}")
    if taken := sum(isinstance(result, EncodedPhoto) and bool(result.facts.taken_as_official) for result in results):
        show.note(f"{taken:,} photos that would have been refused were taken as officially, see {table}")
    show.print_line(
        f"{show.printable(str(out))}: {encoded:,} of {len(results):,} photos encoded by"
        f" {show.printable(str(loaded.encoder))} on {loaded.device};"
        f" what was seen on each is in {show.printable(str(table))}"
    )

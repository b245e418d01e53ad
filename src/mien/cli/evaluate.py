"""`mien evaluate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mien.cli import options, show, show_study
from mien.core.errors import InvalidMethodError, shown_ids
from mien.core.method import BASELINE, FULL, TWELVE_METHODS, Method
from mien.core.study import Study
from mien.storage.formats.gmdb_folder import read_gmdb
from mien.storage.loading import LeftOut, Source, load_cohort

if TYPE_CHECKING:
    from mien.cluster.studies import ImagesOnCluster  # scipy is heavy

GmdbOption = Annotated[
    Path | None, typer.Option("--gmdb", metavar="DIR", help="A folder with the tables of a GMDB version.")
]
GmdbEncodingsOption = Annotated[
    Path | None, typer.Option("--encodings", readable=False, help="The encodings of its images.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Refuse a test patient who is in the gallery too, instead of leaving out.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Behind every random number.", min=0)]


@options.with_method
def evaluate(
    gmdb: GmdbOption = None,
    encodings: GmdbEncodingsOption = None,
    cohort: Annotated[
        Path | None, typer.Option("--cohort", readable=False, help="Instead: any cohort table; patients become folds.")
    ] = None,
    folds: Annotated[int | None, typer.Option("--folds", help="Of a cohort.  [default: 10]", min=2, max=1000)] = None,
    gallery_patients: Annotated[
        int | None, typer.Option("--gallery-patients", help="Of a cohort: thin galleries to so many a disorder.", min=1)
    ] = None,
    method: Method | None = None,
    all_methods: Annotated[bool, typer.Option("--all-methods", help="All twelve methods of the paper.")] = False,
    against: Annotated[
        str, typer.Option("--against", metavar="METHOD", help="What differences are to: full, 'none x hybrid 0.5', ...")
    ] = "baseline",
    per_image: Annotated[
        bool,
        typer.Option(
            "--per-image", help="As the official script: images within disorder, nobody left out of a gallery."
        ),
    ] = False,
    strict: StrictOption = False,
    seed: SeedOption = 1,
    encoder: options.EncoderOption = None,
    cluster: options.ClusterOption = None,
    json: options.JsonOption = False,
) -> None:
    """Accuracy of methods by the paper's protocol: frequent and rare sets, unified and split galleries."""
    from mien.evaluation.comparison import Comparison  # noqa: PLC0415
    from mien.evaluation.evaluated_patients import evaluated_folds  # noqa: PLC0415 heavy
    from mien.evaluation.folds import FOLDS, cohort_study  # noqa: PLC0415
    from mien.evaluation.results import evaluate as evaluate_methods  # noqa: PLC0415
    from mien.report.evaluation import evaluation_document  # noqa: PLC0415

    if all_methods and method is not None:
        raise typer.BadParameter("--all-methods stands for all: give no other method")
    methods: tuple[Method, ...] = (BASELINE, FULL)
    if all_methods:
        methods = TWELVE_METHODS
    elif method is not None:
        methods = (BASELINE, method)
    try:
        reference = Method.of_text(against)
    except InvalidMethodError as error:
        raise typer.BadParameter(f"--against: {error}") from error
    methods = tuple(dict.fromkeys([*methods, reference]))
    if cohort is not None:
        if gmdb is not None or encodings is not None:
            raise typer.BadParameter("--cohort stands instead of --gmdb and --encodings: give either")
        with show.progress("reading the cohort") as report:
            loaded, left_out = load_cohort(Source(cohort, encoder_name=encoder), report)
        show.print_left_out(left_out)
        study = cohort_study(loaded, cohort.name, seed=seed, folds=folds or FOLDS, gallery_patients=gallery_patients)
    else:
        if folds is not None or gallery_patients is not None:
            raise typer.BadParameter("--folds and --gallery-patients belong to --cohort: GMDB brings its own folds")
        study = load_gmdb(gmdb, encodings, encoder)
    if strict:
        study.refuse_tested_in_gallery()
    with on_cluster(cluster) as places, show.progress("comparing") as report:
        parts = places.of_file(cohort or encodings or Path()) if places else None
        comparison = Comparison(
            study.encodings,
            evaluated_folds(study),
            methods=methods,
            leave_out=not per_image,
            parts=parts,
            progress=report,
        )
    with show.progress("measuring"):
        results = evaluate_methods(comparison, methods, seed=seed, against=reference, per_image=per_image)
    document = evaluation_document(study, comparison, results, seed=seed, per_image=per_image)
    if json:
        show.print_json(document)
    else:
        show_study.print_study(study, document["protocol"])
        show_study.print_results(results, published=cohort is None and not per_image)


@contextmanager
def on_cluster(where: str | None) -> Iterator[ImagesOnCluster | None]:
    """Connects to a cluster, where the gallery images of studies are then; None without one."""
    if where is None:
        yield None
    else:
        from mien.cluster.connection import connected  # noqa: PLC0415 heavy
        from mien.cluster.studies import ImagesOnCluster  # noqa: PLC0415

        with connected(where, show.note) as workers:
            yield ImagesOnCluster(workers)


def load_gmdb(gmdb: Path | None, encodings: Path | None, encoder: str | None) -> Study:
    """The study of a GMDB folder."""
    if gmdb is None or encodings is None:
        raise typer.BadParameter(
            "give --gmdb DIR and --encodings FILE (mien simulate OUT makes both), or --cohort FILE"
        )
    with show.progress("reading encodings") as report:
        study, remarks = read_gmdb(gmdb, encodings, encoder_name=encoder, progress=report)
    show.print_left_out(LeftOut(remarks.other_encodings, ()))
    if remarks.side_tables:
        show.note(f"side tables, not read: {shown_ids(remarks.side_tables)}")
    if study.facts_of_image and remarks.images_without_facts:
        show.note(f"{remarks.images_without_facts:,} images have neither age nor sex in the metadata")
    return study

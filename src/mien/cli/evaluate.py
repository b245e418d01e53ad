"""`mien evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mien.answers.calibration import COVERAGE
from mien.cli import options, show, show_study
from mien.core.method import BASELINE, FULL, TWELVE_METHODS, Method
from mien.core.study import Study
from mien.errors import InvalidMethodError, shown_ids
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.fact_groups import FACTS
from mien.evaluation.folds import FOLDS, cohort_study
from mien.evaluation.results import Result, patient_ranks
from mien.evaluation.results import evaluate as evaluate_methods
from mien.report.evaluation import beyond_paper_document, evaluation_document, write_ranks
from mien.report.rankings import check_output_file
from mien.storage.formats.cohort_columns import read_column
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


@options.with_method
def evaluate(
    gmdb: GmdbOption = None,
    encodings: GmdbEncodingsOption = None,
    cohort: Annotated[
        list[Path] | None, typer.Option(readable=False, help="Instead: any cohort table; patients become folds.")
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Of a cohort.  [default: 10]", min=2, max=1000)] = None,
    gallery_patients: Annotated[
        str | None, typer.Option(metavar="5|2,30|1-34", help="Of a cohort: thin galleries to so many a disorder.")
    ] = None,
    method: Method | None = None,
    all_methods: Annotated[bool, typer.Option("--all-methods", help="All twelve methods of the paper.")] = False,
    against: Annotated[
        str, typer.Option(metavar="METHOD", help="What differences are to: full, 'none x hybrid 0.5', ...")
    ] = "baseline",
    per_image: Annotated[
        bool,
        typer.Option(
            "--per-image", help="As the official script: images within disorder, nobody left out of a gallery."
        ),
    ] = False,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="How far probabilities can be trusted, instead of accuracies.")
    ] = False,
    coverage: Annotated[float, typer.Option(help="Of prediction sets, with --calibration.")] = COVERAGE,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --calibration: also by a column (of GMDB: sex, age).")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="With --calibration: draw the reliability, as .png, .svg or .pdf.")
    ] = None,
    repeats: Annotated[
        int, typer.Option(help="With --calibration or --method tuned: deal a cohort so often.", min=1)
    ] = 1,
    strict: StrictOption = False,
    seed: options.SeedOption = 1,
    encoder: options.EncoderOption = None,
    cluster: options.ClusterOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the rank of each patient's disorder: .json, .tsv or .parquet.")
    ] = None,
    force: options.ForceOption = False,
    json: options.JsonOption = False,
) -> None:
    """Accuracy of methods by the paper's protocol: frequent and rare sets, unified and split galleries."""
    methods, reference = _chosen(method, against, all_methods=all_methods)
    if out is not None and (calibration or method is options.TUNED):
        raise typer.BadParameter("--out is for accuracies: give neither --calibration nor --method tuned")
    if out is not None:
        check_output_file(out, inputs=[encodings, *(cohort or ())], force=force)
    dealt = _studies(gmdb, encodings, cohort, encoder, seed, folds, gallery_patients, repeats)
    study = dealt[0][0]
    if method is options.TUNED:
        _compare_sizes(dealt, gallery_patients or "all", seed, as_json=json)
        return
    if len(dealt) > 1:
        raise typer.BadParameter("several cohorts are for --method tuned: give one")
    if calibration:
        table = cohort[0] if cohort else None
        _measure_calibration(dealt[0], method or FULL, coverage, seed, by, table, figure, as_json=json)
        return
    if strict:
        study.refuse_tested_in_gallery()
    source = cohort[0] if cohort else encodings or Path()
    document, results = _accuracies(study, methods, reference, cluster, source, seed, out, per_image=per_image)
    if json:
        show.print_json(document)
    else:
        show_study.print_study(study, document["protocol"])
        show_study.print_results(results, published=cohort is None and not per_image)


def _chosen(method: Method | None, against: str, *, all_methods: bool) -> tuple[tuple[Method, ...], Method]:
    """The methods to evaluate, and the one that others are compared with."""
    if all_methods and method is not None:
        raise typer.BadParameter("--all-methods stands for all: give no other method")
    methods: tuple[Method, ...] = TWELVE_METHODS if all_methods else (BASELINE, method or FULL)
    try:
        reference = Method.of_text(against)
    except InvalidMethodError as error:
        raise typer.BadParameter(f"--against: {error}") from error
    return tuple(dict.fromkeys([*methods, reference])), reference


def _accuracies(
    study: Study,
    methods: tuple[Method, ...],
    reference: Method,
    cluster: str | None,
    source: Path,
    seed: int,
    out: Path | None,
    *,
    per_image: bool,
) -> tuple[dict[str, Any], list[Result]]:
    with on_cluster(cluster) as places, show.progress("comparing") as report:
        comparison = Comparison(
            study.encodings,
            evaluated_folds(study),
            methods=methods,
            leave_out=not per_image,
            parts=places.of_file(source) if places else None,
            progress=report,
        )
    with show.progress("measuring"):
        results = evaluate_methods(comparison, methods, seed=seed, against=reference, per_image=per_image)
    document = evaluation_document(study, comparison, results, seed=seed, per_image=per_image)
    if out is not None:
        write_ranks(out, document, patient_ranks(comparison, methods, study.encodings.image_ids))
    return document, results


def _studies(
    gmdb: Path | None,
    encodings: Path | None,
    cohort: Sequence[Path] | None,
    encoder: str | None,
    seed: int,
    folds: int | None,
    gallery_patients: str | None,
    repeats: int,
) -> list[list[Study]]:
    """The study of a GMDB folder; or for each cohort, a study for each time that its patients are dealt into folds."""
    if cohort is None:
        if folds is not None or gallery_patients is not None or repeats > 1:
            raise typer.BadParameter("--folds, --gallery-patients and --repeats are for --cohort: GMDB has its folds")
        return [[load_gmdb(gmdb, encodings, encoder)]]
    if gmdb is not None or encodings is not None:
        raise typer.BadParameter("--cohort stands instead of --gmdb and --encodings: give either")
    dealt = []
    for path in cohort:
        with show.progress("reading the cohort") as report:
            loaded, left_out = load_cohort(Source(path, encoder_name=encoder), report)
        show.print_left_out(left_out)
        deal = partial(cohort_study, loaded, path.name, folds=folds or FOLDS, gallery_patients=gallery_patients)
        dealt.append([deal(seed=seed + number) for number in range(repeats)])
    return dealt


def _compare_sizes(dealt: list[list[Study]], gallery_patients: str, seed: int, *, as_json: bool) -> None:
    """Compares size-aware and tuned methods with `full`, and prints the rows."""
    from mien.evaluation.size_study import size_study  # noqa: PLC0415 heavy

    with show.progress("comparing") as report:
        rows = size_study(dealt, gallery_patients=gallery_patients, seed=seed, progress=report)
    document = beyond_paper_document(dealt[0][0], "sizes", rows, seed=seed)
    show.print_result(document, *show_study.sizes_for_people(rows), as_json=as_json)


def _measure_calibration(
    dealt: list[Study],
    method: Method,
    coverage: float,
    seed: int,
    by: str | None,
    cohort: Path | None,
    figure: Path | None,
    *,
    as_json: bool,
) -> None:
    """Measures how far probabilities can be trusted, and prints the rows."""
    from mien.evaluation.calibration_measures import calibration_rows, reliability_points  # noqa: PLC0415 heavy

    if not 0 < coverage < 1:
        raise typer.BadParameter("give a share above 0 and below 1", param_hint="--coverage")
    groups = _groups_of(by, dealt[0], cohort) if by else None
    with show.progress("calibrating and asking") as report:
        rows, outcomes = calibration_rows(
            dealt, method, coverage=coverage, by=by, group_of_image=groups, seed=seed, progress=report
        )
    points = [point for name, of_set in outcomes.items() for point in reliability_points(of_set, name=name)]
    if figure is not None:
        from mien.report.reliability import write_reliability  # noqa: PLC0415 matplotlib is heavy

        write_reliability(figure, points, simulated=dealt[0].simulated)
        show.note(f"{figure}: reliability")
    document = beyond_paper_document(dealt[0], "calibration", rows, seed=seed)
    document |= {"coverage": coverage, "reliability": [point._asdict() for point in points]}
    show.print_result(document, *show_study.calibration_for_people(rows, coverage), as_json=as_json)


def _groups_of(column: str, study: Study, cohort: Path | None) -> list[str | None]:
    """For each image the value of a column: of a cohort's table, or sex or age group from GMDB's metadata."""
    ids = study.encodings.image_ids
    if cohort is not None:
        value_of = read_column(cohort, column)
        return [value_of.get(image_id) for image_id in ids]
    if column not in FACTS or not study.facts_of_image:
        raise typer.BadParameter(f"GMDB's metadata, where there are any, say {' and '.join(FACTS)}: choose one")
    return [FACTS[column](study.facts_of_image.get(image_id)) for image_id in ids]


@contextmanager
def on_cluster(where: str | None) -> Iterator[ImagesOnCluster | None]:
    """Connects to a cluster that will hold the gallery images of studies; yields None where none is asked for."""
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

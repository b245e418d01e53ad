"""What `mien evaluate` measures beyond the paper: calibration, and methods that know the size of a gallery."""

from __future__ import annotations

from pathlib import Path

import typer

from mien.cli import show, show_study
from mien.core.method import Method
from mien.core.study import Study


def compare_sizes(dealt: list[list[Study]], gallery_patients: str, seed: int, *, as_json: bool) -> None:
    """Compares size-aware and tuned methods with `full`, and prints the rows."""
    from mien.evaluation.size_study import size_study  # noqa: PLC0415 heavy
    from mien.report.evaluation import beyond_document  # noqa: PLC0415

    with show.progress("comparing") as report:
        rows = size_study(dealt, gallery_patients=gallery_patients, seed=seed, progress=report)
    document = beyond_document(dealt[0][0], "sizes", rows, seed=seed)
    if as_json:
        show.print_json(document)
    else:
        show_study.print_sizes(rows)


def measure_calibration(
    dealt: list[Study],
    method: Method,
    coverage: float,
    seed: int,
    by: str | None,
    group_of_image: list[str | None] | None,
    figure: Path | None,
    *,
    as_json: bool,
) -> None:
    """Measures how far probabilities can be trusted, and prints the rows."""
    from mien.evaluation.calibration_measures import calibration_rows, reliability_points  # noqa: PLC0415 heavy
    from mien.report.evaluation import beyond_document  # noqa: PLC0415

    if not 0 < coverage < 1:
        raise typer.BadParameter("give a share above 0 and below 1", param_hint="--coverage")
    with show.progress("calibrating and asking") as report:
        rows, outcomes = calibration_rows(
            dealt, method, coverage=coverage, by=by, group_of_image=group_of_image, seed=seed, progress=report
        )
    points = [point for name, of_set in outcomes.items() for point in reliability_points(of_set, name=name)]
    if figure is not None:
        from mien.report.reliability import write_reliability  # noqa: PLC0415 matplotlib is heavy

        write_reliability(figure, points, simulated=dealt[0].simulated)
        show.note(f"{figure}: reliability")
    if as_json:
        document = beyond_document(dealt[0], "calibration", rows, seed=seed)
        show.print_json({**document, "coverage": coverage, "reliability": [point._asdict() for point in points]})
    else:
        show_study.print_calibration(rows, coverage)


def groups_of(column: str, study: Study, cohort: Path | None) -> list[str | None]:
    """The value of a cohort table's column, of each image; or the sex or the age group, as GMDB's metadata say it."""
    from mien.evaluation.calibration_measures import FACTS  # noqa: PLC0415 heavy
    from mien.storage.formats.cohort_columns import read_column  # noqa: PLC0415

    ids = study.encodings.image_ids
    if cohort is not None:
        value_of = read_column(cohort, column)
        return [value_of.get(image_id) for image_id in ids]
    if column not in FACTS or not study.facts_of_image:
        raise typer.BadParameter(f"GMDB's metadata, where there are any, say {' and '.join(FACTS)}: choose one")
    return [FACTS[column](study.facts_of_image.get(image_id)) for image_id in ids]

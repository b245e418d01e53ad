"""Prints evaluations on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from mien.cli.show import SIMULATED, console, note, print_line, printable, table_of
from mien.core.study import Study
from mien.errors import shown_ids
from mien.evaluation.experiment_context import rows_of
from mien.evaluation.published import published_accuracy
from mien.evaluation.results import Result
from mien.report.evaluation import NORMALISED, p_value_text
from mien.report.report_folder import PAGE

if TYPE_CHECKING:
    from mien.evaluation.calibration_measures import CalibrationMeasures
    from mien.evaluation.size_study import SizeStudyRow
    from mien.report.reproduction import Reproduction


def print_study(study: Study, protocol: dict[str, Any]) -> None:
    """Prints what is evaluated, and how."""
    if study.simulated:
        print_line(SIMULATED)
    print_line(
        f"[bold]study[/]    {printable(study.source)}: {protocol['images']:,} images, {protocol['folds']} folds,"
        f"{f' galleries thinned to {study.gallery_patients} patients per disorder,' if study.gallery_patients else ''}"
        f" {printable(str(study.encodings.encoder))}\n[bold]measure[/]  {protocol['measure']}\n"
    )
    both = protocol["tested_and_in_gallery"]
    if count := len(both["patient_ids"]):
        who = "1 test patient is" if count == 1 else f"{count} test patients are"
        left_out = both["left_out_of_gallery_for_own_queries"]
        how = "left out of it for own queries" if left_out else "nobody is left out, as in the official script"
        note(f"{who} in the gallery too; {how}: {shown_ids(both['patient_ids'])}")
    if protocol["normalised"]:
        print_line(f"[bold]lengths[/]  {NORMALISED}\n")
    for gallery, patient_ids in protocol["not_in_gallery"].items():
        if patient_ids:
            ids = shown_ids(patient_ids)
            note(f"{gallery} gallery: it lacks the disorder of {len(patient_ids)} test patients, misses: {ids}")


def print_results(results: Sequence[Result], *, published: bool) -> None:
    """Prints accuracies, a table per gallery and set; with `published`, beside the published top-1."""
    width = max((len(str(result.method)) for result in results), default=0)
    for gallery, test_set in dict.fromkeys((result.gallery, result.set) for result in results):
        chosen = [result for result in results if (result.set, result.gallery) == (test_set, gallery)]
        beside = published and gallery == "unified"
        table = Table(
            title=f"[bold]{test_set}, {gallery} gallery[/] [dim](tested: {_size(chosen[0])})[/]",
            title_justify="left",
            title_style="",
            box=None,
        )
        table.add_column("method", no_wrap=True, min_width=width)
        for name in ("top-1", *["published"] * beside, "top-5", "top-10", "top-30"):
            table.add_column(name, justify="right", no_wrap=True, min_width=6)
        for name in (f"top-1 against {chosen[0].against}", f"top-5 against {chosen[0].against}"):
            table.add_column(name, justify="right", no_wrap=True, min_width=22)
        table.add_column("p (top-5)", justify="right", no_wrap=True, min_width=6)
        for result in chosen:
            tops = [f"{value:.2f}" for value in (result.top1, result.top5, result.top10, result.top30)]
            if beside:
                printed = published_accuracy(result.set, result.method)
                tops.insert(1, f"[dim]{printed.top1:.2f}[/]" if printed else "")
            p_value = "" if result.p_top5 is None else p_value_text(result.p_top5)
            table.add_row(str(result.method), *tops, *_differences(result), p_value)
        console().print(table)
        console().print()


def calibration_for_people(rows: Sequence[CalibrationMeasures], coverage: float) -> tuple[Table, Text]:
    """How far probabilities can be trusted, a line for each test set and subgroup."""
    measures = "patients", "top-1", "log-loss", "error", "covered", "set size", "AUROC none", "false ratios"
    table = table_of(["set", *measures], {"set"})
    for row in rows:
        table.add_row(
            printable(f"{row.set} {row.group}".strip()),
            f"{row.patients:,}",
            f"{row.top1:.1f} ({row.top1_low:.1f} to {row.top1_high:.1f})",
            f"{row.negative_log_likelihood:.3f}",
            f"{row.calibration_error:.3f}",
            f"{row.coverage:.1f} ({row.coverage_low:.1f} to {row.coverage_high:.1f})",
            f"{row.set_size:.1f}",
            f"{row.auroc_none:.3f}",
            f"{row.false_ratios:.1f}",
        )
    return table, Text.from_markup(
        "\n[dim]Patients whom the calibration has not seen; every disorder counts the same. Error: how far what was"
        " said of the first disorder is from how often it was right. Covered: prediction sets that hold the true"
        f" disorder, {100 * coverage:g} % wanted. AUROC: of none of these, with and without it in the gallery."
        " False ratios: patients with some ratio above ten where it is not there, in percent.[/]"
    )


def sizes_for_people(rows: Sequence[SizeStudyRow]) -> tuple[Table, Text]:
    """The methods that use gallery sizes, compared with `full`."""
    words = "gallery patients", "method", "measure"
    table = table_of([*words, "value", "to full", "95 %: patients drawn", "and disorders"], words)
    for row in rows:
        gains = () if row.method == "full" else (f"{row.difference:+.2f}", _range(row[5:7]), _range(row[7:9]))
        table.add_row(row.gallery_patients, row.method, row.measure, f"{row.value:.2f}", *gains)
    return table, Text.from_markup(f"\n[dim]{rows[0].patients:,} patients, dealt {rows[0].repeats} times.[/]")


def _range(of: Sequence[Any]) -> str:
    return f"{of[0]:+.2f} to {of[1]:+.2f}"


def print_reproduction(done: Reproduction, out: Path) -> None:
    """Prints accuracies, the statements of the paper that hold, and how far results are from the published ones."""
    from mien.evaluation.agreement import mean_absolute_error, worst  # noqa: PLC0415 scipy is heavy

    print_study(done.study, done.protocol)
    print_results(rows_of(done.tables, "headline", Result), published=True)
    headings = "the paper states", "held", "measured", "published", "rule"
    table = table_of(headings, headings)
    for where, claim, rule, published, measured, holds in done.findings:
        held = "[green]yes[/]" if holds else "[red]no[/]"
        table.add_row(f"{where}: {claim}", held, measured, published, rule)
    if done.findings:
        console().print(table)
        count = sum(finding.holds for finding in done.findings)
        console().print(f"{count} of {len(done.findings)} statements hold in this run.")
    off = worst(done.cells)
    runs = f", mean of {done.runs} simulated databases" if done.runs > 1 else ""
    console().print(
        f"\nMeasured against published, {len(done.cells)} accuracies{runs}: mean difference"
        f" {mean_absolute_error(done.cells):.2f} points, largest {off.error:+.2f}"
        f" ({off.set}, {off.fusion} x {off.score}, top-{off.top})"
    )
    console().print(f"[bold]{printable(str(out / PAGE))}[/]")


def _size(result: Result) -> str:
    counts = {"images": result.images, "patients": result.patients, "disorders": result.disorders}
    return ", ".join(f"{count:,.1f}".removesuffix(".0") + f" {what}" for what, count in counts.items())


def _differences(result: Result) -> list[str]:
    shown_differences = []
    for delta, low, high in (
        (result.delta_top1, result.ci_low_top1, result.ci_high_top1),
        (result.delta_top5, result.ci_low_top5, result.ci_high_top5),
    ):
        interval = "" if low is None else f" [dim]({low:+.1f} to {high:+.1f})[/]"
        shown_differences.append("" if str(result.method) == result.against else f"{delta:+.2f}{interval}")
    return shown_differences

"""Supplementary figure: accuracy over the number of photos used of each patient (supp:fig:num-images)."""

from __future__ import annotations

from typing import Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.number_of_images import ImagesUsed
from mien.evaluation.experiments.oracle import APPROACHES
from mien.evaluation.published import SET_NAMES
from mien.report.figures import style

COLOURS = {
    "single image": style.BASELINE_COLOUR,
    "distance fusion": style.IMAGE_COLOUR,
    "embedding fusion": style.PATIENT_COLOUR,
}
LINES: dict[int, Literal["-", "--"]] = {1: "-", 5: "--"}


def draw(tables: Tables) -> Figure:
    """A row for each set, a column for each cohort: within a panel, the patients stay the same."""
    points = rows_of(tables, "number_of_images", ImagesUsed)
    sets, cohorts = style.in_order(point.set for point in points), sorted({point.least_images for point in points})
    figure, axes = style.panels(len(sets), len(cohorts), height=0.9 + 2.7 * len(sets))
    places = [(test_set, least) for test_set in sets for least in cohorts]
    for axis, (test_set, least) in zip(axes, places, strict=True):
        cohort = [point for point in points if (point.set, point.least_images) == (test_set, least)]
        if not cohort:
            axis.set_axis_off()
            continue
        for approach, colour in COLOURS.items():
            curve = sorted((point for point in cohort if point.approach == approach), key=lambda point: point.used)
            for top, line in LINES.items():
                accuracies = [getattr(point, f"top{top}") for point in curve]
                axis.plot([point.used for point in curve], accuracies, line, marker="o", markersize=3.5, color=colour)
        axis.set_title(f"{SET_NAMES[test_set]}, ≥ {least} images", pad=18)
        axis.text(0, 1.03, style.patients_told(test_set, cohort[0].patients), transform=axis.transAxes, fontsize=8.5)
        axis.set(xlabel="Images used of each patient", xticks=range(1, max(cohorts) + 1))
        highest = max(point.top5 for point in points if point.set == test_set)
        axis.set(xlim=(0.8, max(cohorts) + 0.2), ylim=(0, min(100, 1.12 * highest)))
        if least == cohorts[0]:
            axis.set_ylabel("Accuracy, mean over disorders (%)")
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=3.5, label=style.FUSION_NAMES[APPROACHES[approach].fusion])
        for approach, colour in COLOURS.items()
    ]
    handles += [Line2D([], [], color=style.INK, linestyle=line, label=f"Top-{top}") for top, line in LINES.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure

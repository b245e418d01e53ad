"""Supplementary figure: lambda chosen on the validation photos (supp:fig:weight-selection)."""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.lambda_selection import LambdaLine
from mien.report.figures.style import PALE, panels

CURVES = {  # name, colour, width
    "top1": ("Top-1", "#0b3c68", 1.3),
    "top5": ("Top-5", "#2f7fc0", 1.3),
    "top10": ("Top-10", "#5fae9a", 1.3),
    "top30": ("Top-30", "#b3a25c", 1.3),
    "objective": ("Weighted mean of the four", "#c0392b", 2.6),
}
RED = CURVES["objective"][1]
GAIN = "Gain in accuracy over λ = 0\n(percentage points)"
WEIGHT = "λ (0: nearest neighbor only, 1: centroid only)"


def draw(tables: Tables) -> Figure:
    """The gain of each accuracy over lambda 0, and of their weighted mean, which decides."""
    lines = rows_of(tables, "lambda_selection", LambdaLine)
    figure, [axis] = panels(1, 1, width=8.5, height=4.4)
    weights = [line.centroid_weight for line in lines]
    for field, (name, colour, width) in CURVES.items():
        gains = [getattr(line, field) - getattr(lines[0], field) for line in lines]
        axis.plot(weights, gains, "o-", color=colour, linewidth=width, markersize=4, label=name)
    for line in lines:
        if line.selected:
            gain, name = line.objective - lines[0].objective, f"Selected: λ = {line.centroid_weight:g}"
            axis.axvline(line.centroid_weight, color=PALE, linestyle="--", linewidth=1, zorder=0)
            axis.plot(line.centroid_weight, gain, "o", color=RED, markersize=11, markeredgecolor="white", label=name)
    axis.axhline(0, color=PALE, linewidth=0.8)
    axis.set(title="Validation photos, each alone", xlabel=WEIGHT, ylabel=GAIN, xticks=weights)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure

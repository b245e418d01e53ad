"""Supplementary figure: how much depends on lambda, on the test sets (supp:fig:sensitivity)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.lambda_sensitivity import BestLambda, SensitivityLine
from mien.evaluation.published import LAMBDA, SET_NAMES
from mien.report.figures.lambda_selection import CURVES, GAIN, WEIGHT
from mien.report.figures.style import INK, PALE, legend_below, panels_of


def draw(tables: Tables) -> Figure:
    """One panel per set, all on the same scale."""
    lines, best = rows_of(tables, "lambda_sensitivity", SensitivityLine), rows_of(tables, "best_lambda", BestLambda)
    figure, axes = panels_of(len(best), row_height=3.0)
    for axis, top in zip(axes, best, strict=True):
        _panel(axis, [line for line in lines if line.set == top.set], top)
    lowest, highest = min(axis.get_ylim()[0] for axis in axes), max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set(xlim=(0, 1.01), ylim=(lowest - 0.1 * (highest - lowest), highest), xlabel=WEIGHT)
    for axis in axes[::2]:
        axis.set_ylabel(GAIN)
    legend_below(figure, handles=axes[0].get_lines()[:-1])
    return figure


def _panel(axis: Axes, lines: list[SensitivityLine], best: BestLambda) -> None:
    [start] = [line for line in lines if line.centroid_weight == 0]
    for field, (name, colour, width) in CURVES.items():
        gains = [getattr(line, field) - getattr(start, field) for line in lines]
        axis.plot([line.centroid_weight for line in lines], gains, color=colour, linewidth=width, label=name)
    gain = best.objective - start.objective
    marks = {"Best λ for the set, known afterwards": ("D", 7, best.centroid_weight, gain)}
    marks[f"λ = {LAMBDA}, used throughout"] = ("X", 9, LAMBDA, gain - best.cost_of_chosen)
    for name, (marker, size, weight, height) in marks.items():
        axis.plot(weight, height, marker, color=INK, markersize=size, markeredgecolor="white", zorder=4, label=name)
    text = f"best at λ = {best.centroid_weight:.2f}; {LAMBDA} costs {best.cost_of_chosen:.2f} points"
    axis.text(0.99, 0.02, text, ha="right", fontsize=8, transform=axis.transAxes)
    axis.axhline(0, color=PALE, linewidth=0.8)
    axis.set_title(SET_NAMES[best.set])

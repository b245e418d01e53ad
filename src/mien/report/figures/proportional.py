"""Supplementary figures: a share of each disorder's photos decides (supp:fig:propnn); the same inside the hybrid."""

from __future__ import annotations

from typing import Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.proportional import AlphaLine
from mien.evaluation.published import SET_NAMES
from mien.report.figures.style import GALLERY_NAMES, INK, SET_COLOURS, TOPS, in_order, panels

LINES: dict[str, Literal["-", "--"]] = {"unified": "-", "split": "--"}
REFERENCES = {  # of each table: which differences are drawn, and to what
    "proportional": ("delta", "single-image baseline"),
    "proportional_hybrid": ("over_hybrid", "plain hybrid"),
}
TICKS = {0.01: "1", 0.02: "2", 0.05: "5", 0.1: "10", 0.2: "20", 0.5: "50", 1.0: "100"}


def draw(tables: Tables, table: str) -> Figure:
    """A column for each length of the list: accuracies above, differences below, on one scale in both figures."""
    rows, (difference, reference) = rows_of(tables, table, AlphaLine), REFERENCES[table]
    every_gain = [
        getattr(row, f"{field}_top{top}")
        for name, (field, _) in REFERENCES.items()
        for row in rows_of(tables, name, AlphaLine)
        for top in TOPS
    ]
    figure, axes = panels(2, len(TOPS), height=6.2)
    curves = in_order((row.set, row.gallery) for row in rows)
    for top, above, below in zip(TOPS, axes, axes[len(TOPS) :], strict=False):
        for test_set, gallery in curves:
            curve = [row for row in rows if (row.set, row.gallery) == (test_set, gallery)]
            alphas = [row.alpha for row in curve]
            accuracies = [getattr(row, f"top{top}") for row in curve]
            gains = [getattr(row, f"{difference}_top{top}") for row in curve]
            line, colour = LINES[gallery], SET_COLOURS[test_set]
            above.plot(alphas, accuracies, line, color=colour, marker="o", markersize=3)
            above.axhline(accuracies[0] - gains[0], color=colour, linestyle=":", linewidth=1)
            below.plot(alphas, gains, line, color=colour, marker="o", markersize=3)
        below.axhline(0, color=INK, linestyle=":", linewidth=1)
        above.set_title(f"Top-{top}")
        above.set_ylim(0, min(100, 1.1 * max(row.top10 for row in rows)))
        below.set_xlabel("Share of each disorder's photos, alpha (%)")
        below.set_ylim(min(every_gain) - 1, max(every_gain) + 1)
        for axis in (above, below):
            axis.set_xscale("log")
            axis.set_xticks(list(TICKS), list(TICKS.values()))
            axis.minorticks_off()
    axes[0].set_ylabel("Accuracy, mean over disorders (%)")
    axes[len(TOPS)].set_ylabel(f"Difference to the {reference}\n(percentage points)")
    handles = [
        Line2D([], [], color=SET_COLOURS[name], linestyle=LINES[own], label=f"{SET_NAMES[name]}, {GALLERY_NAMES[own]}")
        for name, own in curves
    ]
    handles.append(
        Line2D([], [], color=INK, linestyle=":", linewidth=1, label=f"{reference[0].upper()}{reference[1:]}")
    )
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure

"""Supplementary figure: accuracy when a share of each disorder's photos decides, not one (supp:fig:propnn)."""

from __future__ import annotations

from typing import Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mien.evaluation.experiments.proportional import AlphaLine
from mien.evaluation.lab import Tables, rows_of
from mien.report.figures.style import GALLERY_NAMES, INK, SET_COLOURS, SET_NAMES, TOPS, in_order, panels

LINES: dict[str, Literal["-", "--"]] = {"unified": "-", "split": "--"}
TICKS = {0.01: "1", 0.02: "2", 0.05: "5", 0.1: "10", 0.2: "20", 0.5: "50", 1.0: "100"}


def draw(tables: Tables) -> Figure:
    """Accuracies above, differences to the nearest photo below; a column for each length of the list."""
    rows = rows_of(tables, "proportional", AlphaLine)
    figure, axes = panels(2, len(TOPS), height=6.2)
    curves = in_order((row.set, row.gallery) for row in rows)
    for top, above, below in zip(TOPS, axes, axes[len(TOPS) :], strict=False):
        for test_set, gallery in curves:
            curve = [row for row in rows if (row.set, row.gallery) == (test_set, gallery)]
            alphas = [row.alpha for row in curve]
            accuracies = [getattr(row, f"top{top}") for row in curve]
            gains = [getattr(row, f"delta_top{top}") for row in curve]
            line, colour = LINES[gallery], SET_COLOURS[test_set]
            above.plot(alphas, accuracies, line, color=colour, marker="o", markersize=3)
            above.axhline(accuracies[0] - gains[0], color=colour, linestyle=":", linewidth=1)
            below.plot(alphas, gains, line, color=colour, marker="o", markersize=3)
        below.axhline(0, color=INK, linestyle=":", linewidth=1)
        above.set_title(f"Top-{top}")
        above.set_ylim(0, min(100, 1.1 * max(row.top10 for row in rows)))
        below.set_xlabel("Share of each disorder's photos, alpha (%)")
        every_gain = [gain for row in rows for gain in (row.delta_top1, row.delta_top5, row.delta_top10)]
        below.set_ylim(min(every_gain) - 1, max(every_gain) + 1)
        for axis in (above, below):
            axis.set_xscale("log")
            axis.set_xticks(list(TICKS), list(TICKS.values()))
            axis.minorticks_off()
    axes[0].set_ylabel("Accuracy, mean over disorders (%)")
    axes[len(TOPS)].set_ylabel("Difference to the nearest photo\n(percentage points)")
    handles = [
        Line2D([], [], color=SET_COLOURS[name], linestyle=LINES[own], label=f"{SET_NAMES[name]}, {GALLERY_NAMES[own]}")
        for name, own in curves
    ]
    handles.append(Line2D([], [], color=INK, linestyle=":", linewidth=1, label="Nearest photo (baseline)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure

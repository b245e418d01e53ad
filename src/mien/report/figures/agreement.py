"""Every accuracy that the paper prints, beside the one measured here."""

from __future__ import annotations

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mien.evaluation.agreement import Cell, mean_absolute_error, worst
from mien.evaluation.lab import Tables
from mien.report.figures.ablation import FUSION_NAMES, SCORE_NAMES
from mien.report.figures.style import INK, PALE, SET_COLOURS, SET_NAMES, in_order, panels, rows_of

MARKERS = {1: "o", 5: "s", 10: "^"}
CLOSE = 3  # percentage points
BAND = "#e8ebee"


def draw(tables: Tables) -> Figure:
    """Points on the line agree; hollow points are of patients with several photos."""
    cells = rows_of(tables, "agreement", Cell)
    figure, [axis] = panels(1, 1, width=7.5, height=7.0)
    end = min(100, 10 * (1 + max(max(cell.published, cell.measured) for cell in cells) // 10))
    axis.fill_between([0, end], [-CLOSE, end - CLOSE], [CLOSE, end + CLOSE], color=BAND, linewidth=0)
    axis.plot([0, end], [0, end], color=PALE, linewidth=1)
    for cell in cells:
        colour = SET_COLOURS[cell.set]
        marker = MARKERS[cell.top]
        axis.plot(cell.published, cell.measured, marker, color=colour, markerfacecolor=_fill(cell.set), markersize=7)
    far = worst(cells)
    method = f"{FUSION_NAMES[far.fusion]}, {SCORE_NAMES.get(far.score, far.score)}"
    axis.annotate(
        f"Furthest off, by {far.error:+.1f} points:\n{SET_NAMES[far.set]}, top-{far.top}\n{method}",
        (far.published, far.measured),
        (0.98, max(0.04, 0.5 * far.measured / end)),
        textcoords="axes fraction",
        ha="right",
        arrowprops={"arrowstyle": "-", "color": PALE, "shrinkB": 5},
    )
    title = f"{len(cells)} accuracies, on average {mean_absolute_error(cells):.1f} percentage points apart"
    axis.set(title=title, xlabel="Published accuracy (%)", ylabel="Measured accuracy (%)")
    axis.set(xlim=(0, end), ylim=(0, end), aspect="equal")
    sets = in_order(cell.set for cell in cells)
    handles: list[Artist] = [
        Line2D([], [], color=SET_COLOURS[name], marker="o", linestyle="", markerfacecolor=_fill(name), markersize=7)
        for name in sets
    ]
    handles += [Line2D([], [], color=INK, marker=marker, linestyle="", markersize=7) for marker in MARKERS.values()]
    handles.append(Patch(color=BAND))
    labels = [*(SET_NAMES[name] for name in sets), *(f"Top-{top}" for top in MARKERS), f"Within {CLOSE} points"]
    axis.legend(handles, labels, loc="upper left")
    return figure


def _fill(test_set: str) -> str:
    return "none" if test_set.startswith("multi") else SET_COLOURS[test_set]

"""Every accuracy that the paper prints, beside the one measured here."""

from __future__ import annotations

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mien.evaluation.agreement import Cell, mean_absolute_error, worst
from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.published import SET_NAMES
from mien.report.figures import style

MARKERS = {1: "o", 5: "s", 10: "^"}
CLOSE = 3  # percentage points


def draw(tables: Tables) -> Figure:
    """Points on the line agree; hollow points are of multi-image subsets."""
    cells = rows_of(tables, "agreement", Cell)
    figure, [axis] = style.panels(1, 1, width=6.4, height=6.0)
    end = min(100, 10 * (1 + max(max(cell.published, cell.measured) for cell in cells) // 10))
    axis.fill_between([0, end], [-CLOSE, end - CLOSE], [CLOSE, end + CLOSE], color=style.BAND, linewidth=0)
    axis.plot([0, end], [0, end], color=style.PALE, linewidth=1)
    for cell in cells:
        colour = style.SET_COLOURS[cell.set]
        marker = MARKERS[cell.top]
        axis.plot(cell.published, cell.measured, marker, color=colour, markerfacecolor=_fill(cell.set), markersize=7)
    far = worst(cells)
    method = f"{style.FUSION_NAMES[far.fusion]}, {style.SCORE_NAMES.get(far.score, far.score)}"
    axis.annotate(
        f"Furthest off, by {far.error:+.1f} points:\n{SET_NAMES[far.set]}, top-{far.top}\n{method}",
        (far.published, far.measured),
        (0.98, max(0.04, 0.5 * far.measured / end)),
        textcoords="axes fraction",
        ha="right",
        arrowprops={"arrowstyle": "-", "color": style.PALE, "shrinkB": 5},
    )
    title = f"{len(cells)} accuracies, on average {mean_absolute_error(cells):.1f} percentage points apart"
    axis.set(title=title, xlabel="Published accuracy (%)", ylabel="Measured accuracy (%)")
    axis.set(xlim=(0, end), ylim=(0, end), aspect="equal")
    sets = style.in_order(cell.set for cell in cells)
    looks = {SET_NAMES[name]: ("o", style.SET_COLOURS[name], _fill(name)) for name in sets}
    looks |= {f"Top-{top}": (marker, style.INK, style.INK) for top, marker in MARKERS.items()}
    handles: list[Artist] = [
        Line2D([], [], linestyle="", marker=marker, color=colour, markerfacecolor=fill, markersize=7, label=name)
        for name, (marker, colour, fill) in looks.items()
    ]
    axis.legend(handles=[*handles, Patch(color=style.BAND, label=f"Within {CLOSE} points")], loc="upper left")
    return figure


def _fill(test_set: str) -> str:
    return "none" if test_set.startswith("multi") else style.SET_COLOURS[test_set]

"""Beyond the paper: what rare disorders gain and frequent ones lose, as the correction for gallery size grows."""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.size_offset import OffsetLine
from mien.evaluation.published import SET_NAMES
from mien.report.figures.style import BASELINE_COLOUR, HYBRID_COLOUR, PALE, TOPS, in_order, panels

COLOURS = {"freq": BASELINE_COLOUR, "rare": HYBRID_COLOUR}
SEVERAL = "multi-"  # patients with several photos


def draw(tables: Tables) -> Figure:
    """A panel for each length of the list, a line for each set."""
    lines = rows_of(tables, "size_offset", OffsetLine)
    figure, axes = panels(1, len(TOPS), height=4.0)
    for axis, top in zip(axes, TOPS, strict=True):
        for name in in_order(line.set for line in lines):
            of_set = [line for line in lines if line.set == name]
            gains = [getattr(line, f"top{top}") - getattr(of_set[0], f"top{top}") for line in of_set]
            style = "--" if name.startswith(SEVERAL) else "-"
            colour = COLOURS[name.removeprefix(SEVERAL)]
            offsets = [line.offset for line in of_set]
            axis.plot(offsets, gains, style, marker="o", markersize=4, color=colour, label=SET_NAMES[name])
        axis.axhline(0, color=PALE, linewidth=0.8)
        axis.set(title=f"Top-{top}", xlabel="Offset")
    axes[0].set_ylabel("Against the full method (points)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure

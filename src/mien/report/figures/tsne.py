"""Figure 2: a map of gallery photos and disorder centroids (fig:tsne)."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.tsne import Point
from mien.report.figures.style import INK, PALE, in_order, panels

COLOURS = {
    "most frequent": [
        "#d62728", "#1f6fb2", "#2ca02c", "#ff8c1a", "#8e44ad", "#17a2b8", "#e83e8c", "#8c564b", "#7f7f7f", "#bcae00",
    ],
    "less frequent": [
        "#7b0a24", "#0b2a6f", "#b7e04b", "#ffd8a8", "#cdb4f5", "#7ff0d0", "#f7b6d2", "#000000", "#5b6300", "#ffe119",
    ],
}  # fmt: skip
MARKERS = {"most frequent": ("o", 3), "less frequent": ("D", 4)}
EDGE: Any = {"markeredgecolor": INK, "markeredgewidth": 0.2}
LONGEST_NAME = 36


def draw(tables: Tables) -> Figure:
    """One colour per disorder; circles are of the most frequent disorders, diamonds of less frequent ones."""
    points = rows_of(tables, "tsne", Point)
    figure, [axis] = panels(1, 1, height=5.6)
    handles = []
    for cohort in in_order(point.cohort for point in points):
        handles.append(_handle(f"{cohort.capitalize()} disorders", "none", INK))
        of_cohort = [point for point in points if point.cohort == cohort]
        marker, size = MARKERS[cohort]
        for place, disorder_id in enumerate(in_order(point.disorder_id for point in of_cohort)):
            colour = COLOURS[cohort][place % len(COLOURS[cohort])]
            of_disorder = [point for point in of_cohort if point.disorder_id == disorder_id]
            handles.append(_handle(short(of_disorder[0].disorder_name or disorder_id), marker, colour))
            images, centroids = (
                [(point.x, point.y) for point in of_disorder if point.kind == kind] for kind in ("image", "centroid")
            )
            axis.plot(*zip(*images, strict=True), marker, color=colour, markersize=size, **EDGE)
            axis.plot(*zip(*centroids, strict=True), "X", color=colour, markersize=12, markeredgecolor=INK, zorder=3)
    handles.append(_handle("Centroid of a disorder", "X", PALE))
    legend = figure.legend(handles=handles, loc="outside right center", fontsize=8, handletextpad=0.3)
    for text in legend.get_texts():
        text.set_fontweight("bold" if text.get_text().endswith(" frequent disorders") else "normal")
    axis.set(
        xticks=(),
        yticks=(),
        xlabel="t-SNE map: photos that the encoder finds alike lie close together; the axes have no units",
    )
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_visible(True)
    return figure


def short(name: str) -> str:
    """A name that fits; the end is kept, where the names of subtypes differ.

    >>> short("Intellectual developmental disorder, autosomal dominant 21")
    'Intellectual developmen … dominant 21'
    """
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 13].rstrip()} … {name[-11:].lstrip()}"


def _handle(label: str, marker: str, colour: str) -> Line2D:
    look = Line2D([], [], linestyle="", marker=marker, color=colour, markersize=6, label=label)
    look.set(markeredgecolor=INK, markeredgewidth=0.3)
    return look

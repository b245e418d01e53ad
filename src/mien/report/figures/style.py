"""How figures look, and how they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mien.evaluation.lab import Tables, rows_of

__all__ = ["rows_of"]  # figures find it here

SET_NAMES = {
    "freq": "Frequent disorders",
    "rare": "Rare disorders",
    "multi-freq": "Frequent, several photos",
    "multi-rare": "Rare, several photos",
}
SET_COLOURS = {"freq": "#1f6fb2", "rare": "#c0392b", "multi-freq": "#1f6fb2", "multi-rare": "#c0392b"}
BASELINE_COLOUR, IMAGE_COLOUR, PATIENT_COLOUR, HYBRID_COLOUR = "#8a8f98", "#1f6fb2", "#c0392b", "#2e8b57"
IMPROVED_COLOUR, UNCHANGED_COLOUR, WORSENED_COLOUR = "#2e8b57", "#c9cdd3", "#c0392b"
INK, PALE = "#22272e", "#6b7280"

SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#9aa1ab",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.6,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "text.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "mien",  # the same figure is the same file
}


def panels(rows: int, columns: int, *, width: float = 10.0, height: float) -> tuple[Figure, list[Axes]]:
    """An empty figure with its axes in reading order."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [axis for row in axes for axis in row]


def in_order(values: Iterable[str]) -> list[str]:
    """Each value once, in the order of first appearance."""
    return list(dict.fromkeys(values))


def draw_and_save(draw: Callable[[Tables], Figure], tables: Tables, path: Path, note: str) -> None:
    """Writes `path`.svg and `path`.png, with a note on where the numbers come from."""
    with mpl.rc_context(SETTINGS):
        figure = draw(tables)
        figure.supxlabel(note, x=0.995, ha="right", fontsize=7, color=PALE)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=160)

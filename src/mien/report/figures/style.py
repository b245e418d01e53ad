"""The style of all figures; saves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import Any, Literal, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from mien.evaluation.experiment_context import Tables

Value = TypeVar("Value")
Below = Literal["outside lower center", "outside lower left"]

BASELINE_NAME = "Single-image baseline"
FUSION_NAMES = {"none": "Single image", "distance": "Distance-level fusion", "embedding": "Embedding-level fusion"}
SCORE_NAMES = {
    "nearest": "nearest neighbor",
    "image-centroid": "image-weighted disorder centroid",
    "patient-centroid": "patient-weighted disorder centroid",
    "hybrid": "hybrid individual-centroid scoring",
}
GALLERY_NAMES = {"unified": "unified gallery", "split": "split gallery"}
FEW_PATIENTS = 30
TOPS = (1, 5, 10)
SET_COLOURS = {"freq": "#1f6fb2", "rare": "#c0392b", "multi-freq": "#1f6fb2", "multi-rare": "#c0392b"}
BASELINE_COLOUR, IMAGE_COLOUR, PATIENT_COLOUR, HYBRID_COLOUR = "#8a8f98", "#1f6fb2", "#c0392b", "#2e8b57"
IMPROVED_COLOUR, UNCHANGED_COLOUR, WORSENED_COLOUR = "#2e8b57", "#c9cdd3", "#c0392b"
INK, PALE, BAND, GRID = "#22272e", "#6b7280", "#e8ebee", "#e6e8eb"

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
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "text.color": INK,
    "legend.frameon": False,
    "text.parse_math": False,  # names may hold dollar signs, which begin no formula
    "svg.hashsalt": "mien",  # the same figure is the same file
}


def panels(rows: int, columns: int, *, width: float = 10.0, height: float) -> tuple[Figure, list[Axes]]:
    """An empty figure with its axes in reading order."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.1))
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [axis for row in axes for axis in row]


def panels_of(count: int, *, row_height: float) -> tuple[Figure, list[Axes]]:
    """`count` panels, two in a row, with room for a legend below."""
    columns = min(2, count)
    rows = ceil(count / columns)
    figure, axes = panels(rows, columns, height=1.0 + row_height * rows)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def legend_below(figure: Figure, *, loc: Below = "outside lower center", **given: Any) -> None:
    """Puts a legend below all panels, with a free line under it for the note on the source."""
    figure.legend(loc=loc, ncols=4, fontsize=8.5, borderpad=2, columnspacing=1.5, **given)


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Moves the heights of labels up where two labels would touch.

    >>> apart([10.0, 30.0, 11.0], gap=4)
    [10.0, 30.0, 14.0]
    """
    placed: dict[int, float] = {}
    last = float("-inf")
    for place in sorted(range(len(heights)), key=heights.__getitem__):
        last = placed[place] = max(heights[place], last + gap)
    return [placed[place] for place in range(len(heights))]


def patients_told(test_set: str, patients: float) -> str:
    """The number of patients in words; that of a rare set is a mean, because its folds differ.

    >>> patients_told("freq", 943.0), patients_told("multi-rare", 65.2), patients_told("multi-freq", 12.0)
    ('943 patients', '65.2 patients per fold', '12 patients: few, read with care')
    """
    few = ": few, read with care" if patients < FEW_PATIENTS else ""
    return f"{patients:.4g} patients{' per fold' if test_set.endswith('rare') else ''}{few}"


def in_order(values: Iterable[Value]) -> list[Value]:
    """Each value once, in the order of first appearance."""
    return list(dict.fromkeys(values))


def draw_and_save(draw: Callable[[Tables], Figure], tables: Tables, path: Path, note: str) -> None:
    """Writes `path`.svg and `path`.png, with a note on where the numbers come from."""
    with mpl.rc_context(SETTINGS):
        figure = draw(tables)
        figure.supxlabel(note, x=0.995, ha="right", fontsize=7, color=PALE)
        # not `savefig`, which draws everything once more beforehand; the files are the same
        FigureCanvasSVG(figure).print_svg(path.with_suffix(".svg"), metadata={"Date": None})  # type: ignore[no-untyped-call]
        figure.set_layout_engine("none")  # the layout is done, and a second run would give the same
        figure.dpi = 160
        FigureCanvasAgg(figure).print_png(path.with_suffix(".png"))  # type: ignore[no-untyped-call]

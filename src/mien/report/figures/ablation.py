"""Supplementary figures: all fusions and scores, for either gallery (supp:fig:ablation-unified, -split)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from mien.core.method import BASELINE, FULL
from mien.evaluation.comparison import GalleryName
from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.published import SET_NAMES
from mien.evaluation.results import Result
from mien.report.figures import style

AS_GOOD = 0.7  # percentage points below the best
COLOURS = LinearSegmentedColormap.from_list("difference", ["#dd6b5f", "#fbfbfa", "#55b07c"])  # ink is readable on all


def draw(tables: Tables, gallery: GalleryName) -> Figure:
    """All patients above, patients with several photos below; both galleries share one scale of colours."""
    results = rows_of(tables, "ablation", Result)
    groups: dict[tuple[str, str], list[Result]] = {}
    for row in results:
        groups.setdefault((row.set, row.gallery), []).append(row)
    widest = max(abs(gain) for group in groups.values() for line in _gains(group) for gain in line)
    scale = Normalize(-math.ceil(widest), math.ceil(widest))
    sets = style.in_order(row.set for row in results)
    sections = [[name for name in sets if name.startswith("multi") == multi] for multi in (False, True)]
    sections = [section for section in sections if section]
    columns = max(map(len, sections))
    figure, axes = style.panels(len(sections), columns, height=0.5 + 3.9 * len(sections))
    for number, section in enumerate(sections):
        row_of_axes = axes[number * columns : (number + 1) * columns]
        for axis, test_set in zip(row_of_axes, section, strict=False):
            _draw_set(axis, groups[test_set, gallery], scale)
        for axis in row_of_axes[1:]:
            axis.tick_params(labelleft=False)
        for axis in row_of_axes[len(section) :]:
            axis.set_axis_off()
    label = (
        "Difference to the first row, the baseline (percentage points)\n"
        f"Underlined: best above or below the line. Bold: within {AS_GOOD} points of it."
    )
    figure.colorbar(
        ScalarMappable(scale, COLOURS), ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.02, label=label
    )
    return figure


def _draw_set(axis: Axes, rows: Sequence[Result], scale: Normalize) -> None:
    axis.pcolormesh(_gains(rows), cmap=COLOURS, norm=scale, edgecolors="white", linewidth=1)
    single = [row for row in rows if row.fusion == "none"]
    fused = [row for row in rows if row.fusion != "none"]
    for half, first in ((single, 0), (fused, len(single))):
        for column, accuracies in enumerate(zip(*map(_accuracies, half), strict=True)):
            for line, accuracy in enumerate(accuracies, start=first):
                bold = "bold" if accuracy >= max(accuracies) - AS_GOOD else "normal"
                axis.text(column + 0.5, line + 0.5, f"{accuracy:.1f}", ha="center", va="center", fontweight=bold)
                if accuracy == max(accuracies):
                    axis.plot(column + 0.5, line + 0.86, "_", markersize=24, markeredgewidth=1.1, color=style.INK)
    axis.axhline(len(single), color=style.INK, linewidth=1.4)
    axis.set_title(f"{SET_NAMES[rows[0].set]} ({style.patients_told(rows[0].set, rows[0].patients)})", fontsize=9.5)
    axis.set_xticks([column + 0.5 for column in range(len(style.TOPS))], [f"Top-{top} (%)" for top in style.TOPS])
    names = [short_name(row) for row in rows]
    axis.set_yticks([line + 0.5 for line in range(len(rows))], names)
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_color(style.IMAGE_COLOUR if row.method == BASELINE else style.INK)
        label.set_fontweight("bold" if row.method == FULL else "normal")
    axis.tick_params(length=0, top=True, labeltop=True, labelbottom=False)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.invert_yaxis()


def short_name(row: Result) -> str:
    """The method's name, without words that all methods share."""
    score = style.SCORE_NAMES[row.score].replace(" disorder", "").replace(" individual-centroid", "")
    return f"{style.FUSION_NAMES[row.fusion].removesuffix(' fusion')}, {score}"


def _accuracies(row: Result) -> list[float]:
    return [row.top1, row.top5, row.top10]


def _gains(rows: Sequence[Result]) -> list[list[float]]:
    """By how many percentage points each method (rows) is above the baseline, for each top-N (columns)."""
    [baseline] = [row for row in rows if row.method == BASELINE]
    pairs = [zip(_accuracies(row), _accuracies(baseline), strict=True) for row in rows]
    return [[accuracy - reference for accuracy, reference in line] for line in pairs]

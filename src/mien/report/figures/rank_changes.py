"""Figure 4: whose rank improves, whose worsens, as one component after the other is added (fig:rank-change)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.rank_changes import CENSORED_AT, STAGES, Change, Flow
from mien.evaluation.published import RANK_CHANGE, SET_NAMES
from mien.report.figures.style import (
    IMPROVED_COLOUR,
    INK,
    PALE,
    UNCHANGED_COLOUR,
    WORSENED_COLOUR,
    in_order,
    legend_below,
    panels_of,
)

COLOURS = {"worsened": WORSENED_COLOUR, "unchanged": UNCHANGED_COLOUR, "improved": IMPROVED_COLOUR}  # from below
STAGE_NAMES = {
    "baseline": "Single-image\nbaseline",
    "patient-weighted centroid": "Patient-weighted\ncentroid",
    "hybrid": "Hybrid\nscoring",
    "full": "Full: + embedding-\nlevel fusion",
    "embedding-level fusion alone": "Beside: fusion\nalone",
}
HALF_WIDTH, GAP = 0.13, 2.0
READABLE = 5.0  # per cent; a lower bar has its number outside


def draw(tables: Tables) -> Figure:
    """One panel per set; every band follows the same patients from one stage to the next."""
    changes, flows = rows_of(tables, "rank_changes", Change), rows_of(tables, "rank_flows", Flow)
    sets = in_order(change.set for change in changes)
    figure, axes = panels_of(len(sets), row_height=3.3)
    for axis, name in zip(axes, sets, strict=True):
        stages = [change for change in changes if change.set == name]
        bottoms = [_bars(axis, place, change) for place, change in enumerate(stages)]
        for place in range(len(STAGES) - 1):
            here = [flow for flow in flows if flow.set == name and flow.from_stage == stages[place].stage]
            _bands(axis, place, here, bottoms[place], bottoms[place + 1])
        _published(axis, len(STAGES) - 1, bottoms[len(STAGES) - 1], stages[len(STAGES) - 1])
        axis.axvline(len(STAGES) - 0.4, color=UNCHANGED_COLOUR, linestyle=":", linewidth=1)
        axis.set_xticks(range(len(stages)), [STAGE_NAMES[change.stage] for change in stages], fontsize=7, color=INK)
        axis.set_title(SET_NAMES[name])
        axis.set(yticks=(), ylim=(-6, 105), xlim=(-0.3, len(stages) - 0.7))
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0)
        axis.grid(visible=False)
    words = {"improved": "better than at the baseline", "unchanged": "the same", "worsened": "worse"}
    handles = [Patch(color=COLOURS[state], label=word) for state, word in words.items()]
    title = f"Rank of the true disorder, % of patients (ranks beyond {CENSORED_AT} count as {CENSORED_AT})"
    legend_below(figure, handles=handles, title=title)
    return figure


def _bars(axis: Axes, place: int, change: Change) -> dict[str, float]:
    """Draws the bars of one stage; returns where the bar of each state begins."""
    bottoms, bottom = {}, GAP if change.unchanged == 100 else 0.0  # a single bar stands in the middle
    for state, colour in COLOURS.items():
        percent: float = getattr(change, state)
        bottoms[state] = bottom
        if percent:
            axis.add_patch(Rectangle((place - HALF_WIDTH, bottom), 2 * HALF_WIDTH, percent, color=colour, linewidth=0))
            height, ink = bottom + percent / 2, INK if state == "unchanged" else "white"
            if percent < READABLE and state != "unchanged":
                height, ink = bottom - 3.2 if state == "worsened" else bottom + percent + 3.2, colour
            text = "100" if percent == 100 else f"{percent:.1f}"
            axis.text(place, height, text, ha="center", va="center", fontsize=8, color=ink)
            bottom += percent + GAP
    return bottoms


def _published(axis: Axes, place: int, bottoms: Mapping[str, float], change: Change) -> None:
    """What the paper prints of the full method, at the right of the bars."""
    for state in ("improved", "worsened"):
        height = bottoms[state] + getattr(change, state) / 2
        text = f"paper\n{RANK_CHANGE[change.set, change.stage][state]}"
        axis.text(place + HALF_WIDTH + 0.03, height, text, va="center", fontsize=7, color=PALE)


def _bands(
    axis: Axes, place: int, flows: list[Flow], leaving: Mapping[str, float], arriving: Mapping[str, float]
) -> None:
    left, right = dict(leaving), dict(arriving)
    order = list(COLOURS)
    for flow in sorted(flows, key=lambda flow: (order.index(flow.from_state), order.index(flow.to_state))):
        if flow.percent:
            start, end = left[flow.from_state], right[flow.to_state]
            band = _band(place + HALF_WIDTH, start, place + 1 - HALF_WIDTH, end, flow.percent)
            axis.add_patch(PathPatch(band, facecolor=COLOURS[flow.to_state], alpha=0.45, linewidth=0))
            left[flow.from_state] += flow.percent
            right[flow.to_state] += flow.percent


def _band(x0: float, y0: float, x1: float, y1: float, height: float) -> Path:
    """From the left edge to the right one and back, as two S-shaped curves."""
    middle = (x0 + x1) / 2
    there = [(x0, y0), (middle, y0), (middle, y1), (x1, y1)]
    back = [(x1, y1 + height), (middle, y1 + height), (middle, y0 + height), (x0, y0 + height)]
    curve = [Path.CURVE4] * 3
    return Path([*there, *back, (x0, y0)], [Path.MOVETO, *curve, Path.LINETO, *curve, Path.CLOSEPOLY])

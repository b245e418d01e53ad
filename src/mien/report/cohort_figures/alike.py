"""Cohort: how alike each group is, beside random gallery patients."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mien.evaluation.cohort_rows import CohortPatient, GroupResult, RandomMean, WithoutOne
from mien.evaluation.experiment_context import Tables, rows_of
from mien.report.cohort_figures.ranks import group_colours
from mien.report.figures.style import INK, PALE, panels
from mien.report.figures.tsne import short

RANDOM_COLOUR = "#c9cdd3"


def draw(tables: Tables) -> Figure:
    """A line of the figure for each group: random groups in grey, the group, and the group without each patient."""
    groups = [group for group in rows_of(tables, "groups", GroupResult) if group.mean_distance is not None]
    drawn, without = rows_of(tables, "random_means", RandomMean), rows_of(tables, "without_one", WithoutOne)
    colour_of = group_colours(rows_of(tables, "patients", CohortPatient))
    figure, axes = panels(len(groups), 1, height=1.3 + 1.35 * len(groups))
    for axis, group in zip(axes, groups, strict=True):
        random = [row for row in drawn if row.group == group.group]
        highest = max(row.draws for row in random)
        distances = [row.distance for row in random]
        axis.fill_between(distances, [row.draws / highest for row in random], step="mid", color=RANDOM_COLOUR)
        rests = [row.mean_distance for row in without if row.group == group.group]
        axis.plot(rests, [0.14] * len(rests), "|", color=colour_of[group.group], markersize=9, markeredgewidth=1.2)
        assert group.mean_distance is not None
        axis.plot([group.mean_distance] * 2, [0, 1.05], color=colour_of[group.group], linewidth=2.2)
        p_value = "p < 0.001" if (group.p_holm or 0) < 0.001 else f"p = {group.p_holm:.3f}"
        axis.set_title(f"{short(group.group)}: {group.patients} patients, {p_value}", fontsize=9.5)
        axis.axvline(group.random_mean or 0, color=PALE, linewidth=0.8, linestyle=":")
        axis.set(yticks=(), ylim=(0, 1.12))
        axis.spines["left"].set_visible(False)
    ends = [end for axis in axes for end in axis.get_xlim()]
    for axis in axes:
        axis.set_xlim(min(ends), max(ends))
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel("Mean distance of two patients of a group: the further left, the more alike")
    handles = [
        Patch(color=RANDOM_COLOUR, label="as many random gallery patients"),
        Line2D([], [], color=INK, linewidth=2.2, label="the group"),
        Line2D([], [], color=INK, marker="|", linestyle="", markersize=9, label="without each patient in turn"),
        Line2D([], [], color=PALE, linestyle=":", label="two patients with different disorders, on average"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8.5)
    return figure

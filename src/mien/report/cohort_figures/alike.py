"""Cohort: how alike each group is, between gallery patients with different disorders and those with one."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mien.evaluation.cohort_rows import CohortPatient, GroupResult, RandomMean, WithoutOne, strongest_first
from mien.evaluation.experiment_context import Tables, rows_of
from mien.report.cohort_figures.ranks import group_colours
from mien.report.evaluation import p_equals
from mien.report.figures.style import INK, panels
from mien.report.figures.tsne import short

DIFFERENT, ONE = "#b9bec6", "#d9bf8f"


def draw(tables: Tables) -> Figure:
    """A panel for each group: histograms of random gallery groups, the group's mean, and that without each patient."""
    groups = [group for group in strongest_first(rows_of(tables, "groups", GroupResult)) if group.p_holm is not None]
    drawn, without = rows_of(tables, "random_means", RandomMean), rows_of(tables, "without_one", WithoutOne)
    colour_of = group_colours(rows_of(tables, "patients", CohortPatient))
    figure, axes = panels(len(groups), 1, height=1.5 + 1.5 * len(groups))
    for axis, group in zip(axes, groups, strict=True):
        for disorders, colour in (("one", ONE), ("different", DIFFERENT)):
            hill = [row for row in drawn if (row.group, row.disorders) == (group.group, disorders)]
            heights = [row.draws / max(row.draws for row in hill) for row in hill]
            axis.fill_between([row.distance for row in hill], heights, step="mid", color=colour, alpha=0.75, lw=0)
        rests = [row.mean_distance for row in without if row.group == group.group]
        axis.plot(rests, [0.14] * len(rests), "|", color=colour_of[group.group], markersize=9, markeredgewidth=1.2)
        axis.plot([group.mean_distance or 0] * 2, [0, 1.05], color=colour_of[group.group], linewidth=2.4)
        axis.set_title(f"{short(group.group)}: {group.patients} patients, {p_equals(group.p_holm or 0)}", fontsize=9.5)
        axis.set(yticks=(), ylim=(0, 1.12))
        axis.spines["left"].set_visible(False)
    ends = [end for axis in axes for end in axis.get_xlim()]
    for axis in axes:
        axis.set_xlim(min(ends), max(ends))
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel("Mean distance of two patients: the further left, the more alike")
    handles = [
        Line2D([], [], color=INK, linewidth=2.4, label="the group"),
        Line2D([], [], color=INK, marker="|", linestyle="", markersize=9, label="without each patient in turn"),
        Patch(color=ONE, label="gallery patients with one disorder"),
        Patch(color=DIFFERENT, label="with different disorders"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8.5)
    return figure

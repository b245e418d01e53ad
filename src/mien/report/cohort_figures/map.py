"""Cohort: a map among the known disorders that are near."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from scipy.stats import f

from mien.evaluation.cohort_rows import CohortPatient, MapPoint
from mien.evaluation.experiment_context import Tables, rows_of
from mien.report.cohort_figures.ranks import group_colours
from mien.report.figures.style import INK, PALE, in_order, panels
from mien.report.figures.tsne import short

FAINT = ["#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#fb9a99", "#d9c39a", "#c7c7c7", "#9edae5", "#f7b6d2", "#dbdb8d"]
FEWEST_IN_ELLIPSE = 4
MOST_NAMED, MANY = 25, 60
EDGE: Any = {"markeredgecolor": "white", "markeredgewidth": 0.6, "zorder": 4}
NAME: Any = {"textcoords": "offset points", "fontsize": 7, "zorder": 6}


def draw(tables: Tables) -> Figure:
    """Known disorders faint, groups of the cohort strong, each with the 95 % confidence ellipse of its average."""
    points = rows_of(tables, "map", MapPoint)
    colour_of = group_colours(rows_of(tables, "patients", CohortPatient))
    known, cohort = ([p for p in points if (p.disorder_id is None) == ours] for ours in (False, True))
    figure, [axis] = panels(1, 1, height=6.2)
    handles, size = [], 6 if len(cohort) <= MANY else 4
    for place, disorder_id in enumerate(in_order(point.disorder_id for point in known)):
        of_disorder = [point for point in known if point.disorder_id == disorder_id]
        where = [(point.x, point.y) for point in of_disorder]
        axis.plot(*zip(*where, strict=True), "o", color=FAINT[place % len(FAINT)], markersize=4)
        axis.plot(*np.mean(where, axis=0), "X", color=FAINT[place % len(FAINT)], markersize=11, markeredgecolor=INK)
        label = short(of_disorder[0].disorder_name or disorder_id or "")
        handles.append(Line2D([], [], linestyle="", marker="o", color=FAINT[place % len(FAINT)], label=label))
    handles.append(Line2D([], [], linestyle="", marker="X", color="white", markeredgecolor=INK, label="their average"))
    for group, colour in [*colour_of.items(), (None, PALE)]:
        where = [(point.x, point.y) for point in cohort if point.group == group]
        if not where:
            continue
        axis.plot(*zip(*where, strict=True), "D", color=colour, markersize=size, **EDGE)
        name = "no group" if group is None else short(group)
        handles.append(Line2D([], [], linestyle="", marker="D", color=colour, label=f"cohort: {name}"))
        if len(where) >= FEWEST_IN_ELLIPSE and group is not None:
            axis.add_patch(_ellipse(np.array(where), colour))
    if len(cohort) <= MOST_NAMED:
        for point in cohort:
            axis.annotate(short(point.patient_id), (point.x, point.y), (4, 4), **NAME)
    figure.legend(handles=handles, loc="outside right center", fontsize=8, handletextpad=0.3)
    axis.set(xticks=(), yticks=(), xlabel="Axes: the two along which the averages of these known disorders differ most")
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_visible(True)
    return figure


def _ellipse(where: np.ndarray, colour: str) -> Ellipse:
    values, axes = np.linalg.eigh(np.cov(where.T))
    count = len(where)
    reach = 2 * (count - 1) / (count * (count - 2)) * f.ppf(0.95, 2, count - 2)  # Hotelling
    width, height = 2 * np.sqrt(reach * values.clip(min=0))
    angle = float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
    x, y = where.mean(axis=0)
    return Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=colour, linewidth=2, zorder=5)

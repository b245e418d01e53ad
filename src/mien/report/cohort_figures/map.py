"""Cohort: a map among the known disorders that are near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from matplotlib.patheffects import withStroke
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
AWAY = (10, 17, 26, 40, 56)  # points between a label and what it names
ANGLES = np.linspace(0, 2 * np.pi, 12, endpoint=False)
DIRECTIONS: list[list[float]] = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).tolist()

Box = tuple[float, float, float, float]  # left, bottom, right, top


def draw(tables: Tables) -> Figure:
    """Known disorders in faint colours, groups of the cohort in strong ones, with ellipses around their means."""
    points = rows_of(tables, "map", MapPoint)
    colour_of = group_colours(rows_of(tables, "patients", CohortPatient))
    known, cohort = ([p for p in points if (p.disorder_id is None) == ours] for ours in (False, True))
    figure, [axis] = panels(1, 1, height=7.0)
    size, labels = 6 if len(cohort) <= MANY else 4, []
    for place, disorder_id in enumerate(in_order(point.disorder_id for point in known)):
        of_disorder = [point for point in known if point.disorder_id == disorder_id]
        where, colour = [(point.x, point.y) for point in of_disorder], FAINT[place % len(FAINT)]
        axis.plot(*zip(*where, strict=True), "o", color=colour, markersize=4)
        x, y = np.mean(where, axis=0).tolist()
        axis.plot(x, y, "X", color=colour, markersize=10, markeredgecolor=INK, zorder=5)
        labels.append((x, y, short(of_disorder[0].disorder_name or disorder_id or ""), 8.5))
    handles = [
        Line2D([], [], linestyle="", marker="o", color=FAINT[0], markersize=4, label="gallery patients, by disorder"),
        Line2D([], [], linestyle="", marker="X", color=FAINT[0], markeredgecolor=INK, label="their average, named"),
    ]
    for group, colour in [*colour_of.items(), (None, PALE)]:
        where = [(point.x, point.y) for point in cohort if point.group == group]
        if not where:
            continue
        axis.plot(*zip(*where, strict=True), "D", color=colour, markersize=size, **EDGE)
        name = "no group" if group is None else short(group)
        handles.append(Line2D([], [], linestyle="", marker="D", color=colour, label=f"cohort: {name}"))
        if len(where) >= FEWEST_IN_ELLIPSE and group is not None:
            axis.add_patch(_ellipse(np.array(where), colour))
    if axis.patches:
        about = "where the average of a group lies (95 % confidence)"
        handles.append(Line2D([], [], linestyle="", marker="o", markersize=9, color="none", mec=INK, label=about))
    if len(cohort) <= MOST_NAMED:
        labels += [(point.x, point.y, short(point.patient_id or ""), 7.0) for point in cohort]
    figure.legend(handles=handles, loc="outside upper left", ncols=4, fontsize=8.5, handletextpad=0.3)
    axis.set(xticks=(), yticks=(), xlabel="Axes: the two along which the averages of these known disorders differ most")
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_visible(True)
    figure.draw_without_rendering()  # now it is known where on the paper a point lies
    _write_apart(axis, labels, [(point.x, point.y) for point in cohort])
    return figure


def _write_apart(
    axis: Axes, labels: Sequence[tuple[float, float, str, float]], points: Sequence[tuple[float, float]]
) -> None:
    """Writes each label (x, y, text, size) where it covers the least of other labels, of crosses and of points."""
    scale = 72 / axis.figure.dpi
    crosses = [label[:2] for label in labels]
    places = (axis.transData.transform([*crosses, *points]) * scale).tolist()
    taken: list[Box] = [(x - 6, y - 6, x - 6 + 12, y - 6 + 12) for x, y in places]
    (left, bottom), (right, top) = (axis.bbox.get_points() * scale).tolist()
    page = left, bottom, right, top
    for x, y, text, size in labels:
        here = (axis.transData.transform((x, y)) * scale).tolist()
        width, height = 0.64 * size * len(text), 1.25 * size
        best: tuple[float, float, float, Box] | None = None
        for away in AWAY:
            for across, up in DIRECTIONS:
                dx, dy = away * across, away * up
                left = here[0] + dx - width / 2 + across * width / 2
                bottom = here[1] + dy - height / 2
                box = left, bottom, left + width, bottom + height
                covered = sum(_shared(box, other) for other in taken) + width * height - _shared(box, page) + away
                if best is None or covered < best[0]:
                    best = covered, left + width / 2 - here[0], dy, box
        assert best is not None
        taken.append(best[3])
        far = np.hypot(best[1], best[2]) > AWAY[1] + width / 2
        axis.annotate(
            text, (x, y), best[1:3], textcoords="offset points", ha="center", va="center", fontsize=size, zorder=6,
            fontweight="bold" if size > 8 else "normal",
            path_effects=[withStroke(linewidth=2, foreground="white")],
            arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.6} if far else None,
        )  # fmt: skip


def _shared(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


def _ellipse(where: np.ndarray, colour: str) -> Ellipse:
    values, axes = np.linalg.eigh(np.cov(where.T))
    count = len(where)
    reach = 2 * (count - 1) / (count * (count - 2)) * f.ppf(0.95, 2, count - 2)  # Hotelling
    width, height = 2 * np.sqrt(reach * values.clip(min=0))
    angle = float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
    x, y = where.mean(axis=0)
    return Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=colour, linewidth=2, zorder=5)

"""Figure 1: the method on one patient (fig:overview)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.overview import LISTED, OverviewLine, OverviewPoint
from mien.report.figures.style import BASELINE_COLOUR, GRID, IMAGE_COLOUR, INK, PALE, in_order, panels
from mien.report.figures.tsne import COLOURS, short

MARKERS = ("o", "s", "D", "^", "v", "P", "h")
TITLES = {
    "A": "A  Single-image baseline: one photo,\nnearest gallery photo of each disorder",
    "B1": "B1  Embedding-level fusion:\nthe patient's photos become one",
    "B2": "B2  Patient-weighted disorder\ncentroids (large)",
    "B3": "B3  The list of A (left) and of the\nfull method: fused, hybrid (right)",
}


def draw(tables: Tables) -> Figure:
    """Three views of one plane, and the lists before and after."""
    points, lines = rows_of(tables, "overview_points", OverviewPoint), rows_of(tables, "overview", OverviewLine)
    looks = dict(
        zip(
            in_order(point.disorder_id for point in points),
            zip(COLOURS["most frequent"], MARKERS, strict=False),
            strict=False,
        )
    )
    figure, axes = panels(2, 2, height=8.4)
    for axis, (panel, title) in zip(axes, TITLES.items(), strict=True):
        axis.set_title(title, fontsize=9.5)
        axis.set(xticks=(), yticks=())
        axis.grid(visible=False)
        axis.spines[:].set(visible=True, color=GRID)
        if panel == "B3":
            _lists(axis, lines, looks)
        else:
            _plane(axis, panel, points, looks)
    return figure


def _plane(axis: Axes, panel: str, points: list[OverviewPoint], looks: dict[str, tuple[str, str]]) -> None:
    [the], [fused] = ([point for point in points if point.kind == kind] for kind in ("the image", "fused"))
    star = the if panel == "A" else fused
    for disorder_id, (colour, marker) in looks.items():
        of = [point for point in points if point.disorder_id == disorder_id]
        images = [(point.x, point.y) for point in of if point.kind == "gallery image"]
        axis.plot(*zip(*images, strict=True), marker, color=colour, markersize=3, alpha=0.35 if panel == "A" else 0.15)
        ends = [
            point for point in of if (point.nearest if panel == "A" else panel == "B2" and point.kind == "centroid")
        ]
        for end in ends:
            axis.plot([star.x, end.x], [star.y, end.y], color=colour, linewidth=1)
            axis.plot(end.x, end.y, marker, color=colour, markersize=6 if panel == "A" else 13, markeredgecolor=INK)
    for photo in [point for point in points if panel == "B1" and point.kind in {"the image", "other image"}]:
        axis.plot([photo.x, fused.x], [photo.y, fused.y], color=IMAGE_COLOUR, linewidth=1)
        axis.plot(photo.x, photo.y, "*", color="white", markersize=13, markeredgecolor=IMAGE_COLOUR)
    axis.plot(star.x, star.y, "*", color=IMAGE_COLOUR, markersize=17, markeredgecolor="white", zorder=5)


def _lists(axis: Axes, lines: list[OverviewLine], looks: dict[str, tuple[str, str]]) -> None:
    """Each disorder at its rank; one that both lists show is joined. The true one is bold."""
    heights: dict[tuple[str, str], int] = {}
    for panel, side in (("A", 0.0), ("B3", 1.0)):
        for place, line in enumerate([line for line in lines if line.panel == panel]):
            heights[panel, line.disorder_id] = place
            colour, marker = looks.get(line.disorder_id, (BASELINE_COLOUR, "."))
            text = f"{line.rank}. {short(line.disorder_name or line.disorder_id)}\n{line.distance:.3f}"
            weight, where = "bold" if line.true_disorder else "normal", "left" if side else "right"
            axis.plot(side, place, marker, color=colour, markersize=8, markeredgecolor=INK)
            axis.text(
                side + (0.2 if side else -0.2), place, text, ha=where, va="center", fontsize=6.5, fontweight=weight
            )
    for (panel, disorder_id), place in heights.items():
        if panel == "A" and ("B3", disorder_id) in heights:
            colour = looks.get(disorder_id, (PALE, ""))[0]
            axis.plot([0.1, 0.9], [place, heights["B3", disorder_id]], color=colour, linewidth=1)
    axis.set(xlim=(-3.3, 4.3), ylim=(LISTED + 0.8, -0.7))

"""Supplementary figure: distances within disorders and between them (supp:fig:distances)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.distances import Density, Group
from mien.evaluation.published import DISTANCES
from mien.report.figures.style import GRID, INK, PALE, legend_below, panels

COLOURS = {"intra-freq": "#1f6fb2", "intra-rare": "#7d3c98", "inter": "#e67e22"}
NAMES = {
    "intra-freq": "Intra-disorder,\nfrequent",
    "intra-rare": "Intra-disorder,\nrare",
    "inter": "Inter-\ndisorder",
}


def draw(tables: Tables) -> Figure:
    """Densities at the left, the numbers behind them at the right."""
    groups, densities = rows_of(tables, "distances", Group), rows_of(tables, "distance_densities", Density)
    figure, [axis, beside] = panels(1, 2, height=4.7)
    highest = max(point.density for point in densities)
    for group in groups:
        curve = [(point.distance, point.density) for point in densities if point.group == group.group]
        distances, heights = zip(*curve, strict=True)
        colour, name = COLOURS[group.group], NAMES[group.group].replace("-\n", "-").replace("\n", " ")
        axis.plot(distances, heights, color=colour, linewidth=1.8, label=name)
        axis.fill_between(distances, heights, color=colour, alpha=0.15, linewidth=0)
        axis.axvline(DISTANCES[group.group]["mean"], color=colour, linestyle=":", linewidth=1)
    axis.plot([], [], ":", color=PALE, linewidth=1, label="Mean printed in the paper")
    axis.set(title="Pairs of photos in the gallery", xlabel="Cosine distance (0: alike)", ylabel="Density")
    farthest = max(point.distance for point in densities if point.density > 0.001 * highest)
    axis.set(ylim=(0, 1.05 * highest), xlim=(0, farthest))
    legend_below(figure, loc="outside lower left")
    _table(beside, groups)
    return figure


def _table(axis: Axes, groups: list[Group]) -> None:
    lines = {
        "Pairs drawn": [f"{group.pairs:,}" for group in groups],
        "Distinct pairs": [f"{group.distinct_pairs:,}" for group in groups],
        "Both of one patient": [f"{group.same_patient_percent:.1f} %" for group in groups],
        "Mean": [f"{group.mean:.3f}" for group in groups],
        "Standard deviation": [f"{group.sd:.3f}" for group in groups],
        "Median": [f"{group.median:.3f}" for group in groups],
        "Against inter-disorder:": [],
        "   AUC": [_or_dash(group.auc, ".3f") for group in groups],
        "   Cohen's d": [_or_dash(group.cohens_d, ".2f") for group in groups],
        "   Overlap of areas": [_or_dash(group.overlap_percent, ".1f", " %") for group in groups],
    }
    ends = [0.52 + 0.24 * place for place in range(len(groups))]
    for end, group in zip(ends, groups, strict=True):
        axis.text(end, 0, NAMES[group.group], ha="right", fontweight="bold", fontsize=8, color=COLOURS[group.group])
    for row, (name, values) in enumerate(lines.items(), start=1):
        axis.axhline(row - 0.7, color=GRID, linewidth=0.6)
        axis.text(0, row, name, fontsize=8.5, color=INK if values else PALE)
        for end, value in zip(ends, values, strict=False):
            axis.text(end, row, value, ha="right", fontsize=8.5)
    axis.set(xlim=(-0.03, 1.02), ylim=(len(lines) + 0.5, -1))
    axis.axis("off")


def _or_dash(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"

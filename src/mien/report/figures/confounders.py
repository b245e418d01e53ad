"""Supplementary figure: what goes with the gain from fusing a patient's photos (supp:fig:confounders)."""

from __future__ import annotations

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.confounders import Correlation
from mien.evaluation.published import SET_NAMES
from mien.report.evaluation import p_value_text
from mien.report.figures.style import BAND, INK, PALE, SET_COLOURS, in_order, panels

NAMES = {
    "images": "Number of photos",
    "age spread": "Age range of the photos",
    "age gap to gallery": "Smallest age gap to a\ngallery photo of the disorder",
    "mean age": "Mean age",
    "sex (male)": "Sex (male)",
    "gallery images of disorder": "Gallery photos of the disorder",
    "embedding length": "Embedding length",
}
NEGLIGIBLE = 0.1
SIGNIFICANT = 0.05
COLUMNS = {"p-value": 1.08, "Patients": 1.19}


def draw(tables: Tables) -> Figure:
    """A line for each variable and set: the correlation, its interval, its p-value."""
    rows = rows_of(tables, "confounders", Correlation)
    sets, variables = in_order(row.set for row in rows), in_order(row.variable for row in rows)
    figure, [axis] = panels(1, 1, height=1.6 + 0.55 * len(variables))
    axis.axvspan(-NEGLIGIBLE, NEGLIGIBLE, color=BAND, zorder=0)
    axis.axvline(0, color=PALE, linewidth=0.8)
    at_line = axis.get_yaxis_transform()
    for row in rows:
        colour = SET_COLOURS[row.set]
        line = variables.index(row.variable) + 0.32 * (sets.index(row.set) - (len(sets) - 1) / 2)
        axis.plot([row.ci_low, row.ci_high], [line, line], color=colour, linewidth=1.6)
        fill = colour if row.p_value < SIGNIFICANT else "white"
        axis.plot(row.rho, line, "o", color=colour, markerfacecolor=fill, markeredgewidth=1.5, markersize=7)
        for place, text in zip(COLUMNS.values(), (p_value_text(row.p_value), f"{row.patients}"), strict=True):
            axis.text(place, line, text, transform=at_line, ha="right", va="center", color=colour)
    for name, place in COLUMNS.items():
        axis.text(place, 1.015, name, transform=axis.transAxes, ha="right")
    reach = max(0.3, *(1.08 * abs(end) for row in rows for end in (row.ci_low, row.ci_high)))
    axis.set(xlim=(-reach, reach), ylim=(len(variables) - 0.5, -0.5), yticks=range(len(variables)))
    axis.set_yticklabels([NAMES.get(variable, variable) for variable in variables], color=INK)
    axis.set_xlabel(
        "Rank correlation (Spearman) with the gain from fusion, and its 95 % interval\n"
        "Left of 0: more of it goes with a smaller gain. Right of 0: with a larger gain."
    )
    axis.grid(visible=False, axis="y")
    handles: list[Artist] = [
        Line2D([], [], color=SET_COLOURS[name], linewidth=1.6, label=SET_NAMES[name]) for name in sets
    ]
    handles += [
        Line2D([], [], color=INK, marker="o", linestyle="", markersize=7, markerfacecolor=fill, label=label)
        for fill, label in ((INK, f"p < {SIGNIFICANT}"), ("white", "p higher"))
    ]
    handles.append(Patch(color=BAND, label=f"below {NEGLIGIBLE}: not interpreted"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure

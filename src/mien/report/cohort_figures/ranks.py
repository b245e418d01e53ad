"""Cohort: where patients stand in each other's lists, clustered."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform

from mien.core.arrays import Float64s
from mien.evaluation.cohort_rows import CohortPair, CohortPatient
from mien.evaluation.experiment_context import Tables, rows_of
from mien.report.figures.style import INK, PALE
from mien.report.figures.tsne import COLOURS, short

GROUP_COLOURS = COLOURS["most frequent"]
CLOSE_TO_FAR = LinearSegmentedColormap.from_list("ranks", ["#0b3c5d", "#328cc1", "#bcdcec", "#f7f7f5"])
FEW, MOST_NUMBERED, MOST_NAMED, MOST_ORDERED = 12, 40, 90, 300
DARK = 0.4  # on this part of the scale, numbers are white


def group_colours(patients: list[CohortPatient]) -> dict[str, str]:
    """A colour for each group, in the order of the cohort."""
    names = dict.fromkeys(patient.group for patient in patients if patient.group is not None)
    return {name: GROUP_COLOURS[place % len(GROUP_COLOURS)] for place, name in enumerate(names)}


def draw(tables: Tables) -> Figure:
    """A row is one patient's view: where the patients of the columns stand among all others."""
    patients = rows_of(tables, "patients", CohortPatient)
    ranks, distances = _matrices(rows_of(tables, "pairs", CohortPair), patients)
    side = min(15.0, 3.4 + 0.3 * len(patients))
    figure = Figure(figsize=(side + 2.6, side + 0.7), layout="constrained")
    tree, strip, axis = figure.subplots(1, 3, width_ratios=[1.2, 0.16, side - 1])
    joined = linkage(squareform(distances), "average", optimal_ordering=len(patients) <= MOST_ORDERED)
    order = dendrogram(joined, orientation="left", ax=tree, color_threshold=0, above_threshold_color=PALE)["leaves"]
    tree.set(ylim=(10 * len(order), 0))
    colour_of = group_colours(patients)
    strip.imshow([[to_rgb(colour_of.get(patients[place].group or "", "white"))] for place in order], aspect="auto")
    strip.set_visible(len(colour_of) > 1)
    for beside in (tree, strip):
        beside.set(xticks=(), yticks=())
        beside.spines[:].set_visible(False)
        beside.grid(visible=False)
    shown = _draw_ranks(axis, ranks[np.ix_(order, order)], [short(patients[place].patient_id) for place in order])
    bar = figure.colorbar(shown, ax=axis, location="bottom", shrink=0.5, aspect=30, pad=0.02)
    bar.set_label("Rank among all others, cohort and gallery (1 is the closest)")
    bar.ax.xaxis.set_major_formatter("{x:,.0f}")
    handles = [Patch(color=colour, label=short(name)) for name, colour in colour_of.items()]
    if len(handles) > 1:
        figure.legend(handles=handles, loc="outside lower left", ncols=4, title="Groups, at the edge", borderpad=2)
    return figure


def _matrices(pairs: list[CohortPair], patients: list[CohortPatient]) -> tuple[Float64s, Float64s]:
    place_of = {patient.patient_id: place for place, patient in enumerate(patients)}
    ranks, distances = np.zeros((2, len(patients), len(patients)))
    for pair in pairs:
        one, other = place_of[pair.patient_id], place_of[pair.other_id]
        ranks[one, other], ranks[other, one] = pair.rank, pair.rank_back
        distances[one, other] = distances[other, one] = pair.distance
    np.fill_diagonal(ranks, np.nan)
    return ranks, distances


def _draw_ranks(axis: Axes, ranks: Float64s, names: list[str]) -> AxesImage:
    scale = LogNorm(1, max(2.0, np.nanmax(ranks)))
    axis.set_facecolor("#d7dade")
    shown = axis.imshow(ranks, cmap=CLOSE_TO_FAR, norm=scale, aspect="auto")
    look: Any = {"ha": "center", "va": "center", "fontsize": 9 if len(names) <= FEW else 6.5}
    for (line, column), rank in np.ndenumerate(ranks) if len(names) <= MOST_NUMBERED else ():
        if line != column:
            axis.text(column, line, f"{rank:.0f}", color="white" if scale(rank) < DARK else INK, **look)
    named = names if len(names) <= MOST_NAMED else []
    size = 8 if len(names) <= MOST_NUMBERED else 5
    axis.set_xticks(range(len(named)), named, rotation=90, fontsize=size)
    axis.set_yticks(range(len(named)), named, fontsize=size)
    axis.yaxis.tick_right()
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.set_title("Rank of the patient of a column, in the list of the patient of a row")
    return shown

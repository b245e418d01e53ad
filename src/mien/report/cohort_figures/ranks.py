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
MOST_NUMBERED, MOST_NAMED, MOST_ORDERED = 40, 90, 300
DARK = 0.4  # on this part of the scale, numbers are white


def group_colours(patients: list[CohortPatient]) -> dict[str, str]:
    """A colour for each group, in the order of the cohort."""
    names = dict.fromkeys(patient.group for patient in patients if patient.group is not None)
    return {name: GROUP_COLOURS[place % len(GROUP_COLOURS)] for place, name in enumerate(names)}


def draw(tables: Tables) -> Figure:
    """A row is one patient's list: where the patients of the columns stand among all others."""
    patients = rows_of(tables, "patients", CohortPatient)
    ranks, distances = _matrices(rows_of(tables, "pairs", CohortPair), patients)
    side = min(13.0, 1.6 + 0.3 * len(patients))
    figure = Figure(figsize=(side + 3.4, side + 2.2), layout="constrained")
    rooms = figure.subplot_mosaic(
        [[".", ".", "above", "."], ["tree", "beside", "ranks", "medians"]],
        width_ratios=[1.1, 0.14, side, max(0.34, side / len(patients))],
        height_ratios=[0.14, side],
        gridspec_kw={"wspace": 0.01, "hspace": 0.01},
    )
    joined = linkage(squareform(distances), "average", optimal_ordering=len(patients) <= MOST_ORDERED)
    look: Any = {"color_threshold": 0, "above_threshold_color": PALE, "no_labels": True}
    order = dendrogram(joined, orientation="left", ax=rooms["tree"], **look)["leaves"]
    least, most = joined[0, 2], joined[-1, 2]  # an axis from 0 would squeeze the tree into its end
    ends = least - 0.2 * (most - least) - 0.005, most + 0.05 * (most - least) + 0.005
    rooms["tree"].set(ylim=(10 * len(order), 0), xlim=ends[::-1], yticks=(), xlabel="Distance")
    rooms["tree"].set_xticks([least, most], [f"{least:.2f}", f"{most:.2f}"], fontsize=8, rotation=90)
    rooms["tree"].spines["left"].set_visible(False)
    rooms["tree"].grid(visible=False)
    colour_of = group_colours(patients)
    edge = np.array([to_rgb(colour_of.get(patients[place].group or "", "white")) for place in order])
    rooms["beside"].imshow(edge[:, np.newaxis], aspect="auto")
    rooms["above"].imshow(edge[np.newaxis], aspect="auto")
    for strip in (rooms["beside"], rooms["above"]):
        strip.axis("off")
        strip.set_visible(len(colour_of) > 1)
    scale = LogNorm(1, max(2.0, np.nanmax(ranks)))
    shown = _draw_ranks(rooms["ranks"], ranks[np.ix_(order, order)], scale)
    _draw_ranks(rooms["medians"], _medians(ranks, patients)[order, np.newaxis], scale)
    _name(rooms, [short(patients[place].patient_id) for place in order])
    bar = figure.colorbar(shown, ax=list(rooms.values()), location="bottom", shrink=0.6, aspect=40, pad=0.02)
    bar.set_label("Rank among all others, cohort and gallery: 1 is the closest, 2k would be the two thousandth")
    bar.ax.xaxis.set_major_formatter("{x:,.0f}")
    handles = [Patch(color=colour, label=short(name)) for name, colour in colour_of.items()]
    if len(handles) > 1:
        figure.legend(handles=handles, loc="outside lower left", ncols=5, title="Groups, at the edges", borderpad=2)
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


def _medians(ranks: Float64s, patients: list[CohortPatient]) -> Float64s:
    """For each patient, the median rank of the others of the group in the patient's list."""
    medians = np.full(len(patients), np.nan)
    for place, patient in enumerate(patients):
        fellows = [o for o, other in enumerate(patients) if o != place and other.group == patient.group is not None]
        if fellows:
            medians[place] = np.median(ranks[place, fellows])
    return medians


def _draw_ranks(axis: Axes, ranks: Float64s, scale: LogNorm) -> AxesImage:
    axis.set_facecolor("#d7dade")
    shown = axis.imshow(ranks, cmap=CLOSE_TO_FAR, norm=scale, aspect="auto")
    look: Any = {"ha": "center", "va": "center", "fontsize": 9}
    for (line, column), rank in np.ndenumerate(ranks) if len(ranks) <= MOST_NUMBERED else ():
        if not np.isnan(rank):
            axis.text(column, line, _few_digits(rank), color="white" if scale(rank) < DARK else INK, **look)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    return shown


def _few_digits(rank: float) -> str:
    """A rank that fits into a field.

    >>> _few_digits(12.0), _few_digits(2.5), _few_digits(1480.0), _few_digits(11312.0)
    ('12', '2', '1k', '11k')
    """
    return f"{rank:.0f}" if rank < 1000 else f"{rank / 1000:.0f}k"


def _name(rooms: dict[str, Axes], names: list[str]) -> None:
    """Writes the names of patients and of the axes."""
    named = names if len(names) <= MOST_NAMED else []
    size = 8 if len(names) <= MOST_NUMBERED else 6
    ranks, medians = rooms["ranks"], rooms["medians"]
    ranks.set_xticks(range(len(named)), named, rotation=90, fontsize=size)
    ranks.set_yticks(())
    medians.set_yticks(range(len(named)), named, fontsize=size)
    medians.set_xticks([0], ["median of\nthe own group"], rotation=90, fontsize=8)
    medians.yaxis.tick_right()
    medians.tick_params(length=0)
    medians.yaxis.set_label_position("right")
    count = "" if named else f", {len(names)} of them in the order of the tree"
    ranks.set_xlabel(f"Patient who is looked for{count}")
    medians.set_ylabel(f"Patient whose list it is{count}")

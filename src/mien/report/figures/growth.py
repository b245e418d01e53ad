"""Supplementary figure: how a database grew from version to version (supp:fig:growth)."""

from __future__ import annotations

from datetime import date
from math import ceil, floor

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.growth import MOST_REPRESENTED, Growth
from mien.report.figures.style import apart, panels

IMAGES, PATIENTS, MULTI, MOST, DISORDERS = "#1f6fb2", "#2e8b57", "#c0392b", "#b8860b", "#22272e"
Curves = dict[str, tuple[str, str]]  # field: name, colour
PEOPLE: tuple[Curves, Curves] = (
    {
        "images": ("Photos", IMAGES),
        "patients": ("Patients", PATIENTS),
        "multi_image_patients": ("Patients with several photos", MULTI),
    },
    {"images_of_most_represented": (f"Photos of a patient, mean of the {MOST_REPRESENTED} with most", MOST)},
)
PER_DISORDER: tuple[Curves, Curves] = (
    {"disorders": ("Disorders", DISORDERS)},
    {
        "images_per_disorder": ("Photos per disorder", IMAGES),
        "patients_per_disorder": ("Patients per disorder", PATIENTS),
    },
)


def draw(tables: Tables) -> Figure:
    """Solid lines are counts (left axis), dashed lines are means (right axis); the last values are written out."""
    growth = rows_of(tables, "growth", Growth)
    figure, axes = panels(1, 2, height=4.9)
    _panel(axes[0], growth, *PEOPLE)
    _panel(axes[1], growth, *PER_DISORDER)
    axes[0].set_title("Photos and patients")
    axes[1].set_title("Disorders")
    return figure


def _panel(axis: Axes, growth: list[Growth], counts: Curves, means: Curves) -> None:
    beside = axis.twinx()
    ends = _lines(axis, growth, counts, style="o-", headroom=1.1) + _lines(
        beside, growth, means, style="s--", headroom=1.3
    )
    first, last = _year(growth[0]), _year(growth[-1])
    room = max(last - first, 1.0)
    for (text, colour, _), height in zip(ends, apart([height for *_, height in ends], gap=0.05), strict=True):
        at = (last + 0.04 * room, height)
        axis.annotate(text, at, xycoords=axis.get_xaxis_transform(), va="center", fontsize=8, color=colour)
    versions = growth[0].version if len(growth) == 1 else f"{growth[0].version} to {growth[-1].version}"
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set(ylabel="Number (solid lines)", xlabel=f"Date of release ({versions})")
    axis.set(xticks=range(floor(first), ceil(last) + 1), xlim=(floor(first), max(last + 0.22 * room, ceil(last))))
    beside.set_ylabel("Mean (dashed lines)")
    beside.grid(visible=False)
    beside.spines.right.set_visible(True)
    handles = [*axis.get_lines(), *beside.get_lines()]
    axis.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8)


def _lines(
    axis: Axes, growth: list[Growth], curves: Curves, *, style: str, headroom: float
) -> list[tuple[str, str, float]]:
    """Draws curves from zero up; returns of each the last value, the colour, and the height as a share of the panel."""
    highest = headroom * max(getattr(one, field) for one in growth for field in curves)
    axis.set_ylim(0, highest)
    ends = []
    for field, (name, colour) in curves.items():
        values = [getattr(one, field) for one in growth]
        axis.plot([_year(one) for one in growth], values, style, color=colour, markersize=3.5, label=name)
        text = f"{values[-1]:,}" if isinstance(values[-1], int) else f"{values[-1]:.1f}"
        ends.append((text, colour, values[-1] / highest))
    return ends


def _year(growth: Growth) -> float:
    day = date.fromisoformat(growth.released)
    return day.year + (day - date(day.year, 1, 1)).days / 366

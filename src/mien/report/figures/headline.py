"""Figure 3: accuracy over the length of the list (fig:headline)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.headline import LONGEST, CurvePoint
from mien.evaluation.published import SET_NAMES
from mien.report.figures.style import BASELINE_NAME, INK, SET_COLOURS, apart, in_order, legend_below, panels

LINES = {  # style, width, name
    "baseline": ("--", 1.4, BASELINE_NAME),
    "patient level only": (":", 1.6, "Patient level only: embedding-level fusion"),
    "disorder level only": ("-", 0.8, "Disorder level only: hybrid scoring"),
    "full": ("-", 2.4, "Full multi-level aggregation"),
}
LABELLED = (1, 5, 10)
TITLES = {False: "All patients", True: "Multi-image subsets"}


def draw(tables: Tables) -> Figure:
    """All patients on the left, patients with several photos on the right."""
    points = rows_of(tables, "headline_curves", CurvePoint)
    panel_of_set = {name: name.startswith("multi") for name in in_order(point.set for point in points)}
    shown = sorted(set(panel_of_set.values()))
    figure, axes = panels(1, len(shown), height=4.9)
    for axis, multi in zip(axes, shown, strict=True):
        _panel(axis, [point for point in points if panel_of_set[point.set] == multi])
        axis.set(title=TITLES[multi], xlabel="Length N of the list")
    axes[0].set_ylabel("True disorder among the first N (%)\nmean over disorders")
    for line, width, name in LINES.values():
        axes[0].plot([], [], line, color=INK, linewidth=width, label=name)
    legend_below(figure)
    return figure


def _panel(axis: Axes, points: list[CurvePoint]) -> None:
    curves: dict[tuple[str, str], dict[int, float]] = {}
    for point in points:
        curves.setdefault((point.set, point.method), {})[point.top] = point.accuracy
    for (test_set, method), curve in curves.items():
        line, width, _ = LINES[method]
        axis.plot(list(curve), list(curve.values()), line, color=SET_COLOURS[test_set], linewidth=width)
    for top in LABELLED:
        _accuracies(axis, top, {key: curve[top] for key, curve in curves.items() if key[1] in {"baseline", "full"}})
    sets = in_order(test_set for test_set, _ in curves)
    ends = [(curves[name, "full"][LONGEST] + curves[name, "baseline"][LONGEST]) / 2 for name in sets]
    for name, end in zip(sets, apart(ends, gap=6), strict=True):
        axis.text(LONGEST + 0.6, end, SET_NAMES[name], va="center", fontweight="bold", color=SET_COLOURS[name])
    axis.set(ylim=(0, 100), xlim=(-2.2, LONGEST + 0.5), xticks=(1, *range(5, LONGEST + 1, 5)))


def _accuracies(axis: Axes, top: int, of_curve: dict[tuple[str, str], float]) -> None:
    """Draws dots with numbers: at top 1 left of the curves, else above the full method and below the baseline."""
    beginnings = apart(list(of_curve.values()), gap=3.8)
    for ((test_set, method), accuracy), beginning in zip(of_curve.items(), beginnings, strict=True):
        colour, text = SET_COLOURS[test_set], f"{accuracy:.1f}"
        axis.plot(top, accuracy, "o", color=colour, markersize=4)
        if top == 1:
            axis.text(top - 0.6, beginning, text, ha="right", va="center", fontsize=8, color=colour)
        elif method == "full":
            axis.text(top, accuracy + 2, text, ha="center", va="bottom", fontsize=8, color=colour)
        else:
            axis.text(top, accuracy - 2, text, ha="center", va="top", fontsize=8, color=colour)

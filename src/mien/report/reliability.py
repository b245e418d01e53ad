"""Reliability: how often answers were right, against how sure they were. Beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from mien.evaluation.calibration_measures import ReliabilityPoint, calibration_error
from mien.report.figures.style import HYBRID_COLOUR, in_order, panels
from mien.storage.outputs import private_file

NAMES = {"freq": "Frequent disorders", "rare": "Rare disorders", "all": "All disorders"}
LARGEST = 160  # points


def draw_reliability(points: Sequence[ReliabilityPoint], *, simulated: bool) -> Figure:
    """A panel for each test set; the larger a dot, the more answers."""
    sets = in_order(point.set for point in points)
    figure, axes = panels(1, len(sets), height=4.2)
    for axis, name in zip(axes, sets, strict=True):
        of_set = [point for point in points if point.set == name]
        said, right = [100 * point.said for point in of_set], [100 * point.right for point in of_set]
        most = max(point.patients for point in of_set)
        axis.plot([0, 100], [0, 100], color="0.6", linewidth=1, linestyle="--")
        axis.plot(said, right, color=HYBRID_COLOUR, linewidth=1)
        axis.scatter(said, right, s=[10 + LARGEST * point.patients / most for point in of_set], color=HYBRID_COLOUR)
        axis.set(
            title=f"{NAMES[name]}, error {calibration_error(of_set):.3f}",
            xlabel="Said: probability of the first disorder (%)",
            ylabel="Right (%)",
            xlim=(0, 100),
            ylim=(0, 103),
            aspect="equal",
        )
    if simulated:
        figure.suptitle("Simulated data")
    return figure


def write_reliability(path: Path, points: Sequence[ReliabilityPoint], *, simulated: bool) -> None:
    """Writes the figure in the format of the file's suffix."""
    with private_file(path) as file:
        draw_reliability(points, simulated=simulated).savefig(file, format=path.suffix[1:].lower())

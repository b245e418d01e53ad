"""Writes the log of a training as a table and as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from mien.report.figures import style
from mien.report.rankings import write_csv

Lines = Sequence[Mapping[str, float]]
CURVES = {  # by panel: unit, and curves with name and colour
    "Loss": ("cross-entropy", {"loss": ("training", style.IMAGE_COLOUR)}),
    "Validation accuracy": (
        "mean over disorders, %",
        {
            "validation_top1": ("top-1", style.PATIENT_COLOUR),
            "validation_top5": ("top-5, which steers the rates", style.HYBRID_COLOUR),
        },
    ),
    "Learning rates": (
        "",
        {"feature_rate": ("feature layer", style.IMAGE_COLOUR), "head_rate": ("head", style.BASELINE_COLOUR)},
    ),
}


def write_training(folder: Path, lines: Lines, note: str) -> None:
    """`training.csv`, and the curves as `training.svg` and `training.png`."""
    write_csv(folder / "training.csv", lines)
    style.draw_and_save(lambda _: training_curves(lines), {}, folder / "training", note)


def training_curves(lines: Lines) -> Figure:
    """Loss, validation accuracy and learning rates over the epochs."""
    figure, axes = style.panels(1, len(CURVES), width=11, height=3.6)
    epochs = [line["epoch"] for line in lines]
    for axis, (title, (unit, curves)) in zip(axes, CURVES.items(), strict=True):
        for field, (name, colour) in curves.items():
            axis.plot(epochs, [line[field] for line in lines], "o-", color=colour, markersize=2.5, label=name)
        axis.set(title=title, xlabel="epoch", ylabel=unit)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.legend(fontsize=8)
    axes[1].set_ylim(0, 102)
    axes[2].set_yscale("log")
    axes[2].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes[2].yaxis.set_minor_formatter(NullFormatter())
    axes[2].set_ylim(8e-6, 2e-3)
    return figure

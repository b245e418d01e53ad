"""Supplementary figure: accuracy over the gallery photos of the patient's disorder (supp:fig:gallery-size)."""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.gallery_size import SizeLine
from mien.evaluation.published import SET_NAMES
from mien.report.figures import style

METHODS = {
    "baseline": (style.BASELINE_NAME, style.BASELINE_COLOUR, "o"),
    "image-weighted centroid": ("Image-weighted disorder centroid", style.IMAGE_COLOUR, "s"),
    "patient-weighted centroid": ("Patient-weighted disorder centroid", style.PATIENT_COLOUR, "D"),
    "hybrid": ("Hybrid individual-centroid scoring", style.HYBRID_COLOUR, "^"),
}


def draw(tables: Tables) -> Figure:
    """A row for each set, a column for each length of the list."""
    lines = rows_of(tables, "gallery_size", SizeLine)
    sets = style.in_order(line.set for line in lines)
    figure, axes = style.panels(len(sets), len(style.TOPS), height=0.9 + 3.0 * len(sets))
    for axis, (test_set, top) in zip(axes, [(test_set, top) for test_set in sets for top in style.TOPS], strict=True):
        of_set = [line for line in lines if line.set == test_set]
        for method, (label, colour, marker) in METHODS.items():
            curve = sorted((line for line in of_set if line.method == method), key=lambda line: line.bin)
            accuracies = [getattr(line, f"top{top}") for line in curve]
            axis.plot(range(len(curve)), accuracies, marker=marker, markersize=4, color=colour, label=label)
            axis.set_xticks(range(len(curve)), [_bin_label(line) for line in curve], fontsize=8)
        axis.set_title(f"{SET_NAMES[test_set]}, top-{top}")
        axis.set(
            ylim=(0, min(100, 1.1 * max(line.top10 for line in of_set))),
            xlabel=f"Gallery images of the disorder\n(n: patients{' per fold' if test_set == 'rare' else ''})",
        )
        axis.grid(visible=False, axis="x")
    for axis in axes[:: len(style.TOPS)]:
        axis.set_ylabel("Accuracy, mean over disorders (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _bin_label(line: SizeLine) -> str:
    """How many gallery photos, and below it how many patients."""
    photos = (
        f"{line.least_images}-{line.most_images}" if line.least_images < line.most_images else f"{line.most_images}"
    )
    return f"{photos}\nn = {line.patients:.4g}{' (few)' if line.patients < style.FEW_PATIENTS else ''}"

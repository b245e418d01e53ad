"""Supplementary figure: each patient's rank beside that of the patient's best single photo (supp:fig:oracle)."""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.experiments.oracle import AgainstBestImage
from mien.evaluation.published import SET_NAMES
from mien.report.figures import style

NAMES = {
    "single image": "Single-image\nbaseline",
    "distance fusion": "Distance-level\nfusion",
    "embedding fusion": "Embedding-level\nfusion",
}
PARTS = {
    "better": ("Ranked better than by the patient's best image", style.IMPROVED_COLOUR, "white"),
    "same": ("the same", style.UNCHANGED_COLOUR, style.INK),
    "worse": ("worse", style.WORSENED_COLOUR, "white"),
}
LEAST_LABELLED = 3.0  # per cent; a narrower part has no room for its number


def draw(tables: Tables) -> Figure:
    """A panel for each set, a bar for each approach."""
    rows = rows_of(tables, "oracle_per_patient", AgainstBestImage)
    sets = style.in_order(row.set for row in rows)
    figure, axes = style.panels(len(sets), 1, height=1.2 + 1.7 * len(sets))
    for axis, test_set in zip(axes, sets, strict=True):
        bars = [row for row in rows if row.set == test_set]
        names = [NAMES[row.approach] for row in bars]
        left = [0.0] * len(bars)
        for part, (label, colour, ink) in PARTS.items():
            shares = [float(getattr(row, part)) for row in bars]
            drawn = axis.barh(names, shares, left=left, color=colour, label=label, height=0.68, edgecolor="white")
            texts = [f"{share:.1f} %" if share >= LEAST_LABELLED else "" for share in shares]
            axis.bar_label(drawn, texts, label_type="center", color=ink)
            left = [start + share for start, share in zip(left, shares, strict=True)]
        axis.set(title=SET_NAMES[test_set], xlim=(0, 100))
        axis.invert_yaxis()
        axis.grid(visible=False)
        axis.tick_params(axis="y", length=0, labelcolor=style.INK)
    axes[-1].set_xlabel("Share of patients (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(PARTS))
    return figure

"""The same share of each disorder's photos, inside the hybrid (last paragraph of S10)."""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.lab import Tables
from mien.report.figures.proportional import draw_alphas


def draw(tables: Tables) -> Figure:
    """Accuracies above, differences to the plain hybrid below."""
    return draw_alphas(tables, "proportional_hybrid")

"""Supplementary figure: all fusions and scores against the gallery of their own set (supp:fig:ablation-split)."""

from __future__ import annotations

from matplotlib.figure import Figure

from mien.evaluation.lab import Tables
from mien.report.figures.ablation import draw_gallery


def draw(tables: Tables) -> Figure:
    """Twelve methods, coloured by their difference to the baseline."""
    return draw_gallery(tables, "split")

"""The figures of the report, one file each, with the table that each cannot do without."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from mien.evaluation.lab import Tables, rows_of
from mien.evaluation.results import Result
from mien.report.figures import (
    ablation_split,
    ablation_unified,
    agreement,
    confounders,
    distances,
    gallery_size,
    growth,
    headline,
    lambda_selection,
    lambda_sensitivity,
    number_of_images,
    oracle,
    overview,
    proportional,
    proportional_hybrid,
    rank_changes,
    tsne,
)

FIGURES: dict[str, tuple[str, Callable[[Tables], Figure]]] = {
    "agreement": ("agreement", agreement.draw),
    "overview": ("overview_points", overview.draw),
    "headline": ("headline_curves", headline.draw),
    "rank_changes": ("rank_flows", rank_changes.draw),
    "tsne": ("tsne", tsne.draw),
    "distances": ("distance_densities", distances.draw),
    "growth": ("growth", growth.draw),
    "lambda_selection": ("lambda_selection", lambda_selection.draw),
    "lambda_sensitivity": ("lambda_sensitivity", lambda_sensitivity.draw),
    "number_of_images": ("number_of_images", number_of_images.draw),
    "oracle": ("oracle_per_patient", oracle.draw),
    "gallery_size": ("gallery_size", gallery_size.draw),
    "ablation_unified": ("ablation", ablation_unified.draw),
    "ablation_split": ("ablation", ablation_split.draw),
    "confounders": ("confounders", confounders.draw),
    "proportional": ("proportional", proportional.draw),
    "proportional_hybrid": ("proportional_hybrid", proportional_hybrid.draw),
}


def figures_of(tables: Tables) -> dict[str, Callable[[Tables], Figure]]:
    """The figures for which the tables hold what they show."""
    figures = {name: draw for name, (needed, draw) in FIGURES.items() if tables.get(needed)}
    if all(row.gallery == "unified" for row in rows_of(tables, "ablation", Result)):
        figures.pop("ablation_split", None)  # where there is but one gallery, it is the unified one
    return figures

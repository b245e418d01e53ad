"""The figures of the report: one file for each kind, and the table that each needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from mien.evaluation.experiment_context import Tables, rows_of
from mien.evaluation.results import Result
from mien.report.figures import (
    ablation,
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
    rank_changes,
    size_offset,
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
    "ablation_unified": ("ablation", partial(ablation.draw, gallery="unified")),
    "ablation_split": ("ablation", partial(ablation.draw, gallery="split")),
    "confounders": ("confounders", confounders.draw),
    "proportional": ("proportional", partial(proportional.draw, table="proportional")),
    "size_offset": ("size_offset", size_offset.draw),
    "proportional_hybrid": ("proportional_hybrid", partial(proportional.draw, table="proportional_hybrid")),
}


def figures_of(tables: Tables) -> dict[str, Callable[[Tables], Figure]]:
    """The figures whose tables are there."""
    figures = {name: draw for name, (needed, draw) in FIGURES.items() if tables.get(needed)}
    if all(row.gallery == "unified" for row in rows_of(tables, "ablation", Result)):
        figures.pop("ablation_split", None)  # a study with one gallery has the unified one only
    return figures

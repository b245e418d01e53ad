"""The experiments of the paper, one file each, in the order in which the report shows them."""

from __future__ import annotations

from collections.abc import Callable

from mien.evaluation.experiments import (
    ablation,
    confounders,
    disorder_aggregation,
    distances,
    gallery_size,
    growth,
    headline,
    lambda_selection,
    lambda_sensitivity,
    number_of_images,
    oracle,
    patient_aggregation,
    proportional,
    rank_changes,
    splits,
    tsne,
)
from mien.evaluation.lab import Lab, Tables

EXPERIMENTS: dict[str, Callable[[Lab], Tables]] = {
    "splits": splits.run,
    "headline": headline.run,
    "patient_aggregation": patient_aggregation.run,
    "disorder_aggregation": disorder_aggregation.run,
    "rank_changes": rank_changes.run,
    "tsne": tsne.run,
    "distances": distances.run,
    "growth": growth.run,
    "lambda_selection": lambda_selection.run,
    "lambda_sensitivity": lambda_sensitivity.run,
    "number_of_images": number_of_images.run,
    "oracle": oracle.run,
    "gallery_size": gallery_size.run,
    "ablation": ablation.run,
    "confounders": confounders.run,
    "proportional": proportional.run,
}

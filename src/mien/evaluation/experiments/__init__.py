"""The experiments of the paper, one file each, in the order in which the report shows them; then those beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mien.core.method import BASELINE, FULL, TWELVE_METHODS, Method
from mien.evaluation.experiment_context import ExperimentContext, Tables
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
    overview,
    patient_aggregation,
    proportional,
    rank_changes,
    settings,
    size_offset,
    splits,
    tsne,
)

EXPERIMENTS: dict[str, Callable[[ExperimentContext], Tables]] = {
    "overview": overview.run,
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
    "settings": settings.run,
    "size_offset": size_offset.run,
}

# which methods an experiment asks the context's comparison for, beside the baseline
METHODS_OF: dict[str, Iterable[Method]] = {
    "overview": [FULL],
    "splits": (),
    "headline": headline.METHODS.values(),
    "patient_aggregation": patient_aggregation.METHODS,
    "disorder_aggregation": disorder_aggregation.METHODS,
    "rank_changes": (*rank_changes.STAGES.values(), *rank_changes.BESIDE.values()),
    "tsne": (),
    "distances": (),
    "growth": (),
    "lambda_selection": (),  # it makes a comparison of its own
    "lambda_sensitivity": lambda_sensitivity.METHODS,
    "number_of_images": (),  # as does this one
    "oracle": oracle.METHODS,
    "gallery_size": gallery_size.METHODS.values(),
    "ablation": TWELVE_METHODS,
    "confounders": [confounders.FUSED],
    "proportional": proportional.METHODS,
    "settings": (),
    "size_offset": size_offset.METHODS,
}


def methods_of(names: Iterable[str]) -> list[Method]:
    """All that some experiments ask for.

    >>> [method.fusion for method in methods_of(["splits", "patient_aggregation"])]
    ['none', 'distance', 'embedding']
    """
    return list(dict.fromkeys([BASELINE, *(method for name in names for method in METHODS_OF[name])]))

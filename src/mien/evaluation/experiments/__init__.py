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

Run = Callable[[ExperimentContext], Tables]

# each with the methods that it asks the context's comparison for, beside the baseline
_EXPERIMENTS: dict[str, tuple[Run, Iterable[Method]]] = {
    "overview": (overview.run, [FULL]),
    "splits": (splits.run, ()),
    "headline": (headline.run, headline.METHODS.values()),
    "patient_aggregation": (patient_aggregation.run, patient_aggregation.METHODS),
    "disorder_aggregation": (disorder_aggregation.run, disorder_aggregation.METHODS),
    "rank_changes": (rank_changes.run, (*rank_changes.STAGES.values(), *rank_changes.BESIDE.values())),
    "tsne": (tsne.run, ()),
    "distances": (distances.run, ()),
    "growth": (growth.run, ()),
    "lambda_selection": (lambda_selection.run, ()),  # it makes a comparison of its own
    "lambda_sensitivity": (lambda_sensitivity.run, lambda_sensitivity.METHODS),
    "number_of_images": (number_of_images.run, ()),  # as does this one
    "oracle": (oracle.run, oracle.METHODS),
    "gallery_size": (gallery_size.run, gallery_size.METHODS.values()),
    "ablation": (ablation.run, TWELVE_METHODS),
    "confounders": (confounders.run, [confounders.FUSED]),
    "proportional": (proportional.run, proportional.METHODS),
    "settings": (settings.run, ()),
    "size_offset": (size_offset.run, size_offset.METHODS),
}
EXPERIMENTS: dict[str, Run] = {name: run for name, (run, _) in _EXPERIMENTS.items()}
METHODS_OF: dict[str, Iterable[Method]] = {name: methods for name, (_, methods) in _EXPERIMENTS.items()}


def methods_of(names: Iterable[str]) -> list[Method]:
    """All that some experiments ask for.

    >>> [method.fusion for method in methods_of(["splits", "patient_aggregation"])]
    ['none', 'distance', 'embedding']
    """
    return list(dict.fromkeys([BASELINE, *(method for name in names for method in METHODS_OF[name])]))

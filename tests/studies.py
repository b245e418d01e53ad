"""Simulated studies that are small enough for tests."""

from __future__ import annotations

from dataclasses import replace

from mien.core.study import Fold, Split
from mien.simulation.embeddings import Layout
from mien.simulation.study import simulated_gmdb

LATENT = Layout(views=1, dimensions=None)  # the same distances but for the views' noise, in a tenth of the time


def with_few_disorders(study, *, folds, one_of=8):
    """The first folds of a study, with one of so many of its disorders."""

    def some(labels):
        return tuple(label for label in labels if int(label.disorder_id) % one_of == 1)

    frequent = Split(*map(some, study.folds[0].frequent))
    return replace(
        study,
        folds=tuple(Fold(frequent, Split(*map(some, fold.rare))) for fold in study.folds[:folds]),
        train=some(study.train),
        validation=some(study.validation),
    )


def small_gmdb(seed, *, layout=LATENT, growth=1):
    """Stands in for `simulated_gmdb`: every eighth disorder, one fold, few dimensions."""
    few_dimensions = Layout(views=layout.views, dimensions=None)
    return with_few_disorders(simulated_gmdb(seed, layout=few_dimensions, growth=growth), folds=1)

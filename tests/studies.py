"""Simulated studies that are small enough for tests."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from mien.core.study import Fold, Split
from mien.simulation.embeddings import Layout
from mien.simulation.study import simulated_gmdb

LATENT = Layout(views=1, dimensions=None)  # the same distances but for the views' noise, in a tenth of the time


def with_few_disorders(study, *, folds, one_of=8):
    """The first folds of a study, with one of so many of its disorders and no other images."""

    def some(labels):
        return tuple(label for label in labels if int(label.disorder_id) % one_of == 1)

    frequent = Split(*map(some, study.folds[0].frequent))
    chosen = tuple(Fold(frequent, Split(*map(some, fold.rare))) for fold in study.folds[:folds])
    train, validation = some(study.train), some(study.validation)
    labelled = [*train, *validation, *(label for fold in chosen for split in fold for part in split for label in part)]
    image_ids = {label.image_id for label in labelled}
    rows = sorted(study.row_of_image[image_id] for image_id in image_ids)
    facts = {image_id: facts for image_id, facts in study.facts_of_image.items() if image_id in image_ids}
    disorder_ids = {label.disorder_id for label in labelled}
    return replace(
        study,
        encodings=study.encodings.only(rows),
        folds=chosen,
        train=train,
        validation=validation,
        disorders={key: disorder for key, disorder in study.disorders.items() if key in disorder_ids},
        facts_of_image=facts,
    )


@cache  # many tests need the same one
def latent_gmdb(seed, growth=1):
    """A simulated GMDB of latent size; nobody may change it."""
    return simulated_gmdb(seed, layout=LATENT, growth=growth)


def small_gmdb(seed, *, growth=1, **_layout):
    """Stands in for `simulated_gmdb`: every eighth disorder, one fold, few dimensions."""
    return with_few_disorders(latent_gmdb(seed, growth), folds=1)

"""Measures what it changes to cut embeddings to length one, on simulated databases; prints the line of docs/gmdb.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mien.core.cohort import Encodings
from mien.core.embeddings import embedding_lengths
from mien.core.method import TWELVE_METHODS
from mien.core.study import Study
from mien.evaluation.accuracy import accuracy
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.simulation.study import simulated_gmdb

METHODS = [method for method in TWELVE_METHODS if method.fusion == "embedding" or method.score != "nearest"]  # averages


def accuracies(study: Study) -> list[float]:
    """Of every method that averages embeddings, on every set, against the unified gallery."""
    comparison = Comparison(study.encodings, evaluated_folds(study), methods=METHODS, galleries=["unified"])
    return [
        accuracy(comparison.ranks(test_set, "unified", method), top=top)
        for test_set in comparison.sets
        for method in METHODS
        for top in (1, 5, 10, 30)
    ]


def normalised(study: Study) -> Study:
    """The same study, all embeddings cut to length one."""
    raw = study.encodings
    lengths = embedding_lengths(raw.embeddings).astype(np.float32)
    return replace(study, encodings=Encodings(raw.image_ids, raw.embeddings / lengths[:, :, np.newaxis], raw.encoder))


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints how far accuracies move."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3])
    moved: list[float] = []
    for seed in parser.parse_args(arguments).seeds:
        study = simulated_gmdb(seed)
        moved += [abs(a - b) for a, b in zip(accuracies(study), accuracies(normalised(study)), strict=True)]
    print(f"{len(moved)} accuracies: {np.mean(moved):.2f} points on average, {max(moved):.1f} at most")


if __name__ == "__main__":
    main()

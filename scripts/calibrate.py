"""Searches parameters of the simulated GMDB: damped least squares on what is wrong with the study. Takes an hour.

Prints each set of parameters that is better than all before, to be written into `src/mien/simulation/parameters.py`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one process per core

import numpy as np
from scipy.special import expit, logit

from mien.core.arrays import Float64s
from mien.core.method import Method
from mien.evaluation import agreement
from mien.evaluation.accuracy import tops
from mien.evaluation.comparison import Comparison
from mien.evaluation.evaluated_patients import evaluated_folds
from mien.evaluation.experiment_context import ExperimentContext
from mien.evaluation.experiments import distances, gallery_size, methods_of, rank_changes
from mien.evaluation.experiments.lambda_selection import objective
from mien.evaluation.published import DISTANCES, RANK_CHANGE
from mien.simulation.embeddings import Layout
from mien.simulation.parameters import PARAMETERS, Beta, Parameters
from mien.simulation.study import simulated_gmdb

SEEDS = (*range(801, 809), *range(901, 917))  # those that docs and tests look at are others
ROUGHLY = SEEDS[:2]  # enough to see what a parameter changes
FOLDS = 5  # of ten
ACCURACY_WORTH = 1.5  # beside all other terms
WORTH_OF_DISTANCES = {"mean": 120, "cohens_d": 12, "auc": 40, "overlap_percent": 0.3}
STEP = 0.15  # of a coordinate, to see what it changes: a smaller one would drown in the noise of counted patients
DAMPINGS = (0.03, 0.3, 3.0, 30.0)  # that are tried, relative to the first guess
PULL = 0.3  # towards where the search stands, whatever the terms say
FIXED = {"latent_dimensions", "group_size", "families", "subtypes", "view_noise"}
SEARCHED = [name for name in Parameters._fields if name not in FIXED]
COMPARED = [*agreement.METHODS, *methods_of(["gallery_size", "rank_changes"])]
WEIGHED = [Method("embedding", "hybrid", centroid_weight=weight) for weight in (0.5, 0.75, 1.0)]
SHARES = {name for name in SEARCHED if name.endswith(("_share", "_by_models"))}


def measures(parameters: Parameters, seed: int) -> dict[str, tuple[float, float, float]]:
    """What a simulated study shows, what it should, and how many points one unit of it is worth."""
    distances.PAIRS_OF_DISORDER = 25  # for speed
    study = simulated_gmdb(seed, parameters, Layout(views=1, dimensions=None))
    folds = evaluated_folds(study)[:FOLDS]
    comparison = Comparison(study.encodings, folds, methods=COMPARED + WEIGHED, galleries=["unified"])
    context = ExperimentContext(study, comparison)
    found = {
        f"{cell.set} {cell.fusion} {cell.score} top-{cell.top}": (cell.measured, cell.published, ACCURACY_WORTH)
        for cell in agreement.accuracy_cells(comparison)
    }
    for group in distances.distance_distributions(study, np.random.default_rng(seed))["distances"]:
        for name, published in DISTANCES[group.group].items():
            found[f"{group.group} {name}"] = getattr(group, name), published, WORTH_OF_DISTANCES[name]
    for change in rank_changes.run(context)["rank_changes"]:
        for name, wanted in RANK_CHANGE.get((change.set, change.stage), {}).items():
            both = getattr(change, name), wanted
            is_median = name == "median_rank"
            found[f"{change.set} {change.stage} {name}"] = (*np.log(both), 3.0) if is_median else (*both, 0.3)
    for test_set, gain in (("freq", 0.57), ("rare", 0.75)):
        image, patient = (found[f"{test_set} none {kind}-centroid top-1"][0] for kind in ("image", "patient"))
        found[f"{test_set} patients over images"] = patient - image, gain, 3.0
        low, chosen, high = (objective(tops(comparison.ranks(test_set, "unified", method))) for method in WEIGHED)
        falls = high - chosen - 0.3 if test_set == "rare" else min(chosen - high - 0.5, chosen - low - 0.3)
        found[f"{test_set} lambda"] = min(0.0, falls), 0.0, 3.0
    sizes = [line for line in gallery_size.run(context)["gallery_size"] if line.set == "freq"]
    for top in ("top5", "top10"):
        [nearest, *others] = [getattr(line, top) for line in sizes if line.bin == max(other.bin for other in sizes)]
        found[f"largest disorders {top}"] = min(0.0, nearest - max(others) - 1), 0.0, 1.0
    return found


class Trial(NamedTuple):
    """Parameters that were better than all before."""

    loss: float
    parameters: Parameters


def calibrate(
    terms_of: Callable[[Sequence[Parameters]], Float64s],
    start: Parameters,
    *,
    rounds: int,
    rough_terms_of: Callable[[Sequence[Parameters]], Float64s] | None = None,
) -> Iterator[Trial]:
    """Yields ever better parameters; `terms_of` gives what is wrong with each of several, term by term (trials, terms).

    What a parameter changes is seen by `rough_terms_of`, if that is cheaper. Ends when no step is better.
    """
    rough = rough_terms_of or terms_of
    place = coordinates(start)
    [terms] = terms_of([start])
    yield Trial(_loss(terms), start)
    for _ in range(rounds):
        moved = [parameters_at(place + STEP * direction, start) for direction in np.eye(len(place))]
        here, *there = rough([parameters_at(place, start), *moved])
        slopes = (np.array(there) - here).T / STEP  # (terms, coordinates)
        square = slopes.T @ slopes
        steps = [
            -np.linalg.solve(square + damping * np.diag(PULL + square.diagonal()), slopes.T @ terms)
            for damping in DAMPINGS
        ]
        tried = [place + step for step in steps]
        found = terms_of([parameters_at(at, start) for at in tried])
        best = min(range(len(tried)), key=lambda trial: _loss(found[trial]))
        if _loss(found[best]) >= _loss(terms):
            return
        place, terms = tried[best], found[best]
        yield Trial(_loss(terms), parameters_at(place, start))


def _loss(terms: Float64s) -> float:
    return float(np.sqrt((terms**2).mean()))


def coordinates(parameters: Parameters) -> Float64s:
    """Parameters as numbers without bounds: logits of shares and means, logarithms of the rest."""
    numbers: list[float] = []
    for name in SEARCHED:
        value = getattr(parameters, name)
        if isinstance(value, Beta):
            numbers += [logit(value.mean), np.log(value.concentration)]
        else:
            numbers.append(logit(value) if name in SHARES else np.log(value))
    return np.array(numbers)


def parameters_at(place: Float64s, start: Parameters) -> Parameters:
    """The parameters with these coordinates; those that are not searched stay."""
    numbers = iter(place.tolist())
    found: dict[str, Any] = {}
    for name in SEARCHED:
        if isinstance(getattr(start, name), Beta):
            found[name] = Beta(float(expit(next(numbers))), float(np.exp(next(numbers))))
        else:
            found[name] = float(expit(next(numbers)) if name in SHARES else np.exp(next(numbers)))
    return start._replace(**found)


def main() -> None:
    """Runs the search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--start", default=repr(PARAMETERS), help="parameters, as this script prints them")
    options = parser.parse_args()
    start = eval(options.start, {"Parameters": Parameters, "Beta": Beta})  # noqa: S307 what this script has printed
    with ProcessPoolExecutor(options.processes) as pool:

        def terms_of(tried: Sequence[Parameters], seeds: Sequence[int] = SEEDS) -> np.ndarray:
            """Of the mean over seeds, by which the study is compared."""
            of_pair = pool.map(measures, *zip(*product(tried, seeds), strict=True))
            terms = np.array([[(is_ - wanted) * worth for is_, wanted, worth in one.values()] for one in of_pair])
            return terms.reshape(len(tried), len(seeds), -1).mean(axis=1)

        rough = partial(terms_of, seeds=ROUGHLY)
        for trial in calibrate(terms_of, start, rounds=options.folds, rough_terms_of=rough):
            print(f"{trial.loss:.3f} {trial.parameters}", flush=True)


if __name__ == "__main__":
    main()

"""How the parameters were found: damped least squares on what is wrong with the simulated study.

`scripts/calibrate.py` joins it with the evaluation, and prints parameters to be written into `parameters.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from mien.core.arrays import Float64s
from mien.simulation.parameters import Beta, Parameters

STEP = 0.15  # of a coordinate, to see what it changes: a smaller one would drown in the noise of counted patients
DAMPINGS = (0.03, 0.3, 3.0, 30.0)  # that are tried, relative to the first guess
PULL = 0.3  # towards where the search stands, whatever the terms say
FIXED = {"latent_dimensions", "group_size", "families", "subtypes", "view_noise"}
SEARCHED = [name for name in Parameters._fields if name not in FIXED]
SHARES = {name for name in SEARCHED if name.endswith(("_share", "_by_models"))}


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

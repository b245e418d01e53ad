"""How the parameters were found: a random search that keeps what brings the study closer to the published one.

`scripts/calibrate.py` joins it with the evaluation, and prints parameters to be written into `parameters.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mien.core.arrays import Float64s
from mien.simulation.parameters import Beta, Parameters

STEP, SHORTEST_STEP = 0.08, 0.01
GROWTH, SHRINKAGE = 1.35, 0.93  # of the step after a success, after a failure
COUNTS = {"latent_dimensions", "group_size", "families", "subtypes"}
SEARCHED = [name for name in Parameters._fields if name not in COUNTS | {"view_noise"}]
SHARES = {name for name in SEARCHED if name.endswith(("_share", "_by_models"))}


class Trial(NamedTuple):
    """Parameters that were better than all before."""

    loss: float
    parameters: Parameters


def calibrate(
    losses: Callable[[Sequence[Parameters]], Sequence[float]],
    start: Parameters,
    *,
    rounds: int,
    children: int,
    rng: np.random.Generator,
) -> Iterator[Trial]:
    """Yields ever better parameters; `losses` may look at all children of a round at once."""
    best = Trial(losses([start])[0], start)
    yield best
    step = STEP
    for _ in range(rounds):
        place = _coordinates(best.parameters)
        moves = rng.standard_normal((children, len(place))) * (rng.random((children, len(place))) < 0.5)
        tried = [_parameters(place + step * move, start) for move in moves]
        trial = min(map(Trial, losses(tried), tried), key=lambda trial: trial.loss)
        if trial.loss < best.loss:
            best, step = trial, step * GROWTH
            yield best
        else:
            step = max(SHORTEST_STEP, step * SHRINKAGE)


def _coordinates(parameters: Parameters) -> Float64s:
    """Parameters as numbers without bounds: logits of shares and means, logarithms of the rest."""
    numbers: list[float] = []
    for name in SEARCHED:
        value = getattr(parameters, name)
        if isinstance(value, Beta):
            numbers += [_logit(value.mean), np.log(value.concentration)]
        else:
            numbers.append(_logit(value) if name in SHARES else np.log(value))
    return np.array(numbers)


def _parameters(place: Float64s, start: Parameters) -> Parameters:
    numbers = iter(place.tolist())
    found: dict[str, Any] = {}
    for name in SEARCHED:
        if isinstance(getattr(start, name), Beta):
            found[name] = Beta(_expit(next(numbers)), float(np.exp(next(numbers))))
        else:
            found[name] = _expit(next(numbers)) if name in SHARES else float(np.exp(next(numbers)))
    return start._replace(**found)


def _logit(share: float) -> float:
    inside = min(max(share, 0.005), 0.995)
    return float(np.log(inside / (1 - inside)))


def _expit(number: float) -> float:
    return float(1 / (1 + np.exp(-number)))

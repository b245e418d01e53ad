"""Evidence of a face and of something else, in one list."""

from __future__ import annotations

import numpy as np

from mien.core.arrays import Float64s, Floats

WEIGHT = 0.25  # of ratios by HPO terms: a choice, not a finding; they are overconfident


def combined_probabilities(probabilities: Floats, log10_ratios: Floats, weight: float) -> Float64s:
    """Probabilities after further evidence, whose ratios count with a weight (eq:combined).

    Without evidence, or with weight 0, they stay what they are, to the last bit.

    >>> combined_probabilities(np.array([0.5, 0.4, 0.1]), np.array([0.0, 2.0, 0.0]), weight=0.5).round(3).tolist()
    [0.109, 0.87, 0.022]
    """
    exponents = weight * np.asarray(log10_ratios, dtype=np.float64)
    joint = probabilities * 10 ** (exponents - exponents.max())
    found: Float64s = joint * (np.sum(probabilities) / joint.sum())
    return found


def mean_log10_ratio(log10_ratios: Floats) -> float:
    """Of a disorder that is several diseases, all as likely before (eq:mean-ratio).

    >>> round(mean_log10_ratio(np.array([2.0, 0.0])), 3)
    1.703
    """
    return float(np.log10(np.mean(10 ** np.asarray(log10_ratios, dtype=np.float64))))

"""Sums that do not depend on the order of adding."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mien.core.centroids import ExactSum

numbers = st.floats(-(2.0**100), 2.0**100, width=32)


@given(st.lists(numbers, min_size=1, max_size=12), st.randoms(), st.integers(0, 11))
def test_any_order_and_any_parts_give_the_exact_mean(values, random, cut):
    exact = sum(map(Fraction, values)) / len(values)
    largest = max(map(abs, values))
    shuffled = random.sample(values, len(values))
    left, right = shuffled[:cut], shuffled[cut:]
    parts = [ExactSum.of(np.array(part, np.float32)) for part in (left, right) if part]
    total = parts[0] if len(parts) == 1 else parts[0].plus(parts[1])
    whole = ExactSum.of(np.array(values, np.float32))
    assert total.count == whole.count == len(values)
    for sums in (total, whole):
        # to 32 digits of the largest term, then rounded to a float64
        assert (
            abs(Fraction(float(sums.mean)) - exact)
            <= abs(exact) * Fraction(2) ** -51 + Fraction(largest) * Fraction(2) ** -95
        )

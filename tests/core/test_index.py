"""Bounds of distances from rows that are rounded to bytes: they hold, whatever the rows are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.core.embeddings import unit_rows
from mien.core.index import LARGEST_BYTE, RoundedRows, byte_products, pair_distances, plain_byte_products, rounded, scan

KINDS = ("plain", "sparse", "spiky", "tiny", "equal", "signs", "huge")


def adversarial(rng, kind, count, representations, dimensions):
    """Raw embeddings that are hard on rounding: most entries far below, or halfway between, two steps."""
    rows = rng.standard_normal((count, representations, dimensions))
    if kind == "sparse":
        rows *= rng.random(rows.shape) < 0.05
        rows[..., 0] += ~rows.any(axis=2)
    elif kind == "spiky":  # one large entry, all others just under half of a step
        rows = np.full(rows.shape, 0.4999 / LARGEST_BYTE) * rng.choice([-1, 1], rows.shape)
        rows[..., rng.integers(dimensions)] = 1
    elif kind == "tiny":
        rows *= 10.0 ** rng.uniform(-30, 0, rows.shape)
    elif kind == "huge":
        rows *= 10.0 ** rng.uniform(0, 18, (count, representations, 1))
    elif kind == "equal":
        rows[:] = rows[:1]
    elif kind == "signs":
        rows = rng.choice([-1.0, 1.0], rows.shape)
    return unit_rows(rows).astype(np.float32)


def alike(rows, views, dimensions):
    """The first of each so many views, in place of all of them."""
    firsts = rows.reshape(len(rows), -1, views, dimensions)[:, :, :1]
    return unit_rows(firsts.repeat(views, axis=2).reshape(len(rows), -1, dimensions)).astype(np.float32)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    representations=st.integers(1, 4),
    dimensions=st.sampled_from([1, 2, 7, 64, 300]),
    views=st.sampled_from([1, 2, 4]),
    probes=st.integers(1, 5),
    fine=st.booleans(),
    numkong=st.booleans(),
)
def test_every_measured_distance_lies_between_its_bounds(
    seed, kinds, representations, dimensions, views, probes, fine, numkong
):
    rng = np.random.default_rng(seed)
    exact = adversarial(rng, kinds[0], 12, representations * views, dimensions)
    probe_rows = adversarial(rng, kinds[1], probes, representations * views, dimensions)
    if rng.random() < 0.5:  # views that have little in common, or all
        exact, probe_rows = (alike(rows, views, dimensions) for rows in (exact, probe_rows))
    probe_rows[0] = exact[0] if rng.random() < 0.5 else probe_rows[0]
    with pytest.MonkeyPatch.context() as patch:
        if not numkong:
            patch.setattr("mien.core.index._numkong", lambda: None)
        rows = RoundedRows(exact, *rounded(exact, (views, dimensions)), (views, dimensions))
        bounds = scan(rows, probe_rows, fine=fine)
        some = rng.integers(12, size=5)
        of_some = scan(rows, probe_rows, fine=fine, only=some)
    place, probe = np.divmod(np.arange(12 * probes), probes)
    measured = rows.distances(place, probe_rows, probe).reshape(12, probes)
    true = 1 - exact.astype(np.float64) @ probe_rows.astype(np.float64).T
    for distances in (measured, true):
        assert (bounds[0] <= distances).all()
        assert (distances <= np.maximum(bounds[1], 0)).all()
    np.testing.assert_allclose(of_some[0], bounds[0, some], atol=1e-6)


def test_zero_rows_are_at_distance_one():
    rows = RoundedRows.of(np.zeros((1, 4), np.float32))
    bounds = scan(rows, np.array([[0.5, 0.5, 0.5, 0.5]], np.float32))
    assert bounds[0, 0, 0] <= 1 <= bounds[1, 0, 0]


def test_bounds_of_usual_rows_are_close():
    exact = unit_rows(np.random.default_rng(1).standard_normal((20, 12, 512))).astype(np.float32)
    coarse, fine = (scan(RoundedRows.of(exact), exact[:3], fine=fine) for fine in (False, True))
    assert (coarse[1] - coarse[0]).max() < 0.05
    assert (fine[1] - fine[0]).max() < 0.002


def test_views_that_are_alike_have_a_quarter_of_the_bytes_and_bounds_nearly_as_close(rng):
    photos = rng.standard_normal((20, 3, 1, 512)) + 0.1 * rng.standard_normal((20, 3, 4, 512))
    exact = unit_rows(photos.reshape(20, 12, 512)).astype(np.float32)
    rows = RoundedRows(exact, *rounded(exact, (4, 512)), (4, 512))
    bounds = scan(rows, exact[:3])
    assert rows.codes.nbytes == exact.size / 4
    assert (bounds[1] - bounds[0]).max() < 0.07
    assert rows.rounding[:, 2] == pytest.approx(0.1 * (3 / 4) ** 0.5, rel=0.1)  # what three of four directions hold


@pytest.mark.parametrize("width", [1, 63, 1024, 6144])
@pytest.mark.parametrize("probes", [1, 2, 33])
def test_numpy_alone_gives_the_same_whole_numbers(width, probes):
    pytest.importorskip("numkong")
    rng = np.random.default_rng(width)
    codes, others = (rng.integers(-127, 128, (rows, width), dtype=np.int8) for rows in (9, probes))
    codes[0], others[0] = 127, 127  # the largest sum there is
    expected = codes.astype(np.int64) @ others.astype(np.int64).T
    np.testing.assert_array_equal(byte_products(others)(codes), expected)
    np.testing.assert_array_equal(plain_byte_products(codes, others), expected)


def test_a_distance_depends_on_its_two_rows_alone(rng):
    exact = unit_rows(rng.standard_normal((700, 4, 100))).astype(np.float32)
    rows = RoundedRows.of(exact)
    places = rng.integers(700, size=900)
    probe = rng.integers(3, size=900)
    together = rows.distances(places, exact[:3], probe)
    for number in range(0, 900, 37):
        [alone] = pair_distances(exact[places[[number]]], exact[probe[[number]]])
        assert together[number] == alone

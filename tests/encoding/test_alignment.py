from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien.encoding.alignment import (
    CROP_SIDE,
    LANDMARKS_ON_CROP,
    aligned_crop,
    eye_line_angle,
    levelled,
    levelling,
    similarity,
)


def turned(points, degrees, scale=1.0, shift=(0.0, 0.0)):
    radians = np.radians(degrees)
    turn = np.array([[np.cos(radians), -np.sin(radians)], [np.sin(radians), np.cos(radians)]])
    return scale * points @ turn.T + shift


def picture_with_dots(points, size=(400, 400)):
    """Black, with a soft white dot at each point, x before y."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    light = sum(np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 18) for x, y in points)
    return np.repeat((255 * np.minimum(light, 1)).astype(np.uint8)[..., None], 3, axis=2)


@given(st.floats(-180, 180), st.floats(0.1, 10), st.floats(-500, 500), st.floats(-500, 500))
def test_a_similarity_is_found_exactly_when_there_is_one(degrees, scale, right, down):
    moved = turned(LANDMARKS_ON_CROP, degrees, scale, (right, down))
    matrix = similarity(moved, LANDMARKS_ON_CROP)
    np.testing.assert_allclose(moved @ matrix[:, :2].T + matrix[:, 2], LANDMARKS_ON_CROP, atol=1e-8)


@given(st.integers(0, 2**32 - 1))
def test_a_similarity_is_the_least_squares_one(seed):
    rng = np.random.default_rng(seed)
    source = turned(LANDMARKS_ON_CROP, rng.uniform(-60, 60), 2.5, (100, 80)) + rng.normal(0, 5, (5, 2))
    # x' = a x - b y + c, y' = b x + a y + d: linear in a, b, c, d
    rows = [row for x, y in source for row in ([x, -y, 1, 0], [y, x, 0, 1])]
    a, b, c, d = np.linalg.lstsq(np.array(rows), LANDMARKS_ON_CROP.ravel(), rcond=None)[0]
    np.testing.assert_allclose(similarity(source, LANDMARKS_ON_CROP), [[a, -b, c], [b, a, d]], atol=1e-8)


@pytest.mark.parametrize("degrees", [-170, -40, 0, 3, 90])
def test_a_levelled_face_has_its_eyes_on_one_line_and_its_nose_where_it_was(degrees):
    landmarks = turned(LANDMARKS_ON_CROP - [56, 72], degrees, 2, (200, 200))
    matrix = levelling(landmarks)
    after = landmarks @ matrix[:, :2].T + matrix[:, 2]
    np.testing.assert_allclose(after[2], landmarks[2], atol=1e-6)
    assert abs(eye_line_angle(after) - 0) < 1e-3
    assert after[1, 0] > after[0, 0]
    assert after[3, 1] > after[0, 1]  # the mouth is below the eyes


def test_the_crop_shows_the_landmarks_where_networks_expect_them():
    landmarks = turned(LANDMARKS_ON_CROP, 25, 2.2, (150, 20))
    crop = aligned_crop(picture_with_dots(landmarks), landmarks)
    assert crop.shape == (CROP_SIDE, CROP_SIDE, 3)
    for x, y in LANDMARKS_ON_CROP:
        assert crop[round(y), round(x)].min() > 200
    assert crop[10, 10].max() < 10


def test_what_lies_outside_of_the_photo_is_black():
    white = np.full((100, 100, 3), 255, dtype=np.uint8)
    landmarks = LANDMARKS_ON_CROP / 2 + [-20, 0]  # the face begins left of the photo
    crop = aligned_crop(white, landmarks)
    assert crop[56, 0].max() == 0
    assert crop[56, 100].min() == 255
    turned_by_45 = levelled(white, np.array([(40, 40), (50, 50), (44, 52), (36, 55), (48, 60)], dtype=float))
    assert turned_by_45.shape == white.shape
    assert turned_by_45[0, 0].max() == 0

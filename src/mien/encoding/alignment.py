"""Aligns a face by its landmarks: makes the crop that an ArcFace-style network takes, and its four views."""

from __future__ import annotations

import cv2
import numpy as np

from mien.core.arrays import Floats
from mien.core.embeddings import VIEWS
from mien.encoding.photo import Pixels

CROP_SIDE = 112
# places of eyes, nose and corners of the mouth on the crop: x, y
LANDMARKS_ON_CROP = np.array(
    [(38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041)]
)


def eye_line_angle(landmarks: Floats) -> float:
    """The angle of the line between the eyes, in degrees; positive where the picture's right eye is lower.

    >>> round(eye_line_angle(np.array([(10, 10), (20, 20), (15, 18), (10, 25), (16, 28)])))
    45
    """
    across, down = landmarks[1] - landmarks[0]
    return float(np.degrees(np.arctan2(down, across)))


def levelled(photo: Pixels, landmarks: Floats) -> Pixels:
    """The photo turned around the nose until the eyes are level; new corners are black."""
    return warped(photo, levelling(landmarks), photo.shape[1::-1])


def levelling(landmarks: Floats) -> Floats:
    """The rotation that `levelled` applies, as a (2, 3) matrix."""
    nose = (float(landmarks[2, 0]), float(landmarks[2, 1]))
    turn: Floats = cv2.getRotationMatrix2D(nose, eye_line_angle(landmarks), 1.0)
    return turn


def aligned_crop(photo: Pixels, landmarks: Floats) -> Pixels:
    """The face, with its landmarks where the networks expect them."""
    return warped(photo, similarity(landmarks, LANDMARKS_ON_CROP), (CROP_SIDE, CROP_SIDE))


def views_of(crop: Pixels) -> Pixels:
    """The crop plain, gray, mirrored, and gray and mirrored (4, height, width, 3)."""
    gray = grayed(crop)
    return np.stack([(gray if is_gray else crop)[:, :: -1 if flip else 1] for flip, is_gray in VIEWS])


def grayed(crop: Pixels) -> Pixels:
    """The crop in gray, in three equal channels."""
    gray: Pixels = cv2.cvtColor(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    return gray


def png_of(picture: Pixels) -> bytes:
    """A picture as a PNG file."""
    return cv2.imencode(".png", np.ascontiguousarray(picture[..., ::-1]))[1].tobytes()


def warped(photo: Pixels, matrix: Floats, size: tuple[int, ...]) -> Pixels:
    """The photo under an affine map, bilinear, on black; `size` is (width, height)."""
    result: Pixels = cv2.warpAffine(photo, matrix, size, flags=cv2.INTER_LINEAR, borderValue=(0, 0, 0))
    return result


def similarity(source: Floats, target: Floats) -> Floats:
    """The turn, scale and shift (2, 3) that brings points nearest to their targets in least squares (Umeyama)."""
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    from_mean, to_mean = source - source_mean, target - target_mean
    left, stretch, right = np.linalg.svd(to_mean.T @ from_mean / len(source))
    mirror = np.array([1.0, np.sign(np.linalg.det(left) * np.linalg.det(right))])  # a face is never mirrored
    turn = (left * mirror) @ right
    scale = (stretch * mirror).sum() / from_mean.var(axis=0).sum()
    return np.column_stack([scale * turn, target_mean - scale * turn @ source_mean])

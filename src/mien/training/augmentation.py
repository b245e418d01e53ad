"""Variations of an aligned crop, as the official scripts train with them."""

from __future__ import annotations

import cv2
import numpy as np

from mien.core.arrays import Floats
from mien.encoding.alignment import CROP_SIDE, grayed
from mien.encoding.photo import Pixels
from mien.training.presets import Augmentation


def augmented(crop: Pixels, how: Augmentation, *, rng: np.random.Generator) -> Pixels:
    """One random variation of an RGB crop."""
    if rng.random() < how.shrink_probability:
        crop = shrunk(crop, int(rng.uniform(how.shrink_from, how.shrink_to)))
    if rng.random() < how.flip_probability:
        crop = np.ascontiguousarray(crop[:, ::-1])
    crop = jittered(crop, how, rng=rng)
    return grayed(crop) if rng.random() < how.gray_probability else crop


def shrunk(crop: Pixels, side: int) -> Pixels:
    """The crop, made smaller and large again."""
    small = cv2.resize(crop, (side, side), interpolation=cv2.INTER_LINEAR)
    back: Pixels = cv2.resize(small, (CROP_SIDE, CROP_SIDE), interpolation=cv2.INTER_LINEAR)
    return back


def jittered(crop: Pixels, how: Augmentation, *, rng: np.random.Generator) -> Pixels:
    """Changes brightness, contrast, saturation and hue at random, in random order."""
    for change in rng.permutation(4).tolist():
        match change:
            case 0:
                crop = blended(crop, np.zeros(3), 1 + rng.uniform(-how.brightness, how.brightness))
            case 1:
                mean = cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY).mean()
                crop = blended(crop, np.full(3, mean), 1 + rng.uniform(-how.contrast, how.contrast))
            case 2:
                crop = blended(crop, grayed(crop), 1 + rng.uniform(-how.saturation, how.saturation))
            case _:
                crop = turned(crop, rng.uniform(-how.hue, how.hue))
    return crop


def blended(crop: Pixels, other: Floats | Pixels, share: float) -> Pixels:
    """The crop and another picture, mixed; a share above one goes beyond the crop.

    >>> blended(np.full((1, 1, 3), 100, np.uint8), np.zeros(3), 1.2).ravel().tolist()
    [120, 120, 120]
    """
    return np.clip(np.rint(share * crop + (1 - share) * other), 0, 255).astype(np.uint8)


def turned(crop: Pixels, circle: float) -> Pixels:
    """All hues turned by a share of the circle."""
    hsv = cv2.cvtColor(crop.astype(np.float32) / 255, cv2.COLOR_RGB2HSV)  # as floats: OpenCV has only 180 hues in bytes
    hsv[..., 0] = (hsv[..., 0] + 360 * circle) % 360
    rgb: Pixels = np.clip(np.rint(255 * cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)), 0, 255).astype(np.uint8)
    return rgb

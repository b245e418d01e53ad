"""The four views of an aligned crop."""

from __future__ import annotations

import cv2
import numpy as np

from mien.core.encoder import VIEWS
from mien.encoding.photo import Pixels


def views_of(crop: Pixels) -> Pixels:
    """The crop plain, gray, mirrored, and gray and mirrored (4, height, width, 3)."""
    gray = cv2.cvtColor(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    return np.stack([(gray if is_gray else crop)[:, :: -1 if flip else 1] for flip, is_gray in VIEWS])

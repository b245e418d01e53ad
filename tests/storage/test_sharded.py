"""Several galleries as one: who may be in them."""

from __future__ import annotations

import numpy as np
import pytest

from mien import Cohort, Gallery
from mien.errors import GalleryError
from mien.storage.sharded import ShardedGallery

from cohorts import random_cohort


def opened(folder, cohorts):
    directories = [folder / name for name in ("one", "other")]
    for directory, cohort in zip(directories, cohorts, strict=True):
        Gallery.build(directory, cohort)
    return ShardedGallery.open(directories)


def test_one_patient_in_two_galleries_is_refused(tmp_path, rng):
    cohort = random_cohort(rng)
    with pytest.raises(GalleryError, match=r"patients are in two of the galleries: 'p0-0', .*one and in .*other: each"):
        opened(tmp_path, [cohort, cohort])


def test_one_image_in_two_galleries_is_refused(tmp_path):
    parts = [
        Cohort.of(np.eye(1), image_ids=["same"], patient_ids=[patient], disorder_ids=["A"]) for patient in ("p", "q")
    ]
    with pytest.raises(GalleryError, match=r"1 images are in two of the galleries: 'same'"):
        opened(tmp_path, parts)

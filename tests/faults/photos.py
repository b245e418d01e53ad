"""Broken photos: each becomes pixels or a refusal, within the memory that the limits allow."""

from __future__ import annotations

import resource
import traceback

import numpy as np

from mien.encoding.photo import decode_photo
from mien.errors import MienError

from faults.children import results
from faults.tally import Tally
from pictures import mutants, sources

KINDS = ("JPEG", "PNG", "WEBP", "HEIF")
MOST_KILOBYTES = 1_500_000  # a photo of 50 megapixels takes 0.9 GB


def mutated_photos(count, seed, _folder):
    """Photos of four kinds, each broken in one to four ways."""
    tally = Tally("broken photo", count)
    made = {kind: sources(kind) for kind in KINDS}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def examine(number):
        [data] = mutants(made[KINDS[number % len(KINDS)]], np.random.default_rng([seed, number]), 1)
        try:
            pixels = decode_photo(data)
        except MienError as error:
            outcome, detail = "refused", str(error)
        except BaseException:
            return "fault: traceback", traceback.format_exc()
        else:
            sound = pixels.dtype == np.uint8 and pixels.shape[2:] == (3,) and min(pixels.shape[:2]) >= 32
            outcome, detail = "pixels" if sound else "fault: no pixels", str(pixels.shape)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        return ("fault: too much memory", f"{taken} kB") if taken > MOST_KILOBYTES else (outcome, detail)

    for number, found in enumerate(results(examine, range(count))):
        outcome, detail = found if isinstance(found, list) else (f"fault: {found}", "")
        tally.count(KINDS[number % len(KINDS)], outcome, number, detail)
    return tally

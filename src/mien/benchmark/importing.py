"""Reading a GM-Arc encodings CSV."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mien.benchmark.measure import Line, best_of
from mien.storage.formats.gm_arc import COLUMNS
from mien.storage.loading import read_encodings

IMAGES = 15_386
DIMENSIONS = 512


def importing_benchmarks(rng: np.random.Generator, size: float) -> Iterator[Line]:
    """A file of a share of GMDB's size."""
    images = max(1, round(size * IMAGES))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "all_encodings.csv"
        for kind, digits in (("short numbers", 6), ("numbers in full", 17)):
            write_encodings(path, rng, images, digits)
            ours, usual = best_of(8, lambda: read_encodings(path), lambda: usual_reading(path))
            rows = f"{images * 12:,} rows, {path.stat().st_size / 1e6:,.0f} MB"
            yield Line(f"read encodings, {kind}: {rows}", ours, "pandas.read_csv and json.loads", usual, "≤ 0.2")


def write_encodings(path: Path, rng: np.random.Generator, images: int, digits: int = 6) -> None:
    """Random encodings in the official layout; six digits make 1 GB of GMDB, the official scripts write 17."""
    with path.open("w") as file:
        file.write(";".join(COLUMNS) + "\n")
        for image in range(images):
            for model in range(3):
                for flip, gray in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    vector = ", ".join(f"{value:.{digits}f}" for value in rng.standard_normal(DIMENSIONS).tolist())
                    file.write(f"{image}_rot_aligned.jpg;m{model};{flip};{gray};[0];[{vector}]\n")
        file.flush()
        os.fsync(file.fileno())  # or the disk would be busy with it during the measurement


def usual_reading(path: Path) -> list[list[float]]:
    """As published code does it."""
    import pandas as pd  # noqa: PLC0415 only here

    table = pd.read_csv(path, sep=";")
    return [json.loads(vector) for vector in table["representations"]]

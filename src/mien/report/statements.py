"""What the paper says of an experiment beside what this run shows, where no single cell of a table shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree

from mien.evaluation.experiments.gallery_size import SizeLine
from mien.evaluation.experiments.number_of_images import ImagesUsed
from mien.evaluation.experiments.oracle import ORACLE, AgainstBestImage, OracleLine
from mien.evaluation.experiments.overview import OTHER, OverviewLine
from mien.evaluation.experiments.proportional import AlphaLine
from mien.evaluation.experiments.rank_changes import BESIDE, Change
from mien.evaluation.experiments.tsne import Point
from mien.evaluation.lab import Tables, rows_of
from mien.report.figures.style import SCORE_NAMES, SET_NAMES

TOPS = {"top1": "top-1", "top5": "top-5", "top10": "top-10"}


class Statement(NamedTuple):
    """In the paper's words or nearly so; and what is computed from this run's rows, in lines."""

    paper: str
    here: str


Statements = Callable[[Tables], Iterator[Statement]]


def overview(tables: Tables) -> Iterator[Statement]:
    """Figure 1."""
    true = [line for line in rows_of(tables, "overview", OverviewLine) if line.true_disorder]
    a, b1, b2, b3 = (line.rank for line in true if line.panel != OTHER)
    others = ", ".join(f"{line.rank}" for line in true if line.panel == OTHER)
    here = f"Rank of the true disorder: A {a} (other photos alone: {others}), B1 {b1}, B2 {b2}, B3 {b3}."
    yield Statement("A drawing, of no measured patient.", here)


def rank_changes(tables: Tables) -> Iterator[Statement]:
    """Figure 4."""
    changes = [line for line in rows_of(tables, "rank_changes", Change) if line.stage != "baseline"]
    more = sum(line.improved > line.worsened for line in changes)
    centroid, full, alone = (
        [line for line in changes if line.stage == stage] for stage in ("patient-weighted centroid", "full", *BESIDE)
    )
    yield Statement(
        "Improvements outweighed degradations at every stage and in all subsets.",
        f"They do in {more} of {len(changes)} bars, fusion alone among them.",
    )
    improved = [line.improved for line in centroid]
    yield Statement(
        "Disorder-level gallery aggregation alone improved the rank for 29.7 % to 44.9 % of patients; adding hybrid "
        "scoring and patient-level aggregation reduced the worsened fraction in every subset.",
        f"Alone it improves {min(improved):.1f} % to {max(improved):.1f} %.\nWorsened, alone and in the full method:"
        + _of_sets((a.set, f"{a.worsened:.1f} and {b.worsened:.1f} %") for a, b in zip(centroid, full, strict=True)),
    )
    yield Statement(
        "The large unchanged fraction of the embedding-level fusion is dominated by single-image patients.",
        "Unchanged by fusion alone, and how many of these have one image:"
        + _of_sets((a.set, f"{a.unchanged:.1f} %, {a.unchanged_with_one_image or 0:.1f} %") for a in alone),
    )


def tsne(tables: Tables) -> Iterator[Statement]:
    """Figure 2."""
    images = [point for point in rows_of(tables, "tsne", Point) if point.kind == "image"]
    places = [(point.x, point.y) for point in images]
    disorders = np.array([point.disorder_id for point in images])
    nearest = KDTree(places).query(places, k=2)[1][:, 1]
    mixed = 100 * np.mean(disorders != disorders[nearest])
    here = f"Of {len(images):,} images, {mixed:.1f} % have one of another disorder as their nearest on the map."
    yield Statement("Embeddings from different disorders can occupy overlapping regions.", here)


def number_of_images(tables: Tables) -> Iterator[Statement]:
    """S5."""
    lines = [line for line in rows_of(tables, "number_of_images", ImagesUsed) if line.gain_top1 is not None]
    control = max(abs(line.gain_top1 or 0) for line in lines if line.approach == "single image")
    yield Statement(
        "The single-image control stays flat in every cohort. The largest gain comes from the first additional image: "
        "in the largest cohort of GMDB-Multi-Freq, roughly 6 to 7 points at top-1. On GMDB-Multi-Rare no benefit is "
        "visible at top-1; it appears at top-5.",
        f"The control moves by at most {control:.2f} points at top-1 from one step to the next.\n"
        "Second image, patients with at least two, points at top-1 and top-5:"
        + _of_sets(
            (line.set, f"{line.approach} {line.gain_top1:+.2f} and {line.gain_top5:+.2f}")
            for line in lines
            if (line.least_images, line.used) == (2, 2)
        )
        + "\nSecond, third and fourth image, patients with at least four, embedding-level fusion, points at top-1:"
        + _of_sets(
            (line.set, f"{line.gain_top1:+.2f}")
            for line in lines
            if (line.least_images, line.approach) == (4, "embedding fusion")
        ),
    )


def oracle(tables: Tables) -> Iterator[Statement]:
    """S6."""
    lines = [*rows_of(tables, "oracle", OracleLine), *rows_of(tables, "oracle_scores", OracleLine)]
    best = {(line.set, line.score): line for line in lines if line.approach == ORACLE}
    fused = [(line, top) for line in lines if line.approach.endswith("fusion") for top in TOPS]
    reached = [
        (line.set, f"{line.approach}, {SCORE_NAMES[line.score]}, {TOPS[top]}")
        for line, top in fused
        if getattr(line, top) >= getattr(best[line.set, line.score], top)
    ]
    yield Statement(
        "Neither strategy reaches the oracle at any cut-off. The same holds for every operator and strategy.",
        f"{len(reached)} of {len(fused)} accuracies reach the oracle of their score.{_of_sets(reached)}",
    )
    compared = rows_of(tables, "oracle_per_patient", AgainstBestImage)
    better = [line.better for line in compared if line.approach.endswith("fusion")]
    yield Statement(
        "Both fusions rank the true disorder better than every single image in about 7 % to 15 % of cases.",
        f"In {min(better):.1f} % to {max(better):.1f} %.",
    )


def gallery_size(tables: Tables) -> Iterator[Statement]:
    """S7."""
    said = {
        "freq": "On GMDB-Freq the advantage of centroids is largest below about 80 gallery images, and reverses for "
        "the best-represented disorders, where the baseline is the strongest approach at top-5 and top-10.",
        "rare": "On GMDB-Rare, the centroid approaches are superior in all groups.",
    }
    for test_set, paper in said.items():
        lines = [line for line in rows_of(tables, "gallery_size", SizeLine) if line.set == test_set]
        groups = {line.bin: {other.method: other for other in lines if other.bin == line.bin} for line in lines}
        gains = []
        for of_method in groups.values():
            before, after = of_method["baseline"], of_method["patient-weighted centroid"]
            gain = " / ".join(f"{getattr(after, top) - getattr(before, top):+.1f}" for top in TOPS)
            gains += [f"up to {before.most_images}: {gain}\n"]
        if groups:
            largest = list(groups.values())[-1].values()
            best = [f"{TOPS[top]} {max((getattr(x, top), x.method) for x in largest)[1]}" for top in TOPS]
            yield Statement(
                paper,
                "Patient-weighted centroid minus baseline by gallery images, points at top-1 / 5 / 10:\n"
                f"{''.join(gains)}Best in the largest group: {', '.join(best)}.",
            )


def proportional(tables: Tables) -> Iterator[Statement]:
    """S10."""
    alone, inside = (
        [line for line in rows_of(tables, name, AlphaLine) if line.gallery == "unified"]
        for name in ("proportional", "proportional_hybrid")
    )
    falling = {line.alpha for line in alone if line.delta_top5 <= 0}
    both = [f"{alpha:g}" for alpha in dict.fromkeys(line.alpha for line in alone) if alpha not in falling]
    yield Statement(
        "In the unified gallery both sets improve only in the range of alpha from 0.05 to 0.1.",
        f"At top-5 both improve at alpha {', '.join(both) or 'none of those tried'}.",
    )
    gains: dict[str, list[float]] = {}
    for line, combined in zip(alone, inside, strict=True):
        gains.setdefault(line.set, []).append(line.delta_top5)
        gains.setdefault(f"{line.set} inside", []).append(combined.over_hybrid_top5 or 0.0)
    yield Statement(
        "On GMDB-Rare a fraction of the improvement remained on top of the hybrid; on GMDB-Freq nothing was added.",
        "Best gain over all alphas, points at top-5, alone and on top of the hybrid:"
        + _of_sets(
            (name, f"{max(gains[name]):+.2f} and {max(gains[f'{name} inside']):+.2f}")
            for name in gains
            if name in SET_NAMES
        ),
    )


def _of_sets(texts: Iterable[tuple[str, str]]) -> str:
    """A line for each set."""
    of_set: dict[str, list[str]] = {}
    for test_set, text in texts:
        of_set.setdefault(test_set, []).append(text)
    return "".join(f"\n{SET_NAMES[test_set]}: {', '.join(said)}." for test_set, said in of_set.items())

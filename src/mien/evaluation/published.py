"""Every figure that the paper prints and a run of the study can be compared with. Percentages unless said otherwise."""

from __future__ import annotations

from typing import NamedTuple

from mien.core.method import Method
from mien.evaluation.comparison import SetName

SET_NAMES = {
    "freq": "GMDB-Freq",
    "rare": "GMDB-Rare",
    "multi-freq": "GMDB-Multi-Freq",
    "multi-rare": "GMDB-Multi-Rare",
}


class PublishedAccuracy(NamedTuple):
    """Mean per-disorder accuracy in the unified gallery, with the p-value of top-5 against the baseline."""

    top1: float
    top5: float | None = None
    top10: float | None = None
    p_top5: str | None = None


ACCURACY: dict[SetName, dict[tuple[str, str], PublishedAccuracy]] = {
    "freq": {
        ("none", "nearest"): PublishedAccuracy(38.52, 58.35, 65.47),
        ("none", "image-centroid"): PublishedAccuracy(45.77, 64.80, 73.80, "<0.001"),
        ("none", "patient-centroid"): PublishedAccuracy(46.34, 65.26, 73.34, "<0.001"),
        ("none", "hybrid"): PublishedAccuracy(47.03, 66.86, 74.90, "<0.001"),
        ("embedding", "hybrid"): PublishedAccuracy(48.82, p_top5="<0.001"),
    },
    "rare": {
        ("none", "nearest"): PublishedAccuracy(19.38, 30.18, 34.90),
        ("none", "image-centroid"): PublishedAccuracy(22.13, 38.02, 44.86, "<0.001"),
        ("none", "patient-centroid"): PublishedAccuracy(22.88, 38.39, 45.33, "<0.001"),
        ("none", "hybrid"): PublishedAccuracy(23.10, 38.08, 44.40, "<0.001"),
        ("embedding", "hybrid"): PublishedAccuracy(23.79, p_top5="<0.001"),
    },
    "multi-freq": {
        ("none", "nearest"): PublishedAccuracy(46.12, 66.61, 74.21),
        ("distance", "nearest"): PublishedAccuracy(55.95, 77.94, 80.63, "<0.001"),
        ("embedding", "nearest"): PublishedAccuracy(56.04, 76.29, 77.97, "<0.001"),
        ("embedding", "hybrid"): PublishedAccuracy(60.94, p_top5="0.003"),
    },
    "multi-rare": {
        ("none", "nearest"): PublishedAccuracy(18.54, 27.62, 32.58),
        ("distance", "nearest"): PublishedAccuracy(17.75, 30.43, 36.24, "0.056"),
        ("embedding", "nearest"): PublishedAccuracy(18.53, 32.10, 36.33, "0.004"),
        ("embedding", "hybrid"): PublishedAccuracy(26.71, p_top5="<0.001"),
    },
}

ORACLE: dict[SetName, PublishedAccuracy] = {  # the best single image of each patient, nearest
    "multi-freq": PublishedAccuracy(60.23, 81.49, 86.44),
    "multi-rare": PublishedAccuracy(26.16, 36.39, 41.53),
}


def published_accuracy(test_set: SetName, method: Method) -> PublishedAccuracy | None:
    """The paper's figures for a method, where it prints them: lambda is 0.75 there."""
    if method.score == "hybrid" and method.parameters["lambda"] != LAMBDA:
        return None
    return ACCURACY[test_set].get((method.fusion, method.score))


# by set and stage: per cent of patients whose rank of the true disorder improves or worsens, and its median
RANK_CHANGE: dict[tuple[SetName, str], dict[str, float]] = {
    ("freq", "full"): {"improved": 33.1, "worsened": 10.9},
    ("rare", "baseline"): {"median_rank": 49},
    ("rare", "full"): {
        "improved": 33.2, "worsened": 6.7, "improved_uncensored": 70.5, "worsened_uncensored": 11.4, "median_rank": 17,
    },
    ("multi-freq", "patient-weighted centroid"): {"improved": 40.1, "worsened": 24.6},
    ("multi-freq", "full"): {"improved": 55.6, "worsened": 5.4},
    ("multi-rare", "baseline"): {"median_rank": 72},
    ("multi-rare", "full"): {
        "improved": 42.6, "worsened": 6.9, "improved_uncensored": 81.1, "worsened_uncensored": 5.7, "median_rank": 12,
    },
}  # fmt: skip
DISORDER_LEVEL_IMPROVED = (29.7, 44.9)  # per cent of patients over the four sets, patient-weighted centroids alone

DISTANCES: dict[str, dict[str, float]] = {  # between gallery images, not in percent; the overlap is
    "intra-freq": {"mean": 0.746, "auc": 0.957, "cohens_d": 2.31, "overlap_percent": 19.9},
    "intra-rare": {"mean": 0.799, "auc": 0.834, "cohens_d": 1.28, "overlap_percent": 44.8},
    "inter": {"mean": 0.966},
}

LAMBDA = 0.75


class PublishedLambda(NamedTuple):
    """The lambda that would have been best on a set, and what the chosen one costs there at most, in points."""

    centroid_weight: float | None
    cost_of_chosen: float


BEST_LAMBDA: dict[SetName, PublishedLambda] = {
    "freq": PublishedLambda(0.71, 0.43),
    "rare": PublishedLambda(1.0, 0.43),
    "multi-freq": PublishedLambda(None, 0.43),
    "multi-rare": PublishedLambda(1.0, 1.11),
}
BEST_ON_VALIDATION = {"objective": 0.75, "top1": 0.75, "top5": 0.75, "top10": 0.5, "top30": 0.75}  # lambda
PATIENT_OVER_IMAGE_WEIGHTED = (1.07, 1.36)  # top-1 on validation, percentage points
BETTER_THAN_BEST_IMAGE = (7.0, 15.0)  # per cent of patients, over sets and fusions
BOTH_SETS_IMPROVE_FOR_ALPHA = (0.05, 0.1)
PLATEAU_FROM, PLATEAU_SPREAD = 0.6, 1.6  # lambda; points by which each curve varies at most above it
SECOND_IMAGE_GAIN = (6.0, 7.0)  # roughly, top-1 points on multi-freq, both fusions, patients with at least two images
CENTROIDS_GAIN_BELOW_IMAGES = 80  # about; fewer gallery images of a frequent disorder


CONFOUNDERS: dict[tuple[SetName, str], float] = {  # Spearman's rho with the gain from fusion
    ("multi-rare", "images"): 0.20,
    ("multi-rare", "age spread"): 0.16,
}


class PublishedCount(NamedTuple):
    """A line of the split table: means over folds, standard deviations where they are not zero."""

    images: float
    patients: float
    disorders: float | None = None
    images_sd: float = 0.0
    patients_sd: float = 0.0
    disorders_sd: float = 0.0


SPLITS = {
    "total": PublishedCount(15381, 11548, 710),
    "training": PublishedCount(11128, 8287, 349),
    "validation": PublishedCount(1449, 1080),
    "gallery freq": PublishedCount(12577, 9367, 349),
    "gallery rare": PublishedCount(1098.3, 879, 361, 7.7),
    "gallery unified": PublishedCount(13675.3, 10246, 710, 7.7),
    "rare in all": PublishedCount(1554, 1240, 361),
    "test freq": PublishedCount(1255, 943, 349),
    "test rare": PublishedCount(455.7, 361, 361, 7.7),
    "test multi": PublishedCount(996, 370, 240),
    "test multi-freq": PublishedCount(468, 156, 105),
    "test multi-rare": PublishedCount(159.9, 65.2, 65.2, 11.8, 4.4, 4.4),
    "rare multi in all": PublishedCount(528, 214, 135),
}
IMAGES_PER_PATIENT = {"test multi-freq": 3.0, "test multi-rare": 2.5}

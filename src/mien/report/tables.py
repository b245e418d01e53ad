"""Formats tables for reading: words for names, few digits, published values below measured ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mien.core.method import BASELINE
from mien.evaluation import published
from mien.evaluation.experiments.confounders import Correlation
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.growth import Growth
from mien.evaluation.experiments.lambda_selection import BestOnValidation, CentroidGain
from mien.evaluation.experiments.lambda_sensitivity import BestLambda
from mien.evaluation.experiments.number_of_images import ImagesUsed
from mien.evaluation.experiments.oracle import APPROACHES, ORACLE, OracleLine
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.experiments.splits import SplitLine
from mien.evaluation.published import PLATEAU_FROM, SET_NAMES
from mien.evaluation.results import Result
from mien.report.evaluation import p_value_text
from mien.report.figures import confounders, distances, gallery_size, rank_changes
from mien.report.figures.style import BASELINE_NAME, FUSION_NAMES, GALLERY_NAMES, SCORE_NAMES

BEST_PHOTO = "Oracle optimal image-selection"
GROUP_NAMES = {group: name.replace("-\n", "-").replace("\n", " ") for group, name in distances.NAMES.items()}
PARTS = {
    "total": "GMDB in all",
    "training": "Training: GMDB-Freq",
    "validation": "Validation: GMDB-Freq",
    "gallery freq": "Gallery: GMDB-Freq",
    "gallery rare": "Gallery: GMDB-Rare",
    "gallery unified": "Gallery: GMDB-Freq+Rare",
    "rare in all": "GMDB-Rare in all",
    "test multi": "GMDB-Multi in all",
    "rare multi in all": "GMDB-Multi-Rare in all",
    **{f"test {test_set}": f"Evaluation: {name}" for test_set, name in SET_NAMES.items()},
}
WORDS: dict[str, Mapping[str, str]] = {  # by column: the words for its values
    "set": SET_NAMES,
    "part": PARTS,
    "gallery": {gallery: name.capitalize() for gallery, name in GALLERY_NAMES.items()},
    "fusion": FUSION_NAMES,
    "score": {score: name.capitalize() for score, name in SCORE_NAMES.items()} | {ORACLE: BEST_PHOTO},
    "approach": {approach: FUSION_NAMES[method.fusion] for approach, method in APPROACHES.items()}
    | {"single image": BASELINE_NAME, ORACLE: BEST_PHOTO},
    "method": {method: name for method, (name, *_) in gallery_size.METHODS.items()},
    "stage": {stage: name.replace("\n", " ") for stage, name in rank_changes.STAGE_NAMES.items()},
    "variable": {variable: name.replace("\n", " ") for variable, name in confounders.NAMES.items()},
    "group": GROUP_NAMES,
    "measure": {**{f"top{top}": f"Top-{top}" for top in (1, 5, 10, 30)}, "objective": "Weighted mean of the four"},
}
HEADINGS = {
    "set": "Test set",
    "centroid_weight": "λ",
    **{f"top{top}": f"Top-{top} (%)" for top in (1, 5, 10, 30)},
    **{f"delta_top{top}": f"Top-{top} against\nbaseline (points)" for top in (1, 5, 10)},
    "top": "Top-N",
    **{f"over_hybrid_top{top}": f"Top-{top} against\nplain hybrid (points)" for top in (1, 5, 10)},
    "p_value": "p",
    "p_top5": "p (top-5)",
    "rho": "Correlation\n[95 % interval]",
    "least_images": "Images,\nat least",
    "most_images": "Images,\nat most",
    "used": "Images\nused",
    "objective": "Weighted mean (%)",
    "cost_of_chosen": "Cost of the\nchosen λ (points)",
    "plateau_spread": f"Spread from\nλ = {PLATEAU_FROM} on (points)",
    "largest_fall": "Largest fall\nalong λ (points)",
    "mean_gain": "Gain at top-1,\nmean of folds (points)",
    "least_gain": "Least of\nthe folds",
    "most_gain": "Most of\nthe folds",
    "gain_top1": "One image more,\ntop-1 (points)",
    "gain_top5": "One image more,\ntop-5 (points)",
    "images_per_patient": "Images per\npatient",
    "accuracy": "Accuracy (%)",
    "here": "This run",
    "true_disorder": "Is the\ntrue one",
    "improved": "Improved (%)",
    "unchanged": "Unchanged (%)",
    "worsened": "Worsened (%)",
    "improved_uncensored": "Improved,\nall ranks (%)",
    "worsened_uncensored": "Worsened,\nall ranks (%)",
    "unchanged_with_one_image": "Of the unchanged:\nhave one image (%)",
    "better": "Better (%)",
    "same": "Same (%)",
    "worse": "Worse (%)",
    "group": "Pairs of images",
    "pairs": "Drawn",
    "distinct_pairs": "Distinct",
    "same_patient_percent": "Of one\npatient (%)",
    "sd": "Standard\ndeviation",
    "auc": "AUC",
    "cohens_d": "Cohen's d",
    "overlap_percent": "Overlap (%)",
    "images_of_most_represented": "Images of a patient,\nhundred with most",
    "multi_image_patients": "Patients with\nseveral images",
    "published": "Published (%)",
    "measured": "Measured (%)",
}
SPREADS = {"images": "images_sd", "patients": "patients_sd", "disorders": "disorders_sd"}
WITH_INTERVAL = {"rho": ("ci_low", "ci_high", 2), "delta_top5": ("ci_low_top5", "ci_high_top5", 1)}  # ends, digits
SHOWN_WITH_OTHERS = {*SPREADS.values(), "ci_low", "ci_high", "bin"}
OF_RESULTS = ("set", "gallery", "fusion", "score", "top1", "top5", "top10", "delta_top5", "p_top5")  # no room for more
BEST_IN_BOLD = ("top1", "top5", "top10")
SAID_ABOVE = {"gallery", "fusion", "score"}  # where all rows share one, the section names it
THREE_DIGITS = {"distance", "mean", "sd", "median", "auc"}
SHORT = {"images", "patients", "disorders", "median_rank", "centroid_weight", "alpha"}  # without zeros at the end
SIGNED = ("delta_", "over_hybrid_", "gain_", "mean_gain", "least_gain", "most_gain", "rho")


class TableCell(NamedTuple):
    """One value with its spread or interval, and the published value."""

    text: str
    paper: str = ""
    best: bool = False  # of its set
    paper_best: bool = False


class Column(NamedTuple):
    """One column of a table."""

    heading: str
    numeric: bool
    cells: list[TableCell]


def columns_of(rows: Sequence[NamedTuple]) -> Iterator[Column]:
    """The columns of a table; those that are empty in every row are left out."""
    printed = [PRINTED.get(type(row), lambda _: {})(row) for row in rows]
    varying = {
        field for field in SAID_ABOVE if hasattr(rows[0], field) and len({getattr(row, field) for row in rows}) > 1
    }
    for field in OF_RESULTS if isinstance(rows[0], Result) else rows[0]._fields:
        values = [getattr(row, field) for row in rows]
        if field in SHOWN_WITH_OTHERS or (field in SAID_ABOVE and field not in varying):
            continue
        cells = [TableCell(_cell(row, field), _paper(paper, field)) for row, paper in zip(rows, printed, strict=True)]
        if isinstance(rows[0], Result) and varying == {field}:  # the one column that tells methods apart
            cells = [
                TableCell(BASELINE_NAME) if isinstance(row, Result) and row.method == BASELINE else cell
                for row, cell in zip(rows, cells, strict=True)
            ]
        if isinstance(rows[0], Result) and field in BEST_IN_BOLD:
            best = zip(_best_of(rows, values), _best_of(rows, [paper.get(field) for paper in printed]), strict=True)
            cells = [TableCell(cell.text, cell.paper, *marks) for cell, marks in zip(cells, best, strict=True)]
        if any(cell.text for cell in cells):
            heading = HEADINGS.get(field, field.replace("_", " ").capitalize())
            numeric = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            yield Column(heading, numeric, cells)


def has_published(columns: Sequence[Column]) -> bool:
    """Whether the paper prints any of these figures."""
    return any(cell.paper for column in columns for cell in column.cells)


def in_words(claim: str) -> str:
    """A finding with the full name of the group of distances that it begins with.

    >>> in_words("intra-rare: mean of distances")
    'Intra-disorder, rare: mean of distances'
    """
    group, colon, rest = claim.partition(": ")
    worded = f"{GROUP_NAMES.get(group, group)}{colon}{rest}"
    return worded[:1].upper() + worded[1:]


def _best_of(rows: Sequence[NamedTuple], values: Sequence[float | None]) -> list[bool]:
    """Which values are the best of their set and gallery."""
    of_set: dict[object, list[float]] = {}
    for row, value in zip(rows, values, strict=True):
        of_set.setdefault(row[:2], []).append(value or 0.0)
    return [value is not None and value == max(of_set[row[:2]]) for row, value in zip(rows, values, strict=True)]


def _cell(row: NamedTuple, field: str) -> str:
    if isinstance(row, Result) and row.method == BASELINE and field.startswith("delta_"):
        return ""
    values = {field: getattr(row, field), **row._asdict()}
    text = _with_spread(values, field)
    low, high, digits = WITH_INTERVAL.get(field, ("", "", 0))
    if values.get(low) is not None:
        text += f" [{values[low]:+.{digits}f}, {values[high]:+.{digits}f}]"
    if field == "patients" and isinstance(values[field], float) and str(values.get("set")).endswith("rare"):
        text += " per fold"  # the folds of rare sets differ
    return text


def _paper(values: Mapping[str, Any], field: str) -> str:
    value = values.get(field)
    return "" if value is None else value if isinstance(value, str) else _with_spread(values, field)


def _with_spread(values: Mapping[str, Any], field: str) -> str:
    spread = values.get(SPREADS.get(field, ""))
    return _text(field, values[field]) + (f" ± {spread:.1f}" if spread else "")


def _text(field: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return WORDS.get(field, {}).get(str(value), str(value))
    if field in SHORT:
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    if field.startswith("p_"):
        return p_value_text(value)
    signed = "+" if field.startswith(SIGNED) else ""
    return f"{value:{signed}.{3 if field in THREE_DIGITS else 2}f}"


def _fields(line: NamedTuple | None) -> dict[str, Any]:
    return line._asdict() if line else {}


def _best_lambda(row: BestLambda) -> dict[str, Any]:
    printed = published.BEST_LAMBDA[row.set]
    return {
        "centroid_weight": printed.centroid_weight,
        "cost_of_chosen": f"{'' if row.set == 'multi-rare' else 'at most '}{printed.cost_of_chosen}",
        "plateau_spread": f"at most {published.PLATEAU_SPREAD}",
        "largest_fall": "none" if row.set.endswith("rare") else None,
    }


def _images_used(row: ImagesUsed) -> dict[str, Any]:
    second = row[:3] == ("multi-freq", 2, 2) and row.approach != "single image"
    return {"gain_top1": "roughly {:g} to {:g}".format(*published.SECOND_IMAGE_GAIN)} if second else {}


def _oracle(row: OracleLine) -> dict[str, Any]:
    if method := APPROACHES.get(row.approach):
        return _fields(published.ACCURACY[row.set].get((method.fusion, row.score)))
    return _fields(published.ORACLE.get(row.set)) if row.score == "nearest" else {}


# what the paper prints for a row, by field: numbers, or words where it gives a bound or a range
PRINTED: dict[type, Callable[[Any], dict[str, Any]]] = {
    Result: lambda row: _fields(published.published_accuracy(row.set, row.method)) if row.gallery == "unified" else {},
    SplitLine: lambda row: (
        published.SPLITS[row.part]._asdict() | {"images_per_patient": published.IMAGES_PER_PATIENT.get(row.part)}
    ),
    Change: lambda row: published.RANK_CHANGE.get((row.set, row.stage), {}),
    Group: lambda row: published.DISTANCES[row.group],
    # the study stands beside the last release
    Growth: lambda row: {} if row.released else published.SPLITS["total"]._asdict(),
    BestOnValidation: lambda row: {"centroid_weight": published.BEST_ON_VALIDATION[row.measure]},
    CentroidGain: lambda _: {"mean_gain": "{:.2f} to {:.2f}".format(*published.PATIENT_OVER_IMAGE_WEIGHTED)},
    BestLambda: _best_lambda,
    ImagesUsed: _images_used,
    OracleLine: _oracle,
    Correlation: lambda row: {"rho": published.CONFOUNDERS.get((row.set, row.variable))},
}

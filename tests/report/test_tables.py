"""Tables for people."""

from __future__ import annotations

import pytest

from mien.evaluation.experiments.confounders import Correlation
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.lambda_selection import CentroidGain, LambdaLine
from mien.evaluation.experiments.lambda_sensitivity import BestLambda
from mien.evaluation.experiments.number_of_images import ImagesUsed
from mien.evaluation.experiments.oracle import ORACLE, OracleLine
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.experiments.splits import SplitLine
from mien.evaluation.published import SET_NAMES
from mien.report.tables import columns_of, has_published, in_words

INTER = Group("inter", 200, 190, 0.0, 0.9801, 0.08, 0.98)
INTRA = Group("intra-freq", 1000, 900, 4.5, 0.7512, 0.1, 0.76, 0.9514, 2.2, 21.0)


def cells(*rows):
    return {column.heading.replace("\n", " "): column.cells for column in columns_of(rows)}


def shown(*rows):
    """What was measured, then what the paper prints."""
    return {
        heading: [f"{cell.text} | {cell.paper}" if cell.paper else cell.text for cell in of_column]
        for heading, of_column in cells(*rows).items()
    }


def test_published_figures_stand_below_those_measured():
    assert shown(INTRA)["Mean"] == ["0.751 | 0.746"]
    assert shown(OracleLine("multi-rare", "nearest", ORACLE, 25.0, 35.0, 41.0))["Top-1 (%)"] == ["25.00 | 26.16"]
    assert has_published(list(columns_of([INTRA])))
    assert not has_published(list(columns_of([LambdaLine(0.5, 1.0, 2.0, 3.0, 4.0, 2.0, selected=True)])))


def test_every_stage_stands_beside_what_the_paper_says_of_it():
    change = Change("multi-rare", "full", 30.0, 60.0, 10.0, 66.0, 12.0, 20.0)
    full = shown(change)
    assert (full["Improved (%)"], full["Worsened, all ranks (%)"]) == (["30.00 | 42.60"], ["12.00 | 5.70"])
    assert full["Median rank"] == ["20 | 12"]
    assert shown(change._replace(stage="baseline"))["Median rank"] == ["20 | 72"]
    assert shown(change._replace(stage="hybrid"))["Improved (%)"] == ["30.00"]
    alone = change._replace(set="multi-freq", stage="patient-weighted centroid")
    assert shown(alone)["Worsened (%)"] == ["10.00 | 24.60"]


def test_bounds_and_ranges_of_the_paper_are_told_as_such():
    best = shown(BestLambda("rare", 0.98, 30.0, 0.4, 1.1, 0.05))
    assert best["Cost of the chosen λ (points)"] == ["0.40 | at most 0.43"]
    assert best["Largest fall along λ (points)"] == ["0.05 | none"]
    gain = shown(CentroidGain("none", 1.2, 1.1, 1.3))
    assert gain["Gain at top-1, mean of folds (points)"] == ["+1.20 | 1.07 to 1.36"]
    assert shown(ImagesUsed("multi-freq", 2, 2, "distance fusion", 50.0, 60.0, 156.0, 6.5, 7.0))[
        "One image more, top-1 (points)"
    ] == ["+6.50 | roughly 6 to 7"]


def test_the_best_of_each_set_is_marked_as_in_the_paper(tables):
    of_set = {"multi-freq": slice(0, 3), "multi-rare": slice(3, 6)}
    for heading, field, papers_best in (("Top-1 (%)", "top1", [2, 0]), ("Top-5 (%)", "top5", [1, 2])):
        column = cells(*tables["patient_aggregation"])[heading]
        values = [getattr(row, field) for row in tables["patient_aggregation"]]
        for part, place in zip(of_set.values(), papers_best, strict=True):
            assert [cell.best for cell in column[part]] == [value == max(values[part]) for value in values[part]]
            assert [cell.paper_best for cell in column[part]].index(True) == place


def test_columns_that_are_empty_in_every_row_are_left_out():
    assert "AUC" not in shown(INTER)
    assert shown(INTRA, INTER)["AUC"] == ["0.951 | 0.957", ""]


def test_numbers_stand_at_the_right_and_words_at_the_left():
    numeric = {column.heading: column.numeric for column in columns_of([INTRA, INTER])}
    assert not numeric.pop("Pairs of images")
    assert all(numeric.values())
    chosen = list(columns_of([LambdaLine(0.0, 1.0, 2.0, 3.0, 4.0, 2.0, selected=True)]))
    assert [column.heading for column in chosen if not column.numeric] == ["Selected"]
    assert [cell.text for cell in chosen[0].cells] == ["0"]


def test_spreads_and_intervals_stand_beside_their_numbers():
    line = SplitLine("test rare", 455.7, 7.66, 361.0, 0.0, 361.0, 0.0, 1.262)
    assert shown(line) == {
        "Part": ["Evaluation: GMDB-Rare"],
        "Images": ["455.7 ± 7.7 | 455.7 ± 7.7"],
        "Patients": ["361 | 361"],
        "Disorders": ["361 | 361"],
        "Images per patient": ["1.26"],
    }
    correlation = shown(Correlation("multi-freq", "images", 0.111, -0.05, 0.26, 0.0002, 156))
    assert correlation["Correlation [95 % interval]"] == ["+0.11 [-0.05, +0.26]"]
    assert correlation["p"] == ["<0.001"]


def test_patients_of_rare_disorders_are_counted_per_fold():
    used = ImagesUsed("multi-rare", 2, 1, "single image", 20.0, 30.0, 65.2)
    assert shown(used)["Patients"] == ["65.2 per fold"]
    assert shown(used._replace(set="multi-freq", patients=156.0))["Patients"] == ["156"]
    assert shown(Correlation("multi-rare", "images", 0.1, 0.0, 0.2, 0.1, 212))["Patients"] == ["212"]


def test_results_fit_on_the_page(tables):
    assert list(shown(*tables["patient_aggregation"])) == [
        *("Test set", "Fusion", "Top-1 (%)", "Top-5 (%)", "Top-10 (%)", "Top-5 against baseline (points)", "p (top-5)")
    ]
    assert shown(*tables["patient_aggregation"])["Fusion"][0] == "Single-image baseline"
    assert shown(*tables["disorder_aggregation"])["Score"][0] == "Single-image baseline"
    assert shown(*tables["ablation"])["Gallery"][:13:12] == ["Unified gallery", "Split gallery"]


def test_no_short_name_reaches_a_reader(tables):
    for name, rows in tables.items():
        drawn = {"tsne", "headline_curves", "overview_points", "rank_flows", "distance_densities"}
        if rows and name not in drawn:
            for column in columns_of(rows):
                assert not {*SET_NAMES, "none", "unified", "single image", "intra-freq"} & {
                    cell.text for cell in column.cells
                }, name


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("intra-rare: mean distance", "Intra-disorder, rare: mean distance"),
        ("inter: mean distance", "Inter-disorder: mean distance"),
        ("validation chooses lambda 0.75", "Validation chooses lambda 0.75"),
        ("", ""),
    ],
)
def test_findings_are_told_in_words(claim, words):
    assert in_words(claim) == words

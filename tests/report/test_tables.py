"""Tables for people."""

from __future__ import annotations

import pytest

from mien.evaluation.experiments.confounders import Correlation
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.lambda_selection import LambdaLine
from mien.evaluation.experiments.oracle import ORACLE, OracleLine
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.experiments.splits import SplitLine
from mien.report.figures.style import SET_NAMES
from mien.report.tables import columns_of, has_published, in_words

INTER = Group("inter", 200, 190, 0.0, 0.9801, 0.08, 0.98)
INTRA = Group("intra-freq", 1000, 900, 4.5, 0.7512, 0.1, 0.76, 0.9514, 2.2, 21.0)


def shown(*rows):
    return {column.heading.replace("\n", " "): column.cells for column in columns_of(rows)}


def test_published_figures_stand_in_brackets():
    assert shown(INTRA)["Mean"] == ["0.751 (0.746)"]
    assert shown(OracleLine("multi-rare", ORACLE, 25.0, 35.0, 41.0))["Top-1 (%)"] == ["25.00 (26.16)"]
    assert shown(Change("rare", "full", 30.0, 60.0, 10.0, 66.0, 12.0, 20.0))["Improved (%)"] == ["30.00 (33.20)"]
    assert shown(Change("rare", "hybrid", 30.0, 60.0, 10.0, 66.0, 12.0, 20.0))["Improved (%)"] == ["30.00"]
    assert has_published([INTRA])
    assert not has_published([LambdaLine(0.5, 1.0, 2.0, 3.0, 4.0, 2.0, selected=True)])


def test_columns_that_are_empty_in_every_row_are_left_out():
    assert "AUC" not in shown(INTER)
    assert shown(INTRA, INTER)["AUC"] == ["0.951 (0.957)", ""]


def test_numbers_stand_at_the_right_and_words_at_the_left():
    numeric = {column.heading: column.numeric for column in columns_of([INTRA, INTER])}
    assert not numeric.pop("Pairs of photos")
    assert all(numeric.values())
    chosen = list(columns_of([LambdaLine(0.0, 1.0, 2.0, 3.0, 4.0, 2.0, selected=True)]))
    assert [column.heading for column in chosen if not column.numeric] == ["Selected"]
    assert chosen[0].cells == ["0"]


def test_spreads_and_intervals_stand_beside_their_numbers():
    line = SplitLine("test rare", 455.7, 7.66, 361.0, 0.0, 361.0, 0.0)
    assert shown(line) == {
        "Part": ["Test: rare disorders"],
        "Images": ["455.7 ± 7.7 (455.7)"],
        "Patients": ["361 (361)"],
        "Disorders": ["361 (361)"],
    }
    correlation = shown(Correlation("multi-freq", "images", 0.111, -0.05, 0.26, 0.0002, 156))
    assert correlation["Correlation (95 % interval)"] == ["+0.11 (-0.05 to +0.26)"]
    assert correlation["p"] == ["<0.001"]


def test_results_fit_on_the_page(tables):
    assert list(shown(*tables["patient_aggregation"])) == [
        *("Test set", "Fusion", "Top-1 (%)", "Top-5 (%)", "Top-10 (%)", "Top-5 against baseline (points)", "p")
    ]
    assert shown(*tables["ablation"])["Gallery"][:13:12] == ["Unified gallery", "Own gallery only"]


def test_no_short_name_reaches_a_reader(tables):
    for name, rows in tables.items():
        if rows and name not in {"tsne", "headline_curves", "rank_flows", "distance_densities"}:  # drawn, not shown
            for column in columns_of(rows):
                assert not {*SET_NAMES, "none", "unified", "single image", "intra-freq"} & set(column.cells), name


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("freq: the best lambda lies between 0 and 1", "Frequent disorders: the best lambda lies between 0 and 1"),
        ("intra-rare: mean distance", "Same disorder, rare: mean distance"),
        ("inter: mean distance", "Different disorders: mean distance"),
        ("validation chooses lambda 0.75", "Validation chooses lambda 0.75"),
        ("", ""),
    ],
)
def test_findings_are_told_in_words(claim, words):
    assert in_words(claim) == words

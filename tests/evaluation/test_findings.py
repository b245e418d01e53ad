"""The rules by which a statement of the paper counts as held, and the list itself on the paper's own numbers."""

from __future__ import annotations

import pytest

from mien import Method
from mien.core.method import BASELINE, FULL
from mien.evaluation import published
from mien.evaluation.experiments.distances import Group
from mien.evaluation.experiments.lambda_selection import CentroidLine, LambdaLine
from mien.evaluation.experiments.lambda_sensitivity import BestLambda
from mien.evaluation.experiments.rank_changes import Change
from mien.evaluation.experiments.splits import SplitLine
from mien.evaluation.findings import at_most, finding, inside, near, order, significance, signs
from mien.evaluation.paper_statements import findings
from mien.evaluation.results import Result


def test_a_statement_says_where_it_stands():
    found = finding("S2: intra-freq: mean", "within 1", 0.746, "0.8", holds=True)
    assert found[:2] == ("S2", "intra-freq: mean")
    assert (found.rule, found.published, found.measured, found.holds) == ("within 1", "0.746", "0.8", True)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (near("x: y", [1.0, 5.0], [1.5, 5.5], 0.5), True),
        (near("x: y", [1.0, 5.0], [1.5, 5.6], 0.5), False),
        (inside("x: y", [7.0, 15.0], 7, 15), True),
        (inside("x: y", [7.0, 15.1], 7, 15), False),
        (inside("x: y", [6.9, 8.0], 7, 15), False),
        (at_most("x: y", [0.43, 0.1], 0.43), True),
        (at_most("x: y", [0.44, 0.1], 0.43), False),
        (order("x: y", [[1.0, 2.0, 3.0], [0.0, 1.0]]), True),
        (order("x: y", [[1.0, 2.0, 2.0]]), False),
        (order("x: y", [[1.0, 2.0], [2.0, 1.0]]), False),
        (signs("x: y", [0.1, 2.0], 1), True),
        (signs("x: y", [0.0, 2.0], 1), False),
        (signs("x: y", [-0.1, -2.0], -1), True),
        (significance("x: y", 0.0009, "<0.001"), True),
        (significance("x: y", 0.0011, "<0.001"), False),
        (significance("x: y", 0.049, "0.003"), True),
        (significance("x: y", 0.051, "0.003"), False),
        (significance("x: y", 0.05, "0.056"), True),
        (significance("x: y", 0.049, "0.056"), False),
    ],
)
def test_a_rule_is_taken_literally(found, holds):
    assert found.holds is holds


def p_value(printed):
    return None if printed is None else 0.0005 if printed == "<0.001" else float(printed)


def result(test_set, fusion, score):
    printed = published.ACCURACY[test_set][fusion, score]
    method = Method(fusion, score)
    rest = dict.fromkeys(
        ("delta_top1", "ci_low_top1", "ci_high_top1", "p_top1", "delta_top5", "ci_low_top5", "ci_high_top5"), 0.0
    )
    return Result(
        *(test_set, "unified", method),
        *(printed.top1, printed.top5 or 0, printed.top10 or 0, 0, "baseline"),
        **rest,
        p_top5=p_value(printed.p_top5),
        images=0,
        patients=0,
        disorders=0,
        folds=10,
    )


@pytest.fixture
def printed_tables():
    """What an experiment would find that found exactly what the paper prints."""
    methods = {test_set: list(of_set) for test_set, of_set in published.ACCURACY.items()}
    nothing = {**dict.fromkeys(Change._fields[2:], 0), "median_rank": None}
    changes = [
        Change(test_set, stage, **nothing | usual | published.RANK_CHANGE.get((test_set, stage), {}))
        for test_set in published.SET_NAMES
        for stage, usual in (
            ("baseline", {"unchanged": 100}),
            ("patient-weighted centroid", {"improved": 30.0, "worsened": 20.0}),
            ("full", {}),
        )
    ]
    return {
        "splits": [
            SplitLine(part, **{**c._asdict(), "disorders": c.disorders or 0}, images_per_patient=0)
            for part, c in published.SPLITS.items()
        ],
        "patient_aggregation": [result(s, *m) for s in ("multi-freq", "multi-rare") for m in methods[s][:3]],
        "disorder_aggregation": [result(s, *m) for s in ("freq", "rare") for m in methods[s][:4]],
        "headline": [result(s, m.fusion, m.score) for s in methods for m in (BASELINE, FULL)],
        "rank_changes": changes,
        "distances": [
            Group(name, **dict.fromkeys(("pairs", "distinct_pairs", "same_patient_percent", "sd", "median"), 0), **of)
            for name, of in published.DISTANCES.items()
        ],
        "lambda_selection": [
            LambdaLine(w, top, top, 5 if w == 0.5 else 0, top, top, selected=w == 0.75)
            for w, top in ((0.0, 1), (0.25, 2), (0.5, 3), (0.75, 4), (1.0, 3))
        ],
        "validation_centroids": [CentroidLine("image-centroid", 45.0), CentroidLine("patient-centroid", 46.2)],
    }


def test_the_papers_own_numbers_hold(printed_tables):
    found = findings(printed_tables)
    assert len(found) > 60
    assert [row for row in found if not row.holds] == []


def test_other_numbers_do_not_hold(printed_tables):
    swapped = {
        "disorder_aggregation": [
            row._replace(top1=100 - row.top1, top5=100 - row.top5, top10=100 - row.top10, p_top5=0.9)
            for row in printed_tables["disorder_aggregation"]
        ],
        "distances": [row._replace(mean=row.mean + 0.1) for row in printed_tables["distances"]],
        "rank_changes": [
            row._replace(improved=row.worsened, worsened=row.improved, improved_uncensored=0, median_rank=500)
            for row in printed_tables["rank_changes"]
        ],
    }
    held = [row for row in findings(swapped) if row.holds and row.where != "S2"]
    assert [row.claim for row in held if "modest" not in row.claim] == []


def test_what_a_run_lacks_is_not_stated(printed_tables):
    assert findings({}) == []
    only_rare = {"disorder_aggregation": [r for r in printed_tables["disorder_aggregation"] if r.set == "rare"]}
    assert findings(only_rare) == []
    assert findings({"best_lambda": [BestLambda("freq", 0.7, 50.0, 0.1, 0.5, 0.0)]})[0].measured == "0.7"

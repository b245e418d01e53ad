"""The plan in docs/cluster.md: its numbers follow from the constants that it names."""

import re
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = run_path(str(ROOT / "scripts" / "plan.py"))


def tables():
    """The rows of the page's tables, as texts."""
    lines = (ROOT / "docs" / "cluster.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def number(cell):
    return float(re.match(r"[\d.,]+", cell).group().replace(",", ""))


def test_the_page_works_out_what_it_says():
    rows = tables()
    start = rows.index(["constant", "measured"]) + 2
    constants = SCRIPT["Constants"](*(number(row[1]) for row in rows[start : start + len(SCRIPT["Constants"]._fields)]))
    planned = [row for row in rows if row[0].endswith("000,000")]
    assert len(planned) == 3
    for row in planned:
        images, disorders, workers, worker, asker, sums, network, seconds = map(number, row)
        plan = SCRIPT["plan"](constants, int(images), int(disorders), int(workers))
        found = worker, asker, sums, network, seconds
        expected = plan.worker_gb, plan.asker_gb, plan.start_gb, plan.query_mb, plan.query_seconds
        assert found == pytest.approx(expected, rel=0.03)

"""The figures of a cohort analysis: one file for each."""

from __future__ import annotations

from mien.report.cohort_figures import alike, map, ranks, threshold  # noqa: A004

FIGURES = {"ranks": ranks.draw, "alike": alike.draw, "threshold": threshold.draw, "map": map.draw}

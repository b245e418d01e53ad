"""Each figure shows what its table holds, for any sets, and is the same file every time."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.text import Text

from mien.evaluation.agreement import worst
from mien.evaluation.experiments.confounders import Correlation
from mien.report.figures import FIGURES, confounders, figures_of
from mien.report.figures.style import SET_COLOURS, SETTINGS, draw_and_save
from mien.report.sections import SECTIONS


@pytest.fixture(scope="module")
def drawn(tables):
    """All figures, by name."""
    with mpl.rc_context(SETTINGS):
        return {name: draw(tables) for name, draw in figures_of(tables).items()}


def texts(figure):
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def curves(axis):
    """Lines of more than one point, as lists of heights."""
    return [list(line.get_ydata()) for line in axis.get_lines() if len(line.get_xdata()) > 2]


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_the_same_figure_is_the_same_file_and_carries_its_note(name, finished, tmp_path):
    done, report = finished
    draw_and_save(FIGURES[name][1], done.tables, tmp_path / name, done.note)
    for suffix in ("svg", "png"):
        file = f"{name}.{suffix}"
        assert (tmp_path / file).read_bytes() == (report / "figures" / file).read_bytes()
    assert done.note in (tmp_path / f"{name}.svg").read_text()


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "ablation_split"])
def test_frequent_disorders_alone_can_be_drawn(name, frequent_tables):
    with mpl.rc_context(SETTINGS):
        figure = figures_of(frequent_tables)[name](frequent_tables)
        figure.draw_without_rendering()
    assert not any("rare" in text.get_text().lower() for text in figure.findobj(Text))


def test_a_figure_is_left_out_where_the_tables_hold_nothing_for_it(tables, frequent_tables):
    assert list(figures_of(tables)) == list(FIGURES)
    assert set(FIGURES) - set(figures_of(frequent_tables)) == {"ablation_split"}  # it has but one gallery
    assert "growth" not in figures_of(tables | {"growth": []})


def test_every_figure_has_its_file_and_its_place_in_the_report():
    files = {path.name.removesuffix(".py") for path in resources.files("mien.report.figures").iterdir()}
    kinds = {"ablation_split": "ablation", "ablation_unified": "ablation", "proportional_hybrid": "proportional"}
    assert {kinds.get(name, name) for name in FIGURES} == {x for x in files if not x.startswith("__")} - {"style"}
    assert set(FIGURES) == {name for section in SECTIONS for name in section.figures} | {"agreement"}


def test_names_are_drawn_as_they_are_written(tables, tmp_path):
    name = "<b>Cost $\\frac$ & more"
    points = [point._replace(disorder_name=name) for point in tables["tsne"]]
    draw_and_save(FIGURES["tsne"][1], {"tsne": points}, tmp_path / "tsne", f"Data: {name}")
    svg = (tmp_path / "tsne.svg").read_text()
    assert "<!-- &lt;b&gt;Cost $\\frac$ &amp; more -->" in svg
    assert "<!-- Data: &lt;b&gt;Cost $\\frac$ &amp; more -->" in svg
    ET.fromstring(svg)


class TestWhatTheyShow:
    def test_agreement_has_a_point_for_each_accuracy(self, drawn, tables):
        [axis] = drawn["agreement"].axes
        points = [line.get_xydata()[0].tolist() for line in axis.get_lines() if len(line.get_xdata()) == 1]
        assert points == [[cell.published, cell.measured] for cell in tables["agreement"]]
        assert f"{worst(tables['agreement']).error:+.1f} points" in texts(drawn["agreement"])[0]

    def test_overview_shows_both_lists_and_every_photo(self, drawn, tables):
        *planes, lists = drawn["overview"].axes
        names = [text.get_text().split("\n")[1] for text in lists.texts]
        assert names == [f"{line.distance:.3f}" for line in tables["overview"] if line.panel in {"A", "B3"}]
        points = {(point.x, point.y) for point in tables["overview_points"] if point.kind == "gallery image"}
        for plane in planes:
            marks = {tuple(place) for line in plane.get_lines() for place in line.get_xydata().tolist()}
            assert points <= marks

    def test_headline_has_four_curves_for_each_set(self, drawn, tables):
        everyone, several = drawn["headline"].axes
        assert [len(curves(everyone)), len(curves(several))] == [8, 8]
        assert curves(everyone)[0] == [point.accuracy for point in tables["headline_curves"][:30]]

    def test_rank_changes_has_a_bar_for_each_share_and_a_band_for_each_flow(self, drawn, tables):
        patches = [patch for axis in drawn["rank_changes"].axes for patch in axis.patches]
        bars = [patch for patch in patches if isinstance(patch, Rectangle)]
        shares = [share for change in tables["rank_changes"] for share in change[2:5] if share]
        assert sorted(bar.get_height() for bar in bars) == pytest.approx(sorted(shares))
        flows = [flow for flow in tables["rank_flows"] if flow.percent]
        assert sum(isinstance(patch, PathPatch) for patch in patches) == len(flows)

    def test_tsne_has_a_mark_for_each_point(self, drawn, tables):
        [axis] = drawn["tsne"].axes
        marks = {tuple(place) for line in axis.get_lines() for place in line.get_xydata().tolist()}
        assert marks == {(point.x, point.y) for point in tables["tsne"]}

    def test_distances_writes_the_numbers_beside_the_curves(self, drawn, tables):
        axis, _ = drawn["distances"].axes
        assert len(curves(axis)) == len(tables["distances"]) == 3
        assert {f"{group.mean:.3f}" for group in tables["distances"]} <= set(texts(drawn["distances"]))

    def test_growth_writes_out_the_last_version(self, drawn, tables):
        last = tables["growth"][-1]
        assert {f"{last.images:,}", f"{last.patients:,}", f"{last.disorders:,}"} <= set(texts(drawn["growth"]))

    def test_lambda_selection_marks_the_chosen_one(self, drawn, tables):
        [axis] = drawn["lambda_selection"].axes
        [chosen] = [line for line in tables["lambda_selection"] if line.selected]
        labels = [text.get_text() for text in axis.get_legend().get_texts()]
        assert f"Selected: λ = {chosen.centroid_weight:g}" in labels
        assert curves(axis)[0] == [
            line.top1 - tables["lambda_selection"][0].top1 for line in tables["lambda_selection"]
        ]

    def test_lambda_sensitivity_says_what_the_chosen_one_costs(self, drawn, tables):
        said = texts(drawn["lambda_sensitivity"])
        for text, best in zip(said, tables["best_lambda"], strict=True):
            assert text == f"best at λ = {best.centroid_weight:.2f}; 0.75 costs {best.cost_of_chosen:.2f} points"

    def test_patients_are_counted_per_fold_only_where_folds_differ(self, drawn):
        said = texts(drawn["number_of_images"])
        assert any(text.endswith("patients: few, read with care") for text in said)
        assert any("patients per fold" in text for text in said)
        titles = [axis.get_title(loc="left") for axis in drawn["ablation_unified"].axes]
        assert ["per fold" in title for title in titles[:4]] == [False, True, False, True]

    def test_number_of_images_follows_each_cohort(self, drawn, tables):
        axis = drawn["number_of_images"].axes[1]  # frequent, three or more
        shown = [line.get_ydata() for line in axis.get_lines()]
        cohort = [row for row in tables["number_of_images"] if (row.set, row.least_images) == ("multi-freq", 3)]
        assert sorted(map(sum, shown)) == pytest.approx(
            sorted(
                sum(getattr(row, top) for row in cohort if row.approach == approach)
                for approach in {row.approach for row in cohort}
                for top in ("top1", "top5")
            )
        )

    def test_oracle_has_three_parts_in_each_bar(self, drawn, tables):
        widths = [bar.get_width() for axis in drawn["oracle"].axes for bar in axis.patches]
        rows = tables["oracle_per_patient"]
        assert sorted(widths) == pytest.approx(sorted(share for row in rows for share in row[2:]))

    def test_gallery_size_has_a_curve_for_each_method(self, drawn, tables):
        first = drawn["gallery_size"].axes[0]
        rows = [row for row in tables["gallery_size"] if (row.set, row.method) == ("freq", "baseline")]
        assert len(first.get_lines()) == 4
        assert list(first.get_lines()[0].get_ydata()) == [row.top1 for row in rows]

    @pytest.mark.parametrize("gallery", ["unified", "split"])
    def test_ablation_writes_every_accuracy(self, gallery, drawn, tables):
        rows = [row for row in tables["ablation"] if row.gallery == gallery]
        assert len(rows) == 48
        written = Counter(texts(drawn[f"ablation_{gallery}"]))
        assert written == Counter(f"{value:.1f}" for row in rows for value in (row.top1, row.top5, row.top10))

    def test_confounders_writes_every_p_value(self, drawn, tables):
        p_values = [f"{row.p_value:.3f}" if row.p_value >= 0.001 else "<0.001" for row in tables["confounders"]]
        assert Counter(p_values) <= Counter(texts(drawn["confounders"]))

    def test_confounders_fills_what_is_significant_and_nothing_else(self):
        rows = [
            Correlation("multi-freq", "images", 0.3, 0.1, 0.5, 0.049, 156),
            Correlation("multi-freq", "mean age", 0.0, -0.1, 0.1, 0.051, 156),
            Correlation("multi-rare", "images", 0.2, 0.1, 0.3, 0.0004, 65),
        ]
        [axis] = confounders.draw({"confounders": rows}).axes
        points = [line for line in axis.get_lines() if line.get_marker() == "o"]
        filled = [line.get_markerfacecolor() == line.get_color() for line in points]
        assert filled == [True, False, True]
        assert [line.get_color() for line in points] == [SET_COLOURS[row.set] for row in rows]

    @pytest.mark.parametrize(
        ("name", "difference"), [("proportional", "delta"), ("proportional_hybrid", "over_hybrid")]
    )
    def test_proportional_has_a_curve_for_each_set_and_gallery(self, name, difference, drawn, tables):
        above, *_, below = drawn[name].axes[:4]
        assert [len(curves(above)), len(curves(below))] == [4, 4]
        assert curves(above)[0] == [row.top1 for row in tables[name][:9]]
        assert curves(below)[0] == [getattr(row, f"{difference}_top1") for row in tables[name][:9]]

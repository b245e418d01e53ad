"""The report: its files agree with each other, are the same every time, and make a page that stands alone."""

from __future__ import annotations

import base64
import csv
import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mien.core.roster import Disorder
from mien.core.study import Fold, Split
from mien.errors import MienError
from mien.evaluation.published import ACCURACY, DISTANCES, SPLITS
from mien.report import reproduction
from mien.report.evaluation import NORMALISED, protocol_document
from mien.report.figures import FIGURES
from mien.report.report_folder import check_report_folder
from mien.report.reproduction import reproduce
from mien.report.sections import SECTIONS
from mien.report.tables import in_words

BANNER = "Nobody in this report exists"
MISSING = "the data does not hold what this needs"
DRAWN_ONLY = {
    *("overview_points", "headline_curves", "rank_flows", "tsne", "distance_densities", "lambda_sensitivity"),
}


@pytest.fixture
def without_drawing(monkeypatch):
    """Figures take most of the time, and have tests of their own."""

    def write_empty(_draw, _tables, path, _note):
        for suffix in (".svg", ".png"):
            path.with_suffix(suffix).write_text("<svg/>")

    monkeypatch.setattr(reproduction, "draw_and_save", write_empty)


def results_of(report):
    return json.loads((report / "results.json").read_text())


def files_of(report):
    return {str(path.relative_to(report)): path.read_bytes() for path in report.rglob("*") if path.is_file()}


class Page(HTMLParser):
    """What a browser would make of a page: its text, its sections, and all that it points to."""

    def __init__(self, report):
        super().__init__()
        self.source = (report / "index.html").read_text()
        self.tags, self.ids, self.links, self.images, self.words = [], set(), [], [], []
        self.feed(self.source)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.ids |= {given["id"]} if "id" in given else set()
        self.links += [given["href"]] if "href" in given else []
        self.images += [given["src"]] if "src" in given else []

    def handle_data(self, data):
        self.words.append(data)

    def section(self, title):
        """The text from one heading to the next."""
        [place] = [number for number, section in enumerate(SECTIONS) if section.title == title]
        after = SECTIONS[place + 1].title if place + 1 < len(SECTIONS) else "mien supports"
        start = self.text.rindex(title)
        return self.text[start : self.text.index(after, start)]


def test_every_table_is_written_twice_with_the_same_values(report):
    tables = results_of(report)["tables"]
    assert {path.stem for path in (report / "tables").iterdir()} == {name for name, rows in tables.items() if rows}
    for name, rows in ((name, rows) for name, rows in tables.items() if rows):
        with (report / "tables" / f"{name}.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == len(rows)
        for line, row in zip(lines, rows, strict=True):
            assert line == {column: "" if value is None else str(value) for column, value in row.items()}


def test_every_figure_is_written_twice(report):
    names = {path.name for path in (report / "figures").iterdir()}
    assert names == {f"{name}.{suffix}" for name in FIGURES for suffix in ("svg", "png")}


@pytest.mark.long
def test_the_same_study_makes_the_same_files(report, study, releases, tmp_path, monkeypatch, maps_drawn):
    maps_drawn.clear()

    def copied(_draw, _tables, path, _note):
        """test_figures.py draws them: the same tables make the same figures."""
        for suffix in (".svg", ".png"):
            shutil.copy(report / "figures" / f"{path.name}{suffix}", path.with_suffix(suffix))

    monkeypatch.setattr(reproduction, "draw_and_save", copied)
    reproduce(study, tmp_path, seed=1, releases=releases)
    first, second = files_of(report), files_of(tmp_path)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_results_say_where_they_come_from(report, study):
    results = results_of(report)
    assert results["protocol"]["source"] == study.source
    assert results["protocol"]["folds"] == 2
    assert results["protocol"]["bootstrap"]["seed"] == 1
    assert results["agreement"]["accuracies"] == len(results["tables"]["agreement"]) == 52
    assert results["agreement"]["runs"] == 1


def test_the_page_needs_no_other_file_and_no_network(report):
    page = Page(report)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", page.source.replace("data:image/svg+xml", ""))
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    for address in page.links:
        assert address[1:] in page.ids if address.startswith("#") else (report / address).is_file(), address


def test_the_page_holds_every_figure(report):
    images = Page(report).images
    head = "data:image/svg+xml;base64,"
    assert all(image.startswith(head) for image in images)
    held = [base64.b64decode(image.removeprefix(head)) for image in images]
    assert sorted(held) == sorted((report / "figures" / f"{name}.svg").read_bytes() for name in FIGURES)


def test_the_page_shows_the_published_figures(report):
    text = Page(report).text
    for of_method in ACCURACY.values():
        for published in of_method.values():
            for value in published[:3]:
                assert value is None or f"paper {value:.2f}" in text
    assert f"paper {SPLITS['gallery unified'].images:,} ± 7.7" in text
    assert f"paper {DISTANCES['intra-freq']['auc']}" in text


def test_the_page_speaks_in_words(report):
    page = Page(report)
    findings = results_of(report)["findings"]
    assert f"{sum(finding['holds'] for finding in findings)} of {len(findings)} statements" in page.text
    visible = re.sub(r"\S+\.csv", "", page.text.replace("GMDB v1.1.4", ""))
    assert not re.search(r"\b(multi-(freq|rare)|intra-(freq|rare)|None|True|False|nan)\b", visible)
    assert MISSING not in page.text


def test_simulated_data_is_called_so(report):
    page = Page(report)
    assert BANNER in page.text
    assert page.text.count("Simulated data: GMDB v1.1.4-simulated-1") == 2


def test_the_page_says_what_was_put_into_simulated_data_and_which_seed_a_number_is_of(report):
    text = Page(report).text
    assert "was calibrated to the numbers of the paper" in text
    assert "apart from all others: frequent and rare" in text
    assert "Every number is of this one run with seed 1" in text
    for name, rows in results_of(report)["tables"].items():
        assert not rows or f"{name}.csv · seed 1" in text or name in {*DRAWN_ONLY, "agreement"}


def test_every_statement_of_the_paper_stands_once_beside_what_this_run_shows(report):
    text = Page(report).text
    findings = results_of(report)["findings"]
    docs = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    assert f"Of the **{len(findings)} statements** of the paper that a report checks" in docs
    for finding in findings:
        row = [in_words(finding["claim"]), "yes" if finding["holds"] else "no", finding["measured"]]
        assert text.count(" ".join(row)) == 1, row
        assert finding["where"].split(",")[0] in {section.paper for section in SECTIONS}


def test_the_text_of_a_section_says_how_to_read_it_not_what_is_found():
    claims = re.compile(r"\b(improve|outperform|beats?|best served|helps?)\w*\b")
    assert not [section.title for section in SECTIONS if claims.search(section.read)]


class TestWhatWasLeftOut:
    @pytest.mark.usefixtures("without_drawing")
    def test_nobody(self, frequent_study, tmp_path):
        reproduce(frequent_study, tmp_path, seed=1, only=["splits"])
        assert "Nobody: every test patient" in Page(tmp_path).text

    @pytest.mark.usefixtures("without_drawing")
    def test_whoever_the_protocol_names(self, study, tmp_path, monkeypatch):
        def document(*given, **named):
            return protocol_document(*given, **named) | {
                "normalised": True,
                "not_in_gallery": {"unified": ["p1"], "split": []},
                "tested_and_in_gallery": {"of_fold": {"3": ["q1", "q2"]}},
            }

        monkeypatch.setattr(reproduction, "protocol_document", document)
        reproduce(study, tmp_path, seed=1, only=["splits"])
        text = Page(tmp_path).text
        assert NORMALISED in text
        assert "the unified gallery lacks: misses at every N 1: 'p1'" in text
        assert (
            "Fold 3: test patients who are in the gallery too, left out of it for their own queries 2: 'q1', 'q2'"
            in text
        )


@pytest.mark.usefixtures("without_drawing")
class TestWhatAStudyLacks:
    def test_without_validation(self, study, tmp_path):
        reproduce(dataclasses.replace(study, train=(), validation=()), tmp_path, seed=1)
        page = Page(tmp_path)
        assert MISSING in page.section("Lambda, chosen on the validation images")
        assert "--versions" in page.section("Growth of the database")
        assert page.text.count(MISSING) == 1
        assert "Validation chooses" not in page.text

    def test_without_facts(self, study, releases, tmp_path):
        done = reproduce(dataclasses.replace(study, facts_of_image={}), tmp_path, seed=1, releases=releases)
        assert MISSING not in Page(tmp_path).text
        assert "mean age" not in {row.variable for row in done.tables["confounders"]}
        missing = {row["variable"]: row["reason"] for row in results_of(tmp_path)["tables"]["confounders_missing"]}
        assert missing["mean age"].startswith("no ages: image_metadata_<version>.tsv is missing")
        assert "mean age" in (tmp_path / "tables" / "confounders_missing.csv").read_text()

    def test_without_rare_disorders_and_over_an_earlier_report(self, report, frequent_study, tmp_path):
        """Nothing of the earlier report stays, but what is not of it does."""
        out = shutil.copytree(report, tmp_path / "report")
        (out / "notes.txt").write_text("mine")
        reproduce(dataclasses.replace(frequent_study, simulated=False, source="our clinic"), out, seed=1, force=True)
        page, tables = Page(out), results_of(out)["tables"]
        assert BANNER not in page.text
        assert "Simulated data" not in page.text
        assert "Data: our clinic" in page.text
        assert not any(row.get("set", "").endswith("rare") for rows in tables.values() for row in rows)
        assert {path.stem for path in (out / "tables").iterdir()} == {name for name, rows in tables.items() if rows}
        assert {path.stem for path in (out / "figures").iterdir()} == set(FIGURES) - {"growth", "ablation_split"}
        assert (out / "notes.txt").read_text() == "mine"

    def test_without_several_photos_of_anybody(self, frequent_study, tmp_path):
        [fold] = frequent_study.folds
        one_each = {label.patient_id: label for label in fold.frequent.test}
        folds = (Fold(Split(fold.frequent.gallery, tuple(one_each.values())), Split((), ())),)
        reproduce(dataclasses.replace(frequent_study, folds=folds), tmp_path, seed=1)
        page = Page(tmp_path)
        for title in ("The method on one patient", "Patient-level aggregation", "Fusion against the best single image"):
            assert MISSING in page.section(title)


@pytest.mark.usefixtures("without_drawing")
class TestSomeExperimentsOnly:
    def test_its_numbers_are_those_of_the_whole_run(self, report, study, tmp_path):
        reproduce(study, tmp_path, seed=1, only=["headline", "oracle"])
        whole, some = (results_of(folder) for folder in (report, tmp_path))
        assert some["tables"].keys() == {
            *("headline", "headline_curves", "oracle", "oracle_scores", "oracle_per_patient", "agreement")
        }
        for name, rows in some["tables"].items():
            assert rows == [row for row in whole["tables"][name] if name != "agreement" or row in rows]
        assert some["protocol"] == whole["protocol"]
        assert some["findings"] == [finding for finding in whole["findings"] if finding in some["findings"]] != []
        assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"agreement", "headline", "oracle"}

    def test_the_page_says_nothing_of_the_others(self, study, tmp_path):
        reproduce(study, tmp_path, seed=1, only=["splits"])
        page = Page(tmp_path)
        assert "Who is in the study?" in page.text
        assert MISSING not in page.text
        for title in ("How good is the full method?", "Fusion against the best single photo", "A map of the gallery"):
            assert title not in page.text
        for address in page.links:
            assert address[1:] in page.ids if address.startswith("#") else (tmp_path / address).is_file(), address

    def test_nothing_of_an_earlier_report_stays(self, report, study, tmp_path):
        out = shutil.copytree(report, tmp_path / "report")
        reproduce(study, out, seed=1, only=["headline"], force=True)
        assert {path.stem for path in (out / "tables").iterdir()} == {"headline", "headline_curves", "agreement"}
        assert {path.stem for path in (out / "figures").iterdir()} == {"headline", "agreement"}


def test_every_table_is_known_to_the_report(tables):
    assert tables.keys() == reproduction.TABLES


@pytest.mark.usefixtures("without_drawing")
def test_names_cannot_break_the_page(study, tmp_path):
    evil = "<script>alert(1)</script>\"'&amp;"
    disorders = {key: Disorder(key, f"{evil}{key}") for key in study.disorders}
    reproduce(dataclasses.replace(study, source=evil, disorders=disorders), tmp_path, seed=1)
    page = Page(tmp_path)
    assert "script" not in page.tags
    assert f"Every table and figure of the study on {evil}" in page.text
    assert results_of(tmp_path)["protocol"]["source"] == evil
    with (tmp_path / "tables" / "tsne.csv").open(newline="") as file:
        assert all(line["disorder_name"].startswith(evil) for line in csv.DictReader(file))


class TestWhereItMayBeWritten:
    def test_not_over_something_else(self, study, tmp_path):
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(MienError, match="holds something else"):
            reproduce(study, tmp_path, seed=1)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_not_over_a_file(self, tmp_path):
        (tmp_path / "report").write_text("mine")
        with pytest.raises(MienError, match="this is a file"):
            check_report_folder(tmp_path / "report")

    def test_not_over_an_earlier_report_unless_asked(self, report, study):
        before = {path: path.stat().st_mtime_ns for path in report.rglob("*")}
        with pytest.raises(MienError, match="exists already: choose another name, or write over it with --force"):
            reproduce(study, report, seed=1, only=["splits"])
        assert {path: path.stat().st_mtime_ns for path in report.rglob("*")} == before
        check_report_folder(report, force=True)

    def test_a_new_folder_or_an_empty_one(self, tmp_path):
        check_report_folder(tmp_path)
        check_report_folder(tmp_path / "new")


def test_progress_goes_forward_to_the_end(study, tmp_path, without_drawing):
    steps = []
    sibling = dataclasses.replace(study, folds=study.folds[:1])
    siblings = [(lambda: sibling, None)]
    done = reproduce(study, tmp_path, seed=1, siblings=siblings, progress=lambda *step: steps.append(step))
    places = [place for _, place, _ in steps]
    assert places == sorted(places)
    assert steps[-1][0] == "figures"
    assert done.runs == 2
    assert "as the mean of 2 simulated databases" in Page(tmp_path).text

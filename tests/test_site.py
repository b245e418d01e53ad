"""The documentation as a site: built without a warning, nothing loaded from elsewhere, what one looks for is near."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
WANTED = {  # what people come for, and the page with the answer: at most two clicks from the start
    "rank photos": "quickstart.html",
    "reproduce the paper": "reproduce.html",
    "add a score": "scores.html",
    "run it for ten people": "service.html",
    "remove a patient": "galleries.html",
    "be sure": "evidence.html",
    "look up an option": "reference/commands.html",
    "look up a function": "reference/python.html",
    "look up a route": "reference/http.html",
    "look up a word": "glossary.html",
    "decide about privacy": "privacy.html",
    "upgrade": "upgrading.html",
}


class Loaded(HTMLParser):
    """What a page loads by itself, and where its links lead."""

    def __init__(self):
        super().__init__()
        self.loads, self.links = [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "a":
            self.links.append(found.get("href") or "")
        elif tag == "link":
            self.loads += [found.get("href") or ""] if found.get("rel") not in {"next", "prev", "canonical"} else []
        elif found.get("src"):
            self.loads.append(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; the build runs the notebook."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def parsed(path):
    page = Loaded()
    page.feed(path.read_text())
    return page


@pytest.mark.long
def test_nothing_is_loaded_from_other_hosts(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loads = parsed(page).loads
        assert any(one.endswith(".css") for one in loads)
        assert any(one.endswith(".js") for one in loads)
        for address in loads:
            assert not re.match(r"[a-z]+:|//", address) or address.startswith("data:"), f"{page.name}: {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"""(url\(|@import)\s*['"]?(https?:)?//""", sheet.read_text()), sheet.name


@pytest.mark.long
def test_what_people_come_for_is_two_clicks_away(site):
    first = pages_behind(site, "index.html")
    second = {page for each in first for page in pages_behind(site, each)}
    for what, page in WANTED.items():
        assert page in first | second, what
    named = {"Rank the photos of a patient", "Reproduce the paper", "Add a score", "Run it for ten people"}
    text = (site / "index.html").read_text()
    assert all(f">{name}</a>" in text for name in {*named, "Remove a patient"})


def pages_behind(site, page):
    links = [link.partition("#")[0] for link in parsed(site / page).links]
    return {normpath(join(dirname(page), link)) for link in links if link.endswith(".html") and "//" not in link}


@pytest.mark.long
def test_search_works_without_a_server_and_without_a_network(site, tmp_path):
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("no browser to look with: install Debian's chromium, as .ci/run does")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    look = [
        "--virtual-time-budget=20000",
        f"--user-data-dir={tmp_path}",
        "--dump-dom",
        f"file://{site}/index.html?q=lambda",
    ]
    page = subprocess.run([chromium, *quiet, *look], capture_output=True, text=True, check=True).stdout
    assert re.search(r"search-result__meta\">[1-9][0-9]* matching documents<", page)


@pytest.mark.long
def test_the_references_know_the_program(site):
    commands = (site / "reference" / "commands.html").read_text()
    assert all(part in commands for part in ("mien gallery remove-patient", "--coverage", "default: 0.9"))
    routes = (site / "reference" / "http.html").read_text()
    assert all(part in routes for part in ("POST /v1/rank", "skip_refused", "RankAnswer"))
    python = (site / "reference" / "python.html").read_text()
    assert all(part in python for part in ('id="mien.rank"', 'id="mien.Gallery.remove_patients"'))


@pytest.mark.long
def test_the_page_of_the_notebook_shows_its_results(site):
    page = (site / "tutorial.html").read_text()
    assert "embedding x careful" in page
    assert "<img" in page.partition("Is it any good?")[2]


def test_the_notebook_is_stored_without_outputs():
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)

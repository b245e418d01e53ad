"""What documents promise: every command that they show is one, and runs; every link leads somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import mien
from mien.cli.main import main
from mien.encoding.store import DEFAULT, stored_encoder
from mien.simulation import study

from documents import (
    PAGES,
    ROOT,
    all_commands,
    parse,
    parse_mention,
    shown_in,
    shown_in_help,
    shown_on_page,
    write_files,
)
from studies import small_gmdb

CANNOT_RUN = {  # commands that are only parsed here, and why
    r"^serve |^demo --serve": "runs until somebody ends it; tests/service and tests/cli/test_serve.py do",
    r"^bench": "takes minutes, and is no test",
    r"^reproduce (?!.*--only)": "takes minutes; tests/report runs all experiments",
    r"gm-arc/|weights verify gm-arc|--encoder gm-arc --": "needs the weights of GestaltMatcher-Arc",
    r"--gmdb gmdb |^encode gmdb_images|gmdb_frequent": "needs GMDB",
    r"^train ": "needs GMDB and PyTorch; tests/training does",
    r"--cluster ": "needs a cluster; tests/cluster starts one",
    r"ten_syndromes|faces3d": "the data is not part of mien",
    r"--head HASH": "the hash is the reader's; tests/service/test_audit.py has one",
}
NEEDS_PHOTOS = r"weights get|weights verify|photos|\.jpg|phenopacket|--keep-faces"
TEXTS = {page: shown_on_page(page) for page in PAGES} | {"docs/tutorial.ipynb": shown_on_page("docs/tutorial.ipynb")}
HELP = "the help texts"
PAGES_WITH_COMMANDS = [page for page, shown in TEXTS.items() if shown.commands]


def commands_of(page):
    return shown_in_help() if page == HELP else TEXTS[page].commands


def to_run(page):
    """The commands of a page that can run; studies in help texts only if no page has the same."""
    elsewhere = {one for other in PAGES_WITH_COMMANDS for one in commands_of(other)} if page == HELP else set()
    again = [one for one in elsewhere if re.match("demo|simulate|reproduce|evaluate", one)]
    return [one for one in commands_of(page) if not cannot_run(one) and one not in again]


def cannot_run(command):
    return next((reason for pattern, reason in CANNOT_RUN.items() if re.search(pattern, command)), None)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files that documents speak of; each page gets a copy."""
    directory = tmp_path_factory.mktemp("files")
    write_files(directory, with_photos=not stored_encoder(DEFAULT).missing())
    return directory


@pytest.mark.parametrize("page", [*PAGES_WITH_COMMANDS, HELP])
def test_the_commands_of_a_page_run(page, files, tmp_path, monkeypatch, capsys):
    """In the order of the page. What a page builds or writes is not there before."""
    folder = tmp_path / "here"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(study, "simulated_gmdb", small_gmdb)
    commands = to_run(page)
    if stored_encoder(DEFAULT).missing():  # as where there is no network: `make test` gets the weights
        commands = [one for one in commands if not re.search(f"{NEEDS_PHOTOS}|clinic|answer.json", one)]
    for command in commands:
        for made in re.findall(r"gallery build (\S+)|--out (\S+)", command):
            discard(Path("".join(made)))
        monkeypatch.setattr(sys, "argv", ["mien", *shlex.split(command)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, f"mien {command}: {capsys.readouterr().err}"


def discard(path):
    if path.is_dir():
        shutil.rmtree(path)
    for each in (path, path.with_name(f"{path.name}.photos.csv")):
        each.unlink(missing_ok=True)


@pytest.mark.parametrize("page", [*TEXTS, HELP])
def test_every_command_that_is_shown_is_one(page):
    for command in commands_of(page):
        parse(command)
    for mention in () if page == HELP else TEXTS[page].mentions:
        parse_mention(mention)


def test_most_commands_run_and_each_exception_is_needed():
    shown = [one for page in [*TEXTS, HELP] for one in commands_of(page)]
    assert len(shown) > 100
    assert sum(not cannot_run(one) for one in shown) / len(shown) > 0.6
    for pattern in CANNOT_RUN:
        assert any(re.search(pattern, one) for one in shown), f"nothing is left out by {pattern}"


def test_wrong_commands_are_noticed():
    shown = shown_in("Say `mien rank --gallery` or:\n\n```bash\nmien rank \\\n  --galery x y.jpg  # a patient\n```\n")
    assert shown == (["rank --galery x y.jpg"], ["rank --gallery"])
    with pytest.raises(Exception, match="galery"):
        parse(shown.commands[0])
    for wrong in ("ranks", "gallery biuld DIR", "rank --galery DIR", "evaluate [--fold 2]"):
        with pytest.raises(AssertionError, match="there is no"):
            parse_mention(wrong)


def test_every_command_has_an_example_in_its_help(mien):
    for words, command in all_commands():
        examples = shown_in(f"```\n{command.epilog or ''}\n```").commands
        assert 1 <= len(examples) <= 3, f"mien {' '.join(words)}"
        assert examples[-1].startswith(" ".join(words)), f"mien {' '.join(words)}"
    _, out, _ = mien("rank", "--help")
    assert "mien rank --gallery clinic new/front.jpg new/smile.jpg" in out


@pytest.mark.parametrize("page", PAGES)
def test_links_between_files_lead_somewhere(page):
    """mkdocs looks at those of the site; these are as a viewer of the project's files follows them."""
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    made = {"docs/tutorial.md", "docs/reference/commands.md", "docs/reference/http.md"}  # when the site is built
    for path, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        name = target.relative_to(ROOT).as_posix()
        assert target.exists() or name in made, f"{page} links to {name}, which is not there"
        if anchor and target.suffix == ".md" and target.exists():
            assert anchor in anchors_of(target), f"{page} links to {name}#{anchor}, which is not there"


def anchors_of(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_python_reference_has_every_public_name():
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert sorted(re.findall(r"^::: mien\.(\w+)$", page, flags=re.MULTILINE)) == sorted(
        name for name in mien.__all__ if name != "__version__"
    )
    assert "mien.__version__" in page


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {mien.__version__}\n" in text

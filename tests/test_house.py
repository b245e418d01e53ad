"""The rules of the house: which room may look into which, what an import costs, what the documents promise."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mien

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mien"
FLOORS = {  # imports point downwards only
    "cli": 6,
    "benchmark": 5,
    "service": 4,
    "cluster": 3,
    "report": 3,
    "training": 3,
    "encoding": 2,
    "evaluation": 2,
    "simulation": 2,
    "storage": 2,
    "answers": 1,
    "core": 0,
}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
        for name in names:
            parts = name.split(".")
            if parts[0] == "mien" and len(parts) > 1 and parts[1] in FLOORS:
                yield parts[1]


def test_every_room_has_a_floor():
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == set(FLOORS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    room = path.relative_to(PACKAGE).parts[0]
    if room in FLOORS:
        for other in imported_rooms(path):
            assert other == room or FLOORS[other] < FLOORS[room], f"{room} must not look into {other}"


PURE = sorted([*(PACKAGE / "core").rglob("*.py"), *(PACKAGE / "answers").rglob("*.py")])


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.name)
def test_core_and_answers_know_numpy_and_nothing_else(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for top in (name.split(".")[0] for name in names):
            if path.name == "ranking.py" and top == "pyarrow":
                continue  # for whoever asks for a table
            if path.name == "index.py" and top in {"numkong", "os"}:
                continue  # the one place that knows the machine's instructions and cores
            assert top in {"mien", "numpy", *sys.stdlib_module_names}
            assert top not in {"io", "logging", "os", "pathlib", "random", "sqlite3", "time"}


@pytest.mark.parametrize("name", ["errors.py", "extras.py", "progress.py", "version.py"])
def test_what_every_room_uses_looks_into_none(name):
    assert not [*imported_rooms(PACKAGE / name)]


def test_importing_mien_loads_nothing_heavier_than_numpy():
    code = "import sys, mien; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "torch",
        "pyarrow",
        "pandas",
        "sklearn",
        "scipy",
        "matplotlib",
        "rich",
        "typer",
        "pydantic",
        "onnxruntime",
        "cv2",
        "fastapi",
    }
    assert not heavy & set(loaded)


def test_the_service_loads_networks_only_where_it_has_an_encoder():
    code = "import sys, mien.service.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"onnx", "onnxruntime"} & set(loaded)


def test_the_public_names_are_these():
    assert sorted(mien.__all__) == sorted(
        [
            *(
                "BASELINE",
                "FULL",
                "Calibration",
                "Cohort",
                "Disorder",
                "Encoder",
                "Encodings",
                "Evidence",
                "Gallery",
                "Label",
                "Method",
            ),
            *(
                "MienError",
                "Parameter",
                "Query",
                "RankedDisorder",
                "Ranking",
                "Roster",
                "Score",
                "Study",
                "__version__",
            ),
            *("calibrate", "cohort", "encode", "evaluate", "rank", "rank_genes"),
        ]
    )
    assert all(hasattr(mien, name) for name in mien.__all__)


def test_the_docs_list_every_score_with_its_parameters():
    from mien.core.scores import known_scores

    def written(score):
        lows = [f"above {each.low:g}," if each.above_low else f"{each.low:g}" for each in score.parameters]
        ranges = [
            f"`{each.name}` = {each.default:g} ({low} to {each.high:g})"
            for each, low in zip(score.parameters, lows, strict=True)
        ]
        cells = f"`{score.name}`", ", ".join(ranges), score.centroid or "none"
        images = "1" if score.neighbours is None else "a share"
        return f"| {' | '.join(cells)} | {images} |".replace("|  |", "| |")

    table = [line for line in (ROOT / "docs" / "scores.md").read_text().splitlines() if line.startswith("| `")]
    assert table[: len(known_scores())] == [written(score) for score in known_scores().values()]


def test_the_architecture_names_files_that_exist():
    named = re.findall(r"`([a-z_/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(set(named)) > 25
    for name in named:
        assert [*PACKAGE.rglob(name), *ROOT.glob(name)], name


def test_the_way_of_a_ranking_visits_the_twenty_files_of_the_architecture(small_gallery, tmp_path, rng):
    gallery, photos = shutil.copytree(small_gallery, tmp_path / "gallery"), tmp_path / "photos.parquet"
    rows = {"image_id": ["1"], "patient_id": ["new"], "embedding": rng.standard_normal((1, 3, 8)).tolist()}
    pq.write_table(pa.table(rows), photos)
    asked = ["rank", "--gallery", gallery, "--encodings", photos, "--top", "3"]
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "visited_files.py", *asked], capture_output=True, text=True, check=True
    )
    walk = (ROOT / "ARCHITECTURE.md").read_text().split("## The way of `mien rank")[1].split("Those are all")[0]
    assert sorted(done.stderr.split()) == sorted(set(re.findall(r"`([a-z_/]+\.py)`", walk)))
    assert len(done.stderr.split()) <= 20


def test_every_error_is_a_mien_error():
    from mien import errors

    raised = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert all(issubclass(error, mien.MienError) for error in raised)


def test_every_equation_has_its_function():
    table = (ROOT / "docs" / "paper.md").read_text()
    rows = re.findall(r"^\| `([^`]+)`(?:, `([^`]+)`)? \| `(mien\.[a-z_.]+)\.([a-z_]+)` \|", table, flags=re.MULTILINE)
    assert len(rows) == 11
    for label, other_label, module, name in rows:
        function = getattr(__import__(module, fromlist=[name]), name)
        for text in filter(None, (label, other_label)):
            assert text in function.__doc__, f"{name} does not say that it is {text}"


class TestTheMapOfThePaper:
    """docs/paper.md against the paper, the experiments and the report."""

    page = (ROOT / "docs" / "paper.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| `([a-z:-]+)` \| `([a-z_]+)` \| ([^|]+) \|$", page, flags=re.MULTILINE)

    def test_no_table_figure_equation_or_note_is_missing(self):
        paper = ROOT.parent / "shared" / "paper" / "paper.tex"
        if not paper.exists():
            pytest.skip("the paper's source is not beside the project")
        labels = re.findall(r"\\label\{((?:fig|tbl|eq|supp)[^}]*)\}", paper.read_text())
        named = re.findall(r"`((?:fig|tbl|eq|supp):[a-z:-]+)`", self.page)
        assert sorted(named) == sorted(labels)

    def test_every_experiment_is_there_and_none_is_left_out(self):
        from mien.evaluation.experiments import EXPERIMENTS

        assert len(self.rows) == 20 + 14
        beyond = {"size_offset"}  # the paper has no such figure
        assert {experiment for _, _, experiment, _ in self.rows} == EXPERIMENTS.keys() - beyond

    def test_every_part_has_its_section_in_the_report(self):
        from mien.report.sections import SECTIONS

        sections = " ".join(section.paper for section in SECTIONS)
        for part, _, _, where in self.rows:
            assert re.search(rf"\b{re.escape(where)}\b", sections), part


def test_every_equation_beyond_the_paper_has_its_function():
    page = (ROOT / "docs" / "equations.md").read_text()
    named = re.findall(r"`(mien(?:\.[a-z0-9_]+)+)`", page)
    assert len(named) == 14
    for name in named:
        module, _, function = name.rpartition(".")
        assert callable(getattr(import_module(module), function)), name

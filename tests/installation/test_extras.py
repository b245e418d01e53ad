"""What each extra brings, and what mien says where one is missing."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mien.errors import MissingExtraError
from mien.extras import EXTRA_OF_MODULE, naming_the_missing_extra

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "without_modules.py"

WORK_WITH_NOTHING = [
    "--help",
    "gallery build gallery --encodings cohort.csv",
    "gallery describe gallery --disorders disorders.csv",
    "gallery info gallery",
    "gallery verify gallery",
    "rank --gallery gallery --encodings cohort.csv",
    "rank --gallery gallery --encodings cohort.csv --by gene --json",
    "rank --gallery gallery --encodings cohort.csv --out ranking.parquet",
    "gallery remove-patient gallery p1",
    "gallery export gallery --out gallery.parquet",
]
WORK_WITH = {
    "": [],
    "photos": ["weights list"],
    "service": ["weights list", "serve --help"],
    "study": ["evaluate --cohort cohort.csv --folds 2", "calibrate --help"],
}
ROOMS = {
    "": ["mien.core", "mien.storage", "mien.cli.main"],
    "photos": ["mien.encoding", "mien.cli.photos", "mien.simulation.photos"],
    "service": ["mien.service", "mien.encoding"],
    "study": ["mien.evaluation", "mien.simulation.study", "mien.report.reproduction", "mien.report.cohort"],
}
CLUSTER = "rank --gallery gallery --encodings cohort.csv --cluster local"
TRAIN = "train --preset m0 --base a.onnx --images . --train cohort.csv --val cohort.csv --out trained"
NEEDS = {  # command: what it says without the extra
    "serve --gallery gallery": "mien serve needs FastAPI: pip install 'mien[service]'",
    "demo --serve": "mien demo needs FastAPI: pip install 'mien[service]'",
    "encode a.jpg --out a.parquet": "mien encode needs OpenCV: pip install 'mien[photos]'",
    "rank --gallery gallery a.jpg": "mien rank needs OpenCV: pip install 'mien[photos]'",
    "gallery build new --photos . --metadata photos.csv": "mien gallery build needs OpenCV: pip install 'mien[photos]'",
    "weights list": "mien weights list needs OpenCV: pip install 'mien[photos]'",
    "calibrate --gallery gallery": "mien calibrate needs SciPy: pip install 'mien[study]'",
    "tune --gallery gallery": "mien tune needs SciPy: pip install 'mien[study]'",
    "evaluate --cohort cohort.csv --folds 2": "mien evaluate needs SciPy: pip install 'mien[study]'",
    "simulate simulated": "mien simulate needs SciPy: pip install 'mien[study]'",
    "reproduce --out report": "mien reproduce needs SciPy: pip install 'mien[study]'",
    "cohort cohort.csv --gallery gallery --out report": "mien cohort needs SciPy: pip install 'mien[study]'",
    "demo": "mien demo needs SciPy: pip install 'mien[study]'",
    CLUSTER: "mien rank needs Dask: pip install 'mien[cluster]'",
    TRAIN: "mien train needs PyTorch: pip install 'mien[train]'",
    "bench": "mien bench needs pandas: pip install 'mien[bench]'",
}
COHORT = """
import mien, numpy as np
faces = np.random.default_rng(1).standard_normal((12, 8))
ids = [str(number) for number in range(12)]
cohort = mien.Cohort.of(faces, image_ids=ids, patient_ids=ids, disorder_ids=list("abcd") * 3)
"""
CALLS = {
    "mien.encode(['a.jpg'])": "mien.encode needs OpenCV: pip install 'mien[photos]'",
    "mien.calibrate(cohort)": "mien.calibrate needs SciPy: pip install 'mien[study]'",
    "mien.cohort(cohort, cohort)": "mien.cohort needs SciPy: pip install 'mien[study]'",
    "mien.evaluate(cohort, folds=2)": "mien.evaluate needs SciPy: pip install 'mien[study]'",
    "mien.rank(cohort, cohort.queries())[0].to_pandas()": "Ranking.to_pandas needs pandas: pip install 'mien[bench]'",
}
BROUGHT = {"": set(), "photos": {"photos"}, "service": {"photos", "service", "study"}, "study": {"study"}}
# scikit-learn, which draws the page's map, brings most of `study` with it, but no figures
NEEDS_FIGURES = {"reproduce --out report": "mien reproduce needs matplotlib: pip install 'mien[study]'"}


@cache
def packages_of_modules():
    """Read once: it looks at the list of files of every package."""
    return packages_distributions()


@cache
def distributions(extra):
    """All that `mien[extra]` installs here, by name."""
    found, waiting = set(), [Requirement(f"mien[{extra}]" if extra else "mien")]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, *sorted(requirement.extras)) in found:
            continue
        found.add((name, *sorted(requirement.extras)))
        for line in distribution(name).requires or []:
            each = Requirement(line)
            if not each.marker or any(each.marker.evaluate({"extra": one}) for one in ("", *requirement.extras)):
                waiting.append(each)
    return {name for name, *_ in found}


@cache
def modules(extra):
    """The modules that `mien[extra]` brings."""
    return {
        module
        for module, names in packages_of_modules().items()
        if distributions(extra) & {canonicalize_name(name) for name in names}
    }


@pytest.fixture
def files(tmp_path):
    rows = "".join(f'{i},p{i // 2},d{i % 4},"[{i}.5, {i * i % 7}.0, {i % 4}.0]"\n' for i in range(24))
    (tmp_path / "cohort.csv").write_text(f"image_id,patient_id,disorder_id,embedding\n{rows}")
    (tmp_path / "disorders.csv").write_text("disorder_id,gene_symbol\nd0,A\nd1,B\nd2,C\nd3,D\n")
    (tmp_path / "photos.csv").write_text("image_id,subject,label\na.jpg,a,1\n")
    (tmp_path / "a.jpg").write_bytes(b"no photo")
    return tmp_path


def check_extra(extra, python, folder, hidden=()):
    """Everything works that the extra brings, and what it does not bring is named in one line."""
    missed = {
        "commands": {what: line for what, line in NEEDS.items() if extra_named(line) not in BROUGHT[extra]},
        "calls": {what: line for what, line in CALLS.items() if extra_named(line) not in BROUGHT[extra]},
    }
    missed["commands"] |= NEEDS_FIGURES if extra == "service" else {}
    working = WORK_WITH_NOTHING + WORK_WITH[extra]
    task = {
        "hidden": sorted(hidden),
        "rooms": ROOMS[extra],
        "commands": [shlex.split(command) for command in (*working, *missed["commands"])],
        "calls": [COHORT + call for call in missed["calls"]],
    }
    command = [python, "-P", SCRIPT, json.dumps(task)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    results = json.loads(run.stdout)
    for what, (code, said) in zip(working, results, strict=False):
        assert code == 0, f"mien {what}: {said}"
    told = results[len(working) :]
    assert dict(zip([*missed["commands"], *missed["calls"]], told, strict=True)) == {
        what: [1, line] for lines in missed.values() for what, line in lines.items()
    }


def extra_named(line):
    return re.search(r"mien\[(\w+)\]", line)[1]


@pytest.mark.parametrize(
    "extra",
    [pytest.param(extra, marks=pytest.mark.long if extra in {"photos", "study"} else ()) for extra in WORK_WITH],
)
def test_each_extra_works_alone_and_what_is_missing_is_named(extra, files):
    visible = modules(extra)
    hidden = {module for module in packages_of_modules() if module not in visible} | {"torch"}
    check_extra(extra, sys.executable, files, hidden - {"mien", "pip", "setuptools"})


@pytest.mark.long
@pytest.mark.parametrize("extra", WORK_WITH)
def test_each_extra_is_installed_alone_and_what_is_missing_is_named(extra, files, bundle):
    """The same with real environments, made of the bundle's wheels."""
    uv, python = [sys.executable, "-m", "uv"], bundle / "alone" / "bin" / "python"
    packages = ["--no-cache", "--no-index", "--find-links", bundle / "wheels", f"mien[{extra}]" if extra else "mien"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, bundle / "alone"], check=True)
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    check_extra(extra, python, files)


def test_every_module_that_is_imported_comes_with_the_package_or_with_its_extra():
    imported = set()
    for path in (ROOT / "src" / "mien").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported |= {name.partition(".")[0] for name in names}
    foreign = imported - set(sys.stdlib_module_names) - {"mien"}
    assert foreign - set(EXTRA_OF_MODULE) <= modules("")
    for module, (_, extra) in EXTRA_OF_MODULE.items():
        if extra != "train":
            assert module in modules(extra), f"{module} does not come with mien[{extra}]"
            assert module not in modules(""), f"{module} comes with mien alone"


def test_only_a_module_that_is_not_installed_is_a_missing_extra(monkeypatch):
    with pytest.raises(ModuleNotFoundError, match=r"scipy\.nothing") as raised, naming_the_missing_extra("x"):
        import scipy.nothing
    assert not isinstance(raised.value, MissingExtraError)
    with pytest.raises(ModuleNotFoundError, match="left"), naming_the_missing_extra("x"):
        raise ModuleNotFoundError("a file of it was left out", name="scipy")  # it is installed
    with pytest.raises(ModuleNotFoundError, match="nothing_of_mien"), naming_the_missing_extra("x"):
        import nothing_of_mien  # noqa: F401
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match="x needs SciPy: pip install"), naming_the_missing_extra("x"):
        import scipy  # noqa: F401

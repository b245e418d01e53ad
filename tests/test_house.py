"""The rules of the house: which room may look into which, what an import costs, what the documents promise."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mien
from mien.cli.main import main
from mien.encoding.store import DEFAULT, stored_encoder
from mien.service.audit import AuditLog
from mien.simulation.photos import DrawnPerson
from mien.storage.formats.cohort_parquet import write_cohort_parquet

from cohorts import families

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mien"
FLOORS = {  # imports point downwards only
    "cli": 5,
    "benchmark": 4,
    "service": 3,
    "cluster": 2,
    "report": 2,
    "training": 2,
    "encoding": 1,
    "evaluation": 1,
    "simulation": 1,
    "storage": 1,
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


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: path.name)
def test_the_core_knows_numpy_and_nothing_else(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for top in (name.split(".")[0] for name in names):
            if path.name == "answers.py" and top == "pyarrow":
                continue  # for whoever asks for a table
            if path.name == "byte_products.py" and top in {"numkong", "os"}:
                continue  # the one place that knows the machine's instructions and cores
            assert top in {"mien", "numpy", *sys.stdlib_module_names}
            assert top not in {"io", "logging", "os", "pathlib", "random", "sqlite3", "time"}


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
    from mien.core.scores.base import one_neighbour

    def written(score):
        lows = [f"above {each.low:g}," if each.above_low else f"{each.low:g}" for each in score.parameters]
        ranges = [
            f"`{each.name}` = {each.default:g} ({low} to {each.high:g})"
            for each, low in zip(score.parameters, lows, strict=True)
        ]
        cells = f"`{score.name}`", ", ".join(ranges), score.centroid or "none"
        images = "1" if score.neighbours is one_neighbour else "a share"
        return f"| {' | '.join(cells)} | {images} |".replace("|  |", "| |")

    table = [line for line in (ROOT / "docs" / "scores.md").read_text().splitlines() if line.startswith("| `")]
    assert table[: len(known_scores())] == [written(score) for score in known_scores().values()]


def test_the_architecture_names_files_that_exist():
    named = re.findall(r"`([a-z_/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert len(set(named)) > 25
    for name in named:
        assert [*PACKAGE.rglob(name), *ROOT.glob(name)], name
    walk = (ROOT / "ARCHITECTURE.md").read_text().split("## The way of `mien rank")[1].split("That is")[0]
    assert len({*re.findall(r"`([a-z_/]+\.py)`", walk)}) + 3 <= 20  # two files of formats/, one score


def test_every_error_is_a_mien_error():
    from mien.core import errors

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


@pytest.mark.parametrize("page", ["README.md", "docs/genes.md", "docs/operation.md"])
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    """Every `mien ...` line of its console blocks, in the order of the page, in a directory with files for it."""
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ mien (.+)$", (ROOT / page).read_text(), flags=re.MULTILINE)
    assert len(commands) >= 6
    if stored_encoder(DEFAULT).missing():  # as where there is no network: `make test` gets the weights
        commands = [one for one in commands if not re.search(r"weights get|photos|\.jpg|phenopacket", one)]
    write_example_files(tmp_path)
    write_example_photos(tmp_path)
    write_files_of_a_patient(tmp_path)
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["mien", *shlex.split(command)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, f"mien {command}: {capsys.readouterr().err}"


def write_files_of_a_patient(directory):
    """A cohort and somebody else, what is known of their disorders, a phenopacket, and what LIRICAL said."""
    rng = np.random.default_rng(1)
    for name, cohort in {
        "cohort": families(rng),
        "patient": families(rng, disorders=1, patients=1, prefix="new "),
    }.items():
        read = partial(np.take, cohort.embeddings, axis=0)
        write_cohort_parquet(directory / f"{name}.parquet", cohort.roster, cohort.encodings.encoder, read)
    genes = "".join(f"{kind}{n},OMIM:10000{n},G{n},{n},ENSG0000000000{n}\n" for n in range(8) for kind in ("", "d"))
    (directory / "disorders.csv").write_text(f"disorder_id,curie,gene_symbol,entrez_id,ensembl_id\n{genes}")
    packet = {"id": "1", "subject": {"id": "anna"}, "files": [{"uri": "new/front.jpg"}]}
    version = {"metaData": {"phenopacketSchemaVersion": "2.0.2"}}
    (directory / "packet.json").write_text(json.dumps(packet | version))
    columns = "rank\tdiseaseName\tdiseaseCurie\tpretestprob\tposttestprob\tcompositeLR"
    row = "1\tX\tOMIM:100001\t1/8000\t1.00%\t1.5"
    (directory / "lirical.tsv").write_text(f"! LIRICAL TSV Output (2.0.2)\n{columns}\n{row}\n")
    terms = {"observedPhenotypicFeatures": [{"query": "HP:0000508", "lr": 3.0}], "excludedPhenotypicFeatures": []}
    result = {"diseaseId": "OMIM:100001", "compositeLR": 30.0, **terms}
    content = {"analysisMetadata": {"liricalVersion": "2.0.2"}, "analysisResults": [result]}
    (directory / "lirical.json").write_text(json.dumps(content))
    pairs = [("0000252", "0000234"), ("0000369", "0000356"), ("0000508", "0030669")]
    edges = [{"sub": f"obo/HP_{child}", "pred": "is_a", "obj": f"obo/HP_{parent}"} for child, parent in pairs]
    (directory / "hp.json").write_text(json.dumps({"graphs": [{"edges": edges}]}))
    AuditLog(directory / "audit.jsonl").close()


def write_example_photos(directory):
    """A folder of portraits with its table, and two more of somebody in it; all of them drawn."""
    rng = np.random.default_rng(1)
    lines = ["image_id,subject,label"]
    for number in range(6):
        person = DrawnPerson.drawn(rng)
        lines.append(f"{number}.jpg,patient {number},disorder {number % 3}")
        names = [directory / "photos" / f"{number}.jpg"]
        names += [directory / "new" / name for name in ("front.jpg", "smile.jpg") if number == 0]
        for name in names:
            name.parent.mkdir(exist_ok=True)
            Image.fromarray(person.photo(rng)).save(name)
    (directory / "photos.csv").write_text("\n".join(lines) + "\n")


def write_example_files(directory):
    """The files that the README speaks of."""
    header = "img_name;model;flip;gray;class_conf;representations\n"
    rows = [
        f"{image}_rot_aligned.jpg;m{model};{flip};{gray};[0];[{image}.5, {model}.25, 1.0, {(image * 7) % 5}.0]\n"
        for image in range(1, 9)
        for model in range(3)
        for flip in (0, 1)
        for gray in (0, 1)
    ]
    (directory / "all_encodings.csv").write_text(header + "".join(rows))
    (directory / "gallery_images.csv").write_text(
        "image_id,subject,label\n" + "".join(f"{image},{100 + image // 2},{image % 3}\n" for image in range(1, 7))
    )
    (directory / "gmdb_syndromes.tsv").write_text("syndrome_id\tsyndrome_name\tOMIM\n0\tKabuki syndrome\t147920\n")
    (directory / "test_images.csv").write_text("image_id,subject\n7,201\n8,201\n")
    (directory / "cohort.csv").write_text(
        "image_id,patient_id,disorder_id,embedding\n"
        + "".join(f'{i},p{i // 2},d{i % 3},"[{i}.5, {i * i % 7}.0, 1.0]"\n' for i in range(24))
    )


def test_every_equation_beyond_the_paper_has_its_function():
    page = (ROOT / "docs" / "equations.md").read_text()
    named = re.findall(r"`(mien(?:\.[a-z0-9_]+)+)`", page)
    assert len(named) == 14
    for name in named:
        module, _, function = name.rpartition(".")
        assert callable(getattr(import_module(module), function)), name

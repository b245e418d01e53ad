"""What the documentation site shows and nobody writes by hand: a hook of mkdocs, named in mkdocs.yml.

The reference of commands comes from the command line itself, that of the HTTP API from the service's OpenAPI document,
the tutorial from a notebook that is run, and some pages from files beside docs/.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import numpy as np
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from typer.main import get_command

from mien import Cohort, Gallery
from mien.cli.main import app
from mien.service.app import service
from mien.service.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES_BESIDE_DOCS = {
    name: name.lower() for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}
SHOWN_FILES = {**PAGES_BESIDE_DOCS, "README.md": "index.md", "LICENSE": "LICENSE", "CITATION.cff": "CITATION.cff"}
SHOWN_FOLDERS = ("examples", "deploy")  # files that pages link to
KINDS = {
    "list[Path]": "PATH",
    "path": "PATH",
    "list[str]": "TEXT",
    "str": "TEXT",
    "int": "N",
    "float": "X",
    "int range": "N",
    "bool": "",
}
PIPE = r"\|"  # in a cell of a table
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")  # the path in [text](path#anchor)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and files that are made here."""
    document = openapi_document()
    made: dict[str, str | bytes] = {
        "reference/commands.md": commands_page(),
        "reference/http.md": http_page(document),
        "reference/openapi.json": json.dumps(document, indent=1),
        **tutorial(ROOT / "docs" / "tutorial.ipynb"),
    }
    linked = [path for folder in SHOWN_FOLDERS for path in (ROOT / folder).glob("*") if path.is_file()]
    beside = {**SHOWN_FILES, **{name: name for name in (path.relative_to(ROOT).as_posix() for path in linked)}}
    made |= {shown: (ROOT / name).read_text() for name, shown in beside.items() if shown != "index.md"}
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_others: Any) -> str:
    """Turns links between files of the project into links between pages of the site."""
    source = {shown: name for name, shown in PAGES_BESIDE_DOCS.items()}.get(page.file.src_uri)
    folder = "" if source else posixpath.dirname(f"docs/{page.file.src_uri}")

    def on_site(link: re.Match[str]) -> str:
        file = posixpath.normpath(posixpath.join(folder, link[1]))
        shown = SHOWN_FILES.get(file, file.removeprefix("docs/"))
        return posixpath.relpath(shown, posixpath.dirname(page.file.src_uri) or ".")

    return LINK.sub(on_site, markdown)


def tutorial(path: Path) -> dict[str, str | bytes]:
    """The notebook as a page, with the outputs of a run; an error in it ends the build."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}})
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", f"{folder}/kernel"  # socket files, where nobody else can listen
        client.execute()
    where = {"unique_key": "tutorial", "output_files_dir": "tutorial_files"}
    body, resources = MarkdownExporter().from_notebook_node(notebook, resources=where)
    return {"tutorial.md": body, **resources["outputs"]}


def commands_page() -> str:
    """Every command with its arguments, options, defaults and examples."""
    lines = ["# Commands", "", "Made from the program: this is what `mien COMMAND --help` says.", ""]
    for path, command in commands():
        lines += [f"## {path}", "", command.help or "", ""]
        if groups := getattr(command, "commands", {}):
            anchor = path.replace(" ", "-")
            lines += [f"- [`{path} {name}`](#{anchor}-{name}): {one.help}" for name, one in groups.items()] + [""]
        options = [each for each in command.params if not groups]
        if options:
            lines += [
                "| option | what it is |",
                "|---|---|",
                *(_option_row(each, typer.Context(command)) for each in options),
                "",
            ]
        if command.epilog:
            lines += ["```bash", *re.findall(r"^mien .+$", command.epilog, flags=re.MULTILINE), "```", ""]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, Any]]:
    """All commands and groups of commands, each with what is typed to reach it."""
    waiting = [("mien", get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        inner = [(f"{path} {name}", each) for name, each in getattr(command, "commands", {}).items()]
        waiting = inner + waiting
        if path != "mien":
            yield path, command


def _option_row(option: Any, context: typer.Context) -> str:
    """A row of the table of options: how it is written, and what it means."""
    written, meaning = option.get_help_record(context)
    if option.param_type_name == "argument":
        written = option.metavar or option.name.upper()
    for type_, shown in KINDS.items():
        written = written.replace(f"<{type_}>", shown)
    repeated = "  [can be repeated]" if getattr(option, "multiple", False) else ""
    return f"| `{written.replace('|', PIPE)}` | {(meaning + repeated).replace('|', PIPE)} |"


def openapi_document() -> dict[str, Any]:
    """What the service says about itself; the gallery behind it does not matter."""
    with TemporaryDirectory() as folder:
        ids = ["1", "2"]
        gallery = Cohort.of(np.eye(2), image_ids=ids, patient_ids=ids, disorder_ids=ids)
        Gallery.build(Path(folder) / "gallery", gallery)
        return service(Settings(Path(folder) / "gallery")).openapi()


def http_page(document: dict[str, Any]) -> str:
    """Every route with what it takes and gives, then the documents that answers are made of."""
    about = (
        "Made from the service's OpenAPI document, [openapi.json](openapi.json), which a running service has at"
        " `/openapi.json`. [The service](../service.md) says how to run it, who may ask what, and what errors mean."
    )
    lines = ["# HTTP API", "", about, ""]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}", "", route.get("description") or route.get("summary", ""), ""]
            lines += [f"- `{each['name']}` in the {each['in']}" for each in route.get("parameters", ())] + [""]
            for media, body in route.get("requestBody", {}).get("content", {}).items():
                lines += [f"Takes `{media}`:", "", *_fields(body["schema"]), ""]
            lines += ["| answer | | |", "|---|---|---|"]
            for status, answer in route["responses"].items():
                kinds = [(media, _type(of.get("schema", {}))) for media, of in answer.get("content", {}).items()]
                given = ", ".join(f"`{media}`: {kind}" if kind else f"`{media}`" for media, kind in kinds)
                lines.append(f"| {status} | {answer['description']} | {given} |")
            lines.append("")
    lines += ["## Documents", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += [f"### {name}", "", schema.get("description", ""), "", *_fields(schema), ""]
    return "\n".join(lines)


def _fields(schema: dict[str, Any]) -> list[str]:
    if "properties" not in schema:
        return [_type(schema)]
    needed = schema.get("required", ())
    rows = [
        f"| `{name}`{' (needed)' if name in needed else ''} | {_type(of)} | {_meaning(of)} |"
        for name, of in schema["properties"].items()
    ]
    return ["| field | type | what it is |", "|---|---|---|", *rows]


def _meaning(schema: dict[str, Any]) -> str:
    default = f" Default: `{schema['default']}`." if schema.get("default") is not None else ""
    return schema.get("description", "").replace("|", "\\|") + default


def _type(schema: dict[str, Any]) -> str:
    """A short name for the type of a value, with a link if it is a document of its own."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if choices := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
        return ", ".join(f"`{each}`" for each in choices)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {})) or 'values'}"
    if schema.get("title", "").endswith("Document"):
        return schema["title"]
    return {"binary": "file"}.get(schema.get("format", ""), schema.get("type", ""))

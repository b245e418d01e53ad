"""Writes requirements.lock: what `mien[all]` installs, each with its hashes. `--check` says whether it is current.

Current means, without a network: it was made for these requirements of pyproject.toml, and its versions satisfy them.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRA = "all"
COMPILE = ["uv", "pip", "compile", "pyproject.toml", "--extra", EXTRA]
OPTIONS = ["--universal", "--generate-hashes", "--fork-strategy", "fewest", "--no-header"]  # one version of each


def requirements(project: dict) -> list[str]:
    """All that pyproject.toml itself asks for `mien[all]`, by name."""
    found, waiting = set(project["dependencies"]), [EXTRA]
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(line)
            if requirement.name == "mien":
                waiting.extend(requirement.extras)
            else:
                found.add(line)
    return sorted(found)


def head(project: dict) -> str:
    """The first lines of the lock: what it is, and a hash of what it was made for."""
    asked = "\n".join([project["requires-python"], *requirements(project)])
    what = f"mien[{EXTRA}] with Python {project['requires-python']} on any platform"
    return (
        f"# Made by `make lock`: what is installed for {what}.\n"
        f"# Made for sha256:{hashlib.sha256(asked.encode()).hexdigest()}\n"
    )


def problems(project: dict, lock: str) -> list[str]:
    """Why a lock is not current; nothing if it is."""
    pins = re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", lock, re.MULTILINE)
    found = [] if lock.startswith(head(project)) else ["it was made for other requirements"]
    for requirement in map(Requirement, requirements(project)):
        versions = [version for name, version in pins if name == canonicalize_name(requirement.name)]
        if not versions or not all(requirement.specifier.contains(version) for version in versions):
            found.append(f"{requirement} is asked for, and {' and '.join(versions) or 'nothing'} is locked")
    found += ["it names a host"] * ("//" in lock)
    return found


def main() -> None:
    """Writes the lock, or checks it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if it is not current")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder with pyproject.toml")
    options = parser.parse_args()
    project = tomllib.loads((options.root / "pyproject.toml").read_text())["project"]
    path = options.root / "requirements.lock"
    if not options.check:
        lowest = project["requires-python"].removeprefix(">=")
        command = [sys.executable, "-m", *COMPILE, *OPTIONS, "--python-version", lowest]
        made = subprocess.run(command, cwd=options.root, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
        path.write_text(head(project) + made.stdout)
    if found := problems(project, path.read_text() if path.is_file() else ""):
        sys.exit("\n  ".join([f"{path.name} is not current: run `make lock`", *found]))


if __name__ == "__main__":
    main()

"""Runs commands of mien in one process that cannot see some modules; prints exit codes and last lines as JSON.

The argument is JSON, too: `hidden` modules, `rooms` to import whole, `commands`, and `calls` in Python.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pkgutil import walk_packages


class Visible:
    """A finder of modules that does not find the hidden ones."""

    def __init__(self, finder, hidden):
        self.finder, self.hidden = finder, hidden

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


def run_command(arguments):
    from mien.cli.main import main

    sys.argv = ["mien", *arguments]
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            main()
        except SystemExit as ended:
            return ended.code or 0, said.getvalue().strip()


def run_call(code):
    from mien import MienError

    try:
        exec(code, {})
    except MienError as error:
        return 1, str(error)
    return 0, ""


def import_room(name):
    room = import_module(name)
    for module in walk_packages(getattr(room, "__path__", []), f"{name}."):
        import_module(module.name)


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    sys.meta_path[:] = [Visible(finder, set(task["hidden"])) for finder in sys.meta_path]
    for name in task["rooms"]:
        import_room(name)
    runs = [run_command(command) for command in task["commands"]] + [run_call(call) for call in task["calls"]]
    json.dump(runs, sys.stdout)

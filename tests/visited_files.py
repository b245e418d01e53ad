"""Runs mien's command line, and prints the files of the package in which a function ran.

What runs during imports is not counted, nor what dataclasses and NamedTuples make for themselves.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import mien
from mien.cli.main import main

PACKAGE = str(Path(mien.__file__).parent)
visited = set()


def watch(frame, event, _):
    name = frame.f_code.co_filename
    if event != "call" or not name.startswith(PACKAGE) or name in visited:
        return
    above = frame
    while above is not None:
        if "importlib" in above.f_code.co_filename:
            return
        above = above.f_back
    visited.add(name)


if __name__ == "__main__":
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        main()
    except SystemExit as end:
        code = end.code
    sys.setprofile(None)
    sys.stderr.write(" ".join(Path(name).relative_to(PACKAGE).as_posix() for name in visited))
    sys.exit(code)

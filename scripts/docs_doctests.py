"""Shows doctests in docstrings as code: an extension of griffe, named in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .+(?:\n.+)*", flags=re.MULTILINE)


class FencedDoctests(griffe.Extension):
    """Puts a fence around each block that begins with >>>."""

    def on_object(self, *, obj: griffe.Object, **_others: Any) -> None:
        """Called for each object that was read."""
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(lambda found: f"```python\n{found[0]}\n```", obj.docstring.value)

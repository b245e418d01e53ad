"""The scores, one file each; other packages add theirs by the entry point `mien.scores`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from warnings import warn

from mien.core.scores.base import EVIDENCE_DISTANCES, Evidence, Parameter, Score
from mien.errors import InvalidMethodError

__all__ = ["EVIDENCE_DISTANCES", "Evidence", "Parameter", "Score", "known_scores", "own_scores", "score_named"]


@cache
def own_scores() -> dict[str, Score]:
    """The scores of this folder by name, one for each file."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return {module.SCORE.name: module.SCORE for module in modules if hasattr(module, "SCORE")}


@cache
def known_scores() -> dict[str, Score]:
    """All scores by name, those of installed packages too; a package that cannot be loaded is left out, and said."""
    from importlib.metadata import entry_points  # noqa: PLC0415 slow to load

    found = dict(own_scores())
    for point in entry_points(group="mien.scores"):
        try:
            score = _checked(point.load(), point.value)
            if score.name != point.name or score.name in found:
                raise InvalidMethodError(f"its name is {score.name!r}: name the entry point so, and no other score")  # noqa: TRY301
            found[score.name] = score
        except Exception as error:
            warn(f"the score {point.name} ({point.value}) is left out: {error}", stacklevel=2)
    return found


def score_named(name: str) -> Score:
    """The score of a name, or at `package.module:attribute`.

    >>> score_named("hybrid").parameters[0].name
    'lambda'
    """
    if found := own_scores().get(name) or known_scores().get(name):
        return found
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidMethodError(
            f"unknown score {name!r}: choose one of {', '.join(known_scores())}, or name your own as package:score"
        )
    try:
        return _checked(getattr(import_module(module), attribute), name)
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise InvalidMethodError(f"no score at {name!r}: {where} is not Python: {error.msg}") from error
    except (Exception, SystemExit) as error:  # whatever the module does when it is imported
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        advice = ": is the package installed, or on PYTHONPATH?" if missing else ""
        if "/" in module or module.startswith("."):
            advice = ": write the name of a module on PYTHONPATH, not a path"
        raise InvalidMethodError(f"no score at {name!r} ({error}){advice}") from error


def _checked(found: object, place: str) -> Score:
    if not isinstance(found, Score):
        raise InvalidMethodError(f"{place} is not a mien Score but {type(found).__name__}")
    return found

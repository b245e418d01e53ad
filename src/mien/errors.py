"""Every error that mien raises on purpose, as one tree under `MienError`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import Any

LISTED_PROBLEMS = 100
Box = tuple[int, int, int, int]  # left, top, right, bottom, in pixels of a photo


def shown(text: str, *, longest: int = 80) -> str:
    r"""Foreign text made safe to show: quoted, control and direction marks escaped, cut when long.

    >>> shown("patient 7")
    "'patient 7'"
    >>> shown("a\x00b\u202ec")
    "'a\\x00b\\u202ec'"
    """
    return repr(text if len(text) <= longest else text[:longest] + "…")


def shown_ids(ids: Iterable[str], *, most: int = 10) -> str:
    """Foreign ids made safe to show, the first ten of them.

    >>> shown_ids(["a", "b", "c"], most=2)
    "'a', 'b', …"
    """
    all_ids = list(ids)
    return ", ".join(map(shown, all_ids[:most])) + (", …" if len(all_ids) > most else "")


def listed(what: object, problems: Sequence[str], advice: str | None = None, *, most: int = LISTED_PROBLEMS) -> str:
    """The problems of one thing, up to a hundred, and what helps.

    >>> listed("a.csv", ["row 2: no label"])
    'a.csv: row 2: no label'
    """
    lines = list(problems[:most])
    if len(problems) > most:
        lines.append(f"… {len(problems)} problems in all")
    if advice:
        lines.append(advice)
    separator = " " if len(lines) == 1 else "\n  "
    return f"{what}:{separator}" + separator.join(lines)


class MienError(Exception):
    """The input was refused; the message says what was found where, and what to do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[MienError], args: tuple[Any, ...], fields: dict[str, Any]) -> MienError:
    """An error that travelled from another process, whatever its constructor takes."""
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class WrongArgumentError(MienError, TypeError):
    """A Python function was given something else than it takes."""


def require(argument: object, kind: type | UnionType, name: str, advice: str) -> None:
    """Refuses an argument of another kind, and says what to pass."""
    if not isinstance(argument, kind):
        raise WrongArgumentError(f"{type(argument).__name__} is no {name}: pass {advice}")


class InvalidMethodError(MienError, ValueError):
    """A method option outside its range, or a score that breaks its rules."""


@contextmanager
def naming_the_score(name: str) -> Iterator[None]:
    """Turns whatever somebody else's function raises into a line that says whose it is."""
    try:
        yield
    except Exception as error:
        raise InvalidMethodError(f"score {name!r} cannot be computed: {type(error).__name__}: {error}") from error


class MissingExtraError(MienError, ImportError):
    """A package is not installed that only some commands need; the message names the extra that brings it."""


class InvalidCohortError(MienError, ValueError):
    """Ids, labels or embeddings that contradict each other or cannot be compared."""


class InvalidStudyError(MienError, ValueError):
    """Folds that cannot be evaluated: a patient on both sides, a label without an embedding, nobody to test."""


class InvalidCalibrationError(MienError, ValueError):
    """A calibration, or what it is made of, does not fit."""


class EncoderMismatchError(MienError, ValueError):
    """Embeddings of two different encoders in one comparison."""


class EmptyGalleryError(MienError, ValueError):
    """A gallery without images cannot rank anything."""


class NotDescribedError(MienError, ValueError):
    """Genes were asked for, and nothing says which genes the gallery's disorders have."""


class InvalidFileError(MienError, ValueError):
    """A file that is not what it should be; every problem is listed, up to a hundred."""

    def __init__(self, file: object, problems: Sequence[str], *, advice: str | None = None) -> None:
        super().__init__(listed(file, problems, advice))


class InvalidPhotoError(MienError, ValueError):
    """A photo that cannot be encoded: not a picture, too large, damaged, no face, or several."""


class SeveralFacesError(InvalidPhotoError):
    """A photo on which more than one face could be meant; the user can choose one by its number."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.boxes = tuple(boxes)
        numbered = ", ".join(f"face {number} at {box}" for number, box in enumerate(self.boxes, start=1))
        super().__init__(f"{len(self.boxes)} faces: {numbered}: cut the photo, or choose one")


class DeviceError(MienError):
    """A device was asked for that networks cannot run on."""


class WeightsError(MienError):
    """Weights of an encoder that are missing, or not what they should be."""


class GalleryError(MienError):
    """A gallery directory that cannot be read or written."""


class CorruptGalleryError(GalleryError):
    """Stored bytes that no longer match their checksum."""


class GalleryBusyError(GalleryError):
    """Another process is writing to the gallery."""


class ClusterError(MienError):
    """A cluster that cannot be reached, or has lost what it needs."""

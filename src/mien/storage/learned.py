"""What was learned from a gallery and is stored with it: calibrations by method, and the tuned method.

It is kept in the database. Removing a patient deletes all of it: a patient's part in a number cannot be taken out.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mien.answers.calibration import Calibration
from mien.core.method import Method
from mien.errors import GalleryError, InvalidCalibrationError, shown
from mien.storage.database import LEARNED, connection, state, transaction

TUNED = "tuned method"


def calibration_name(method: Mapping[str, Any]) -> str:
    """Under which the calibration of a method is stored."""
    return f"calibration {json.dumps(dict(method), sort_keys=True)}"


def store_calibration(directory: Path, calibration: Calibration) -> None:
    """Stores a calibration in the place of an older one of the same method."""
    _store(directory, calibration.fingerprint, calibration_name(calibration.method), calibration.as_dict())


def store_tuned(directory: Path, fingerprint: str, method: Method, facts: Mapping[str, Any]) -> None:
    """Stores the method that was chosen for this gallery, and what is known of the choice."""
    _store(directory, fingerprint, TUNED, {"method": method.as_dict(), **facts})


def stored_calibration(learned: Mapping[str, str], method: Method, where: Path) -> Calibration | None:
    """The calibration of a method, if there is one."""
    name = calibration_name(method.as_dict())
    return Calibration.from_dict(parsed_document(name, learned[name], where)) if name in learned else None


def stored_tuned(learned: Mapping[str, str], where: Path) -> Method:
    """The method that was chosen for a gallery."""
    if TUNED not in learned:
        raise GalleryError("no method was tuned for this gallery: run 'mien tune' first")
    values = dict(parsed_document(TUNED, learned[TUNED], where)["method"])
    return Method(values.pop("fusion"), values.pop("score"), **values)


def parsed_document(name: str, stored: str, where: Path) -> dict[str, Any]:
    """A stored document. Its checksum covers its name too; documents of older versions have none."""
    checksum, _, text = ("", "", stored) if stored.startswith("{") else stored.partition(" ")
    try:
        if checksum and checksum != _checksum(name, text):
            raise ValueError("it does not match its checksum")  # noqa: TRY301 one message for all
        content: dict[str, Any] = json.loads(text)
    except ValueError as error:
        again = "run 'mien tune' again" if name == TUNED else "run 'mien calibrate' again"
        raise InvalidCalibrationError(f"{where}: the stored {shown(name)} is damaged ({error}): {again}") from error
    return content


def damaged_names(learned: Iterable[tuple[str, str]], where: Path) -> Iterator[tuple[str, InvalidCalibrationError]]:
    """The names of damaged documents, and what is wrong with each."""
    for name, stored in learned:
        try:
            parsed_document(name, stored, where)
        except InvalidCalibrationError as error:
            yield name, error


def _checksum(name: str, text: str) -> str:
    return f"{zlib.crc32(f'{name} {text}'.encode()):08x}"


def _store(directory: Path, fingerprint: str, name: str, document: Mapping[str, Any]) -> None:
    text = json.dumps(document)
    with connection(directory, write=True) as database, transaction(database):
        now = state(database)
        if now.fingerprint != fingerprint:
            raise GalleryError(f"{directory}: the gallery has changed meanwhile, nothing was stored: begin again")
        database.execute(LEARNED)
        for damaged, _ in damaged_names(now.learned, directory):
            database.execute("DELETE FROM learned WHERE name = ?", [damaged])
        database.execute("INSERT OR REPLACE INTO learned VALUES (?, ?)", [name, f"{_checksum(name, text)} {text}"])

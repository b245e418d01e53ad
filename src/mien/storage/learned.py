"""What was learned from a gallery and is stored with it: calibrations by method, and the tuned method.

It lies in the database, and is dropped when a patient is removed: their part in a learned number cannot be taken out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mien.core.calibration import Calibration
from mien.core.errors import GalleryError, InvalidCalibrationError
from mien.core.method import Method
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


def stored_calibration(learned: Mapping[str, str], method: Method) -> Calibration | None:
    """The calibration of a method, if there is one."""
    document = learned.get(calibration_name(method.as_dict()))
    return None if document is None else Calibration.from_dict(_parsed(document))


def stored_tuned(learned: Mapping[str, str]) -> Method:
    """The method that was chosen for a gallery."""
    if TUNED not in learned:
        raise GalleryError("no method was tuned for this gallery: run 'mien tune' first")
    values = dict(_parsed(learned[TUNED])["method"])
    return Method(values.pop("fusion"), values.pop("score"), **values)


def _parsed(document: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(document)
    except ValueError as error:
        raise InvalidCalibrationError(f"what is stored with the gallery is damaged ({error}): make it anew") from error
    return content


def _store(directory: Path, fingerprint: str, name: str, document: Mapping[str, Any]) -> None:
    with connection(directory, write=True) as database, transaction(database):
        if state(database).fingerprint != fingerprint:
            raise GalleryError(f"{directory}: the gallery has changed meanwhile, nothing was stored: begin again")
        database.execute(LEARNED)
        database.execute("INSERT OR REPLACE INTO learned VALUES (?, ?)", [name, json.dumps(document)])

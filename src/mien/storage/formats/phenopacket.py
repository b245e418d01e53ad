"""Phenopackets of version 2 (GA4GH): whom they are about, which diagnoses are known, and which photos they name.

Only what a ranking uses is read, with pydantic, from JSON in either spelling of protobuf; nothing is fetched.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from mien.errors import InvalidFileError, shown, shown_ids

PHOTOS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif"})


class _Message(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class _Term(_Message):
    id: str = Field(min_length=1)
    label: str = ""


class _Disease(_Message):
    term: _Term
    excluded: bool = False


class _Individual(_Message):
    id: str = Field(min_length=1)
    sex: Literal["UNKNOWN_SEX", "FEMALE", "MALE", "OTHER_SEX"] = "UNKNOWN_SEX"
    time_at_last_encounter: dict[str, Any] | None = None  # mostly an age; as it is written


class _File(_Message):
    uri: str = Field(min_length=1)
    individual_to_file_identifiers: dict[str, str] = {}
    file_attributes: dict[str, str] = {}

    def is_photo(self) -> bool:
        """Whether its name or an attribute says that it is a picture: packets name variant files too."""
        kinds = [Path(self.uri).suffix.lower(), *(f".{each.lower()}" for each in self.file_attributes.values())]
        return any(kind in PHOTOS or kind.startswith(".image/") for kind in kinds)


class _Packet(_Message):
    id: str = Field(min_length=1)
    subject: _Individual
    diseases: list[_Disease] = []
    files: list[_File] = []


class Phenopacket(NamedTuple):
    """One packet, and where it lies."""

    path: Path
    content: _Packet

    def as_dict(self) -> dict[str, Any]:
        """What an answer says of it: its id, the subject, and diagnoses that are known or excluded."""
        subject = self.content.subject
        seen = subject.time_at_last_encounter
        age = (seen or {}).get("age")
        return {
            "id": self.content.id,
            "subject": {"id": subject.id, "sex": subject.sex, "age": _duration(age), "timeAtLastEncounter": seen},
            "diseases": [{**each.term.model_dump(), "excluded": each.excluded} for each in self.content.diseases],
        }

    @property
    def in_words(self) -> str:
        """The same in a line."""
        facts = self.as_dict()
        known = [f"{'not ' * each['excluded']}{shown(each['label'] or each['id'])}" for each in facts["diseases"]]
        who = ", ".join(filter(None, (shown(facts["subject"]["id"]), facts["subject"]["sex"], facts["subject"]["age"])))
        return f"phenopacket {shown(facts['id'])}: {'; '.join([who, *known])}"

    def photos(self) -> list[Path]:
        """The photos of its subject, on this machine: named by a path from the packet's folder on, or by a file URI."""
        files = [file for file in self.content.files if file.is_photo()]
        found = [self._photo(file) for file in files]
        problems = [each for each in found if isinstance(each, str)]
        if not found:
            problems.append("it names no photo: give one in 'files', with 'individualToFileIdentifiers'")
        if problems:
            raise InvalidFileError(self.path, problems)
        return [each for each in found if isinstance(each, Path)]

    def _photo(self, file: _File) -> Path | str:
        """Where a photo is, or what is wrong with it."""
        own, parts = self.content.subject.id, urlsplit(file.uri)
        path = self.path.parent / (unquote(parts.path) if parts.scheme == "file" else file.uri)
        if others := sorted(file.individual_to_file_identifiers.keys() - {own}):
            who = f"{shown_ids(others)}, and the packet is about {shown(own)}"
            return f"the file {shown(file.uri)} is of {who}: an answer is about one individual"
        if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"}:
            return (
                f"the file {shown(file.uri)} is not on this machine, and nothing is fetched: save it and name its path"
            )
        return (
            path if path.is_file() else f"the file {shown(file.uri)} is not there: paths begin at the packet's folder"
        )


def _duration(age: Any) -> str | None:
    return age.get("iso8601duration") if isinstance(age, dict) else None


def read_phenopackets(path: Path) -> list[Phenopacket]:
    """A packet, or all that lie in a folder and below."""
    paths = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not paths:
        raise InvalidFileError(path, ["there is no phenopacket (.json) in this folder"])
    return [Phenopacket(each, _read(each)) for each in paths]


def _read(path: Path) -> _Packet:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidFileError(path, [f"{error.strerror}: check the path"]) from error
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(path, [f"it is not JSON ({error})"]) from error
    packet = content if isinstance(content, dict) else {}
    if several := [name for name in ("proband", "relatives", "members") if name in packet]:
        raise InvalidFileError(
            path, [f"it has {several[0]!r}, as a family or a cohort: give a packet of one individual"]
        )
    meta = packet.get("metaData", packet.get("meta_data"))
    version = (
        meta.get("phenopacketSchemaVersion", meta.get("phenopacket_schema_version")) if isinstance(meta, dict) else 0
    )
    if str(version).split(".")[0] != "2":
        said = (
            f"phenopacketSchemaVersion is {shown(str(version))}" if version else "there is no phenopacketSchemaVersion"
        )
        raise InvalidFileError(path, [f"{said}: mien reads phenopackets of version 2"])
    try:
        return _Packet.model_validate(packet)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise InvalidFileError(path, lines) from error

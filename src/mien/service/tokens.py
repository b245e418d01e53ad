"""The people who may use a service: a file with a line for each, which holds a hash of the token and never the token.

A line is `NAME SHA256 RIGHTS`, with commas between the rights. The hash is of the name and
the token. A token has 256 random bits: its hash tells nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mien.errors import InvalidFileError, MienError, shown, shown_ids
from mien.storage.outputs import private_file

RIGHTS = {
    "rank": "rank photos and embeddings",
    "embeddings": "get embeddings of photos, and exact distances to disorders of very few patients",
    "faces": "get the faces cut out of photos, and those that the gallery keeps",
    "gallery": "see what the gallery holds",
    "metrics": "read the service's metrics",
}
USUAL_RIGHTS = ("rank", "faces", "gallery")
GOOD_NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
LINE = re.compile(rf"({GOOD_NAME}) ([0-9a-f]{{64}}) ([a-z]+(?:,[a-z]+)*)")


class Person(NamedTuple):
    """Somebody who may use the service."""

    name: str | None  # None: there are no tokens
    rights: frozenset[str] = frozenset(RIGHTS)
    token_sha256: str = ""


ANYBODY = Person(None)
NOBODY = Person(None, frozenset())


class Asker(NamedTuple):
    """Who sent a request, and from where."""

    person: Person = ANYBODY
    address: str = ""

    @property
    def account(self) -> str:
        """Whom a request is counted for."""
        return self.person.name or self.address

    def may(self, right: str) -> bool:
        return right in self.person.rights


class People:
    """The holders of tokens. A file is read again when it has changed, so that a revoked token ends at once."""

    def __init__(self, holders: Iterable[Person] = (), path: Path | None = None) -> None:
        self.holders = tuple(holders)
        self.path = path
        self.lock = threading.Lock()
        self.read_at: tuple[int, ...] = ()
        self.newest()

    def newest(self) -> tuple[Person, ...]:
        """The people as they are now; raises if the file cannot be read: then nobody is let in."""
        if self.path is None:
            return self.holders
        status = self.path.stat()
        now = status.st_ino, status.st_size, status.st_mtime_ns
        with self.lock:
            if now != self.read_at:
                self.holders, self.read_at = tuple(read_people(self.path).values()), now
            return self.holders

    def holder_of(self, token: str) -> Person | None:
        """Who holds this token. All hashes are compared, so that the time tells nothing."""
        found = [each for each in self.newest() if hmac.compare_digest(each.token_sha256, hash_of(each.name, token))]
        return found[0] if found else None


def hash_of(name: str | None, token: str) -> str:
    """What is stored of a token. The name is part of it: with a damaged name, the audit log would blame another."""
    return hashlib.sha256(f"{name} {token}".encode()).hexdigest()


def read_people(path: Path) -> dict[str, Person]:
    """The people of a file, by name."""
    people: dict[str, Person] = {}
    problems = []
    for number, line in enumerate(private_text(path).splitlines(), start=1):
        match = LINE.fullmatch(line)
        rights = match[3].split(",") if match else []
        if not match or (unknown := set(rights) - RIGHTS.keys()):
            of = f" of the right {shown_ids(sorted(unknown))}" if match else ""
            problems.append(f"line {number} is not `NAME SHA256 RIGHTS`{of}")
        elif match[1] in people:
            problems.append(f"line {number}: {match[1]} is there twice")
        else:
            people[match[1]] = Person(match[1], frozenset(rights), match[2])
    if problems:
        raise InvalidFileError(path, problems, advice="make it with `mien tokens add`")
    return people


def private_text(path: Path) -> str:
    """The content of a file that nobody else can read or change."""
    text = path.read_text(encoding="ascii", errors="replace")
    if path.stat().st_mode & 0o077:
        raise MienError(f"{path}: others can read it: chmod 600 {path}")
    return text


def add_people(path: Path, names: Iterable[str], rights: Iterable[str]) -> dict[str, str]:
    """Adds people with new tokens, and returns the tokens by name: they are stored nowhere."""
    if unknown := sorted(set(rights) - RIGHTS.keys()):
        raise MienError(f"there is no right {shown_ids(unknown)}: give some of {', '.join(RIGHTS)}")
    if wrong := [name for name in names if not re.fullmatch(GOOD_NAME, name)]:
        raise MienError(f"{shown_ids(wrong)}: a name has up to 64 letters, digits and . _ @ -")
    tokens = {name: secrets.token_urlsafe(32) for name in names}
    with changed_people(path) as people:
        for name, token in tokens.items():
            if name in people:
                raise MienError(f"{path}: {name} has a token already: revoke it first")
            people[name] = Person(name, frozenset(rights), hash_of(name, token))
    return tokens


def revoke_people(path: Path, names: Iterable[str]) -> None:
    """Takes people out of the file; a service that runs notices it with the next request."""
    with changed_people(path) as people:
        for name in names:
            if people.pop(name, None) is None:
                raise MienError(f"{path}: there is no {shown(name)}: `mien tokens list` names all")


@contextmanager
def changed_people(path: Path) -> Iterator[dict[str, Person]]:
    """Yields the people of a file to be changed, and writes them in one step unless an error is raised."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # whoever changes it at the same time must not undo this
        people = read_people(path) if path.exists() else {}
        yield people
        with private_file(path) as file:  # what a killed process leaves has a fixed name, and the next one deletes it
            for person in people.values():
                rights = ",".join(right for right in RIGHTS if right in person.rights)
                file.write(f"{person.name} {person.token_sha256} {rights}\n".encode())
    finally:
        os.close(folder)

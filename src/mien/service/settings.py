"""The settings of a service; unsafe ones are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from mien.core.study import ImageFacts
from mien.errors import MienError, shown, shown_ids

GOOD_TOKEN = r"[!-~]{16,}"  # noqa: S105 what one looks like
HOST_NAME = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class SettingsError(MienError, ValueError):
    """Settings with which a service must not be started."""


@dataclass(frozen=True)
class Settings:
    """Where a service listens, whom it answers, and its limits."""

    gallery: Path
    host: str = "127.0.0.1"
    port: int = 5000
    token: str | None = None
    names: tuple[str, ...] = ()  # host names under which people reach it
    encoder: str | None = None  # of photos; None: the one that made the gallery
    device: str = "cpu"  # of the encoder: auto, cpu, cuda
    coarse: bool = False  # ranks and bands instead of distances
    links: bool = True  # to OMIM, Orphanet and GeneReviews, on the page; never where it is coarse
    facts_of_image: Mapping[str, ImageFacts] = field(
        default_factory=dict
    )  # sex and age, to say whom one is compared with
    audit: Path | None = None
    tokens: Path | None = None  # of people with a token each
    most_bytes: int = 64_000_000  # of a request
    most_photos: int = 20
    most_waiting: int = 16  # requests at a time; each may hold `most_bytes`
    most_requests: int = 200  # rankings of a person in an hour
    most_embeddings: int | None = None  # compared in these rankings; None: as many as fit the gallery's encoder
    seconds: float = 60  # to receive a request, and again to answer it

    def __post_init__(self) -> None:
        if self.address is None and not re.fullmatch(HOST_NAME, self.host):
            raise SettingsError(f"{shown(self.host)} is no address: give one, as 127.0.0.1 or ::1, or a name")
        if self.token is not None and self.tokens is not None:
            raise SettingsError("give --tokens for several people, or --token-file for one, not both")
        if not self.is_loopback and self.token is None and self.tokens is None:
            raise SettingsError(
                f"{self.host} can be reached by others: give a token (--token-file) or several (--tokens), or listen"
                " on 127.0.0.1"
            )
        if self.is_any and not self.names:
            raise SettingsError(f"{self.host} stands for any address: say under which name people come (--name)")
        if wrong := [name for name in self.names if not re.fullmatch(HOST_NAME, name)]:
            raise SettingsError(f"{shown_ids(wrong)}: a name is one like mien.clinic.example, without http:// and port")
        if self.token is not None and not re.fullmatch(GOOD_TOKEN, self.token):
            raise SettingsError("a token has at least 16 characters: letters, digits and signs of ASCII, no blanks")

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The host as an address; None for a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_any(self) -> bool:
        """Whether it listens on all addresses of the machine; "0" does as well."""
        return self.host == "0" if self.address is None else self.address.is_unspecified

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        return self.host == "localhost" if self.address is None else self.address.is_loopback

    @property
    def host_names(self) -> frozenset[str]:
        """The host names that a request may give, without the port."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return LOOPBACK_NAMES | {name.lower() for name in self.names} | (set() if self.is_any else {own.lower()})

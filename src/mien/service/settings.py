"""How a service is run; settings that would be unsafe do not exist."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from mien.core.errors import MienError

SHORTEST_TOKEN = 16
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 to be recognised, not to be listened on


class SettingsError(MienError, ValueError):
    """A service that must not be started this way."""


@dataclass(frozen=True)
class Settings:
    """Where a service listens, whom it answers, and how much it takes."""

    gallery: Path
    host: str = "127.0.0.1"
    port: int = 5000
    token: str | None = None
    names: tuple[str, ...] = ()  # under which people reach it, beside its address
    encoder: str | None = None  # for photos; None: the one that made the gallery
    coarse: bool = False  # ranks and bands instead of distances
    audit: Path | None = None
    most_bytes: int = 64_000_000  # of a request
    most_photos: int = 20
    most_waiting: int = 16  # requests under way; each may hold `most_bytes`
    seconds: float = 60  # to receive a request, and again to answer it

    def __post_init__(self) -> None:
        if not self.is_loopback and self.token is None:
            raise SettingsError(
                f"{self.host} can be reached by others: give a token (--token-file), or listen on 127.0.0.1"
            )
        if self.host in ANY_ADDRESS and not self.names:
            raise SettingsError(f"{self.host} stands for any address: say under which name people come (--name)")
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise SettingsError(f"the token is too easy to guess: at least {SHORTEST_TOKEN} ASCII characters")

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:  # a name
            return False

    @property
    def host_names(self) -> frozenset[str]:
        """What a request's Host may say, without the port."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return LOOPBACK_NAMES | {name.lower() for name in self.names} | ({own.lower()} - ANY_ADDRESS)

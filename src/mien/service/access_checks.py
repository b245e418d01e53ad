"""Checks Host, Origin, token and size of every request before its body is read; adds security headers to answers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network
from math import ceil
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mien.errors import MienError
from mien.service.problems import Problem, busy, problem_of
from mien.service.service_log import log_error
from mien.service.settings import Settings
from mien.service.tokens import ANYBODY, NOBODY, Asker, People, Person, hash_of
from mien.service.wrong_tokens import WrongTokens

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
SECURITY_HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "Cache-Control": "no-store",  # answers are about patients
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would hide the origin of our own forms
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NEEDED_RIGHT = {  # by how the path begins; the first that fits counts
    "/static/": None,
    "/openapi.json": None,
    "/v1/health": None,
    "/status": None,
    "/gallery": "gallery",
    "/v1/gallery": "gallery",
    "/v1/disorders/": "gallery",
    "/encode": "embeddings",
    "/crop": "faces",
    "/v1/faces/": "faces",
    "/v1/composites/": "faces",
    "/metrics": "metrics",
    "": "rank",
}


class AccessChecks:
    """ASGI middleware around all routes, static files included."""

    def __init__(self, app: ASGIApp, settings: Settings, people: People | None, rejected: Callable[[], None]) -> None:
        self.app = app
        self.rejected = rejected  # called for each wrong token
        self.settings = settings
        self.people = people
        self.wrong_tokens = WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self.check(scope)
            await self.app(scope, limited_receive(scope, receive, self.settings.most_bytes), send_with_headers)
        except (Exception, asyncio.CancelledError) as error:  # every failed request gets a problem document
            if started:
                raise
            problem = problem_of(error) if isinstance(error, Exception) else busy("the service is being stopped")
            await problem.response(scope, receive, send_with_headers)

    def check(self, scope: Scope) -> None:
        """Raises a problem for a request that is not allowed; stores who asks in the scope."""
        headers = Headers(scope=scope)
        check_origin(scope, headers, self.settings)
        address = address_group(scope["client"][0] if scope.get("client") else None)
        if self.people is None:
            person = ANYBODY
        elif scope["path"] == "/v1/health" and "authorization" not in headers:
            person = NOBODY  # a watchdog needs no token to see that the service lives
        else:
            person = self._holder(self.people, headers, address)
        scope["asker"] = Asker(person, address)
        right = next(right for begin, right in NEEDED_RIGHT.items() if scope["path"].startswith(begin))
        if right is not None and right not in person.rights:
            raise Problem(403, "no-right", f"{person.name} has not the right {right!r} here")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.settings.most_bytes:
            raise too_large(self.settings.most_bytes)

    def _holder(self, people: People, headers: Headers, address: str) -> Person:
        """The holder of the request's token; a problem if there is none, or if wrong tokens came before."""
        token = token_of(headers.get("authorization", ""))
        try:
            person = people.holder_of(token)
        except (MienError, OSError) as error:  # nobody is let in until it is mended
            log_error(error, "run 'mien tokens list'")
            raise Problem(500, "tokens-unreadable", "the file of tokens cannot be read; the log says why") from error
        if token and person is None:
            self.rejected()
        if token and (seconds := self.wrong_tokens.seconds_to_wait(address, person and person.token_sha256)):
            wait = {"Retry-After": str(ceil(seconds))}
            raise Problem(429, "wrong-tokens", "too many wrong tokens came from this address: wait", headers=wait)
        if person is None:
            asked = {"WWW-Authenticate": 'Basic realm="mien", charset="UTF-8"'}
            if token:
                self.wrong_tokens.count(address)
                unknown = "this token is not known (mistyped, or revoked)"
                raise Problem(401, "unknown-token", unknown, headers=asked)
            raise Problem(401, "no-token", "send the token as bearer token, or as password of any user", headers=asked)
        self.wrong_tokens.remember(address, person.token_sha256)
        return person


def address_group(address: str | None) -> str:
    """The address under which requests are counted: of IPv6 the /64, because a household or a clinic has a whole one.

    >>> address_group("2001:db8::7")
    '2001:db8::/64'
    """
    if not address or ":" not in address:
        return address or ""
    whole = IPv6Address(address.partition("%")[0])
    return str(whole.ipv4_mapped or IPv6Network((whole, 64), strict=False))


def people_of(settings: Settings) -> People | None:
    """Who may use the service; None: anybody."""
    if settings.token is not None:
        name = "token holder"
        return People([Person(name, token_sha256=hash_of(name, settings.token))])
    return None if settings.tokens is None else People(path=settings.tokens)


def check_origin(scope: Scope, headers: Headers, settings: Settings) -> None:
    """Raises a problem for a request to another name, or from the page of another site."""
    host = headers.get("host", "").lower()
    if host_name(host) not in settings.host_names:
        known = ", ".join(sorted(settings.host_names))
        raise Problem(400, "wrong-host", f"this service goes by the names {known}; others need --name")
    origin = headers.get("origin")
    foreign = origin is not None and not is_own(origin, host)
    reads_only = scope["method"] in {"GET", "HEAD"}
    if foreign or (not reads_only and headers.get("sec-fetch-site") in {"cross-site", "same-site"}):
        raise Problem(403, "foreign-origin", "pages of other sites must not use this service")


def is_own(origin: str, host: str) -> bool:
    """Whether an Origin header names this host.

    >>> is_own("https://mien.example:5000", "mien.example:5000"), is_own("http://[", "localhost")
    (True, False)
    """
    try:
        return urlsplit(origin).netloc.lower() == host
    except ValueError:  # no address at all
        return False


def too_large(most_bytes: int) -> Problem:
    return Problem(413, "too-large", f"a request has at most {most_bytes // 10**6} MB: send fewer or smaller photos")


def host_name(host: str) -> str:
    """A Host header without its port.

    >>> host_name("[::1]:5000"), host_name("localhost")
    ('[::1]', 'localhost')
    """
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host


def token_of(authorization: str) -> str:
    """The token in a header: `Bearer TOKEN`, or the password of `Basic`; empty where there is none.

    >>> token_of("Basic YW5uYTpzZWNyZXQ=")
    'secret'
    """
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:  # no base64, or no text
            return ""
    return ""


def limited_receive(scope: Scope, receive: Receive, most_bytes: int) -> Receive:
    """Counts a body while it arrives, and refuses one beyond the limit: it may come without its length."""
    scope["received_bytes"] = 0

    async def receive_counting() -> Message:
        message = await receive()
        scope["received_bytes"] += len(message.get("body", b""))
        if scope["received_bytes"] > most_bytes:
            raise too_large(most_bytes)
        return message

    return receive_counting

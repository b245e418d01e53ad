"""Checks Host, Origin, token and size of every request before its body is read; adds security headers to answers."""

from __future__ import annotations

import asyncio
import base64
import hmac
from binascii import Error as Base64Error
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mien.service.problems import Problem, busy, problem_of
from mien.service.settings import Settings

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
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class AccessChecks:
    """ASGI middleware around all routes, static files included."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers with a problem."""
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
            check_access(scope, self.settings)
            await self.app(scope, limited_receive(scope, receive, self.settings.most_bytes), send_with_headers)
        except (Exception, asyncio.CancelledError) as error:  # every failed request gets a problem document
            if started:
                raise
            problem = problem_of(error) if isinstance(error, Exception) else busy("the service is being stopped")
            await problem.response(scope, receive, send_with_headers)


def check_access(scope: Scope, settings: Settings) -> None:
    """Raises a problem for a request that is not allowed."""
    headers = Headers(scope=scope)
    host = headers.get("host", "").lower()
    if host_name(host) not in settings.host_names:
        known = ", ".join(sorted(settings.host_names))
        raise Problem(400, "wrong-host", f"this service goes by the names {known}; others need --name")
    origin = headers.get("origin")
    foreign = origin is not None and not is_own(origin, host)
    reads_only = scope["method"] in {"GET", "HEAD"}
    if foreign or (not reads_only and headers.get("sec-fetch-site") in {"cross-site", "same-site"}):
        raise Problem(403, "foreign-origin", "pages of other sites must not use this service")
    if settings.token is not None and not holds_token(headers.get("authorization", ""), settings.token):
        asked = {"WWW-Authenticate": 'Basic realm="mien", charset="UTF-8"'}
        raise Problem(401, "no-token", "send the token as bearer token, or as password of any user", headers=asked)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > settings.most_bytes:
        raise too_large(settings.most_bytes)


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
    """The problem of a body beyond the limit."""
    return Problem(413, "too-large", f"a request has at most {most_bytes // 10**6} MB: send fewer or smaller photos")


def host_name(host: str) -> str:
    """A Host header without its port.

    >>> host_name("[::1]:5000"), host_name("localhost")
    ('[::1]', 'localhost')
    """
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host


def holds_token(authorization: str, token: str) -> bool:
    """Whether the header holds the token, as `Bearer TOKEN` or as the password of `Basic`."""
    return hmac.compare_digest(credentials(authorization)[1].encode(), token.encode())


def credentials(authorization: str) -> tuple[str, str]:
    """The user, empty where none is named, and the token.

    >>> credentials("Basic YW5uYTpzZWNyZXQ=")
    ('anna', 'secret')
    """
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return "", value.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (Base64Error, UnicodeDecodeError, ValueError):
            return "", ""
        return user, password
    return "", ""


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

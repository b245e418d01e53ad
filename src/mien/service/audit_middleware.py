"""Writes every request into the audit log, before the answer is sent."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mien.service.audit import AuditLog
from mien.service.problems import busy
from mien.service.service_log import log_error

UNRECORDED = ("/static/", "/v1/health", "/status", "/metrics")  # they say nothing of anybody; refusals are recorded


class AuditMiddleware:
    """ASGI middleware around the access checks, so that refused requests are recorded as well."""

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self.app = app
        self.audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on. The answer is sent after the log is written."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        unrecorded_path = scope["path"].startswith(UNRECORDED)
        log_failed = False

        async def send_recorded(message: Message) -> None:
            nonlocal log_failed
            if message["type"] == "http.response.start" and not (unrecorded_path and message["status"] < 400):
                try:
                    await asyncio.to_thread(self.audit.write, "request", **facts_of(scope, message["status"]))
                except OSError as error:  # an answer that cannot be recorded is not given
                    log_error(error, "make room for the audit log, or mend its permissions")
                    log_failed = True
                    await busy("the audit log cannot be written").response(scope, receive, send)
            if not log_failed:
                await send(message)

        await self.app(scope, receive, send_recorded)


def facts_of(scope: Scope, status: int) -> dict[str, Any]:
    """Who asked which route, the status of the answer, and what `note_for_audit` added."""
    person, route = person_and_route(scope)
    client = scope.get("client")
    return {
        "client": client[0] if client else None,  # of the socket: headers are not believed
        "person": person,
        "method": scope["method"],
        "route": route,
        "status": status,
        **scope.get("audit", {}),
    }


def person_and_route(scope: Scope) -> tuple[str | None, str | None]:
    """The person whose token it is; and the route, not the path, which may hold anything."""
    asker = scope.get("asker")  # None: refused before it was known who asks
    return (asker.person.name if asker else None), getattr(scope.get("route"), "path", None)

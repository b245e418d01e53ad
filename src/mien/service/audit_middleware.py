"""Writes every request into the audit log, before the answer is sent."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mien.service.audit import AuditLog
from mien.service.problems import busy, log

UNRECORDED = ("/static/", "/v1/health", "/status")  # they say nothing of the gallery; refusals of them are recorded


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
                    log(error)
                    log_failed = True
                    await busy("the audit log cannot be written").response(scope, receive, send)
            if not log_failed:
                await send(message)

        await self.app(scope, receive, send_recorded)


def facts_of(scope: Scope, status: int) -> dict[str, Any]:
    """Who asked which route, the status of the answer, and what `note_for_audit` added."""
    asker = scope.get("asker")  # None: refused before it was known who asks
    route = getattr(scope.get("route"), "path", None)  # not the path, which may hold anything
    client = scope.get("client")
    return {
        "client": client[0] if client else None,  # of the socket: headers are not believed
        "person": asker.person.name if asker else None,
        "method": scope["method"],
        "route": route,
        "status": status,
        **scope.get("audit", {}),
    }

"""Records every request: in the audit log before the answer is sent, in the metrics and the service's log after it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mien.service.audit import AuditLog
from mien.service.metrics import Metrics
from mien.service.problems import busy
from mien.service.service_log import log_error, log_event

UNRECORDED = ("/static/", "/v1/health", "/status", "/metrics")  # they say nothing of anybody; refusals are recorded


class RequestRecords:
    """ASGI middleware around all others, so that refused requests are recorded as well."""

    def __init__(self, app: ASGIApp, metrics: Metrics, audit: AuditLog | None) -> None:
        self.app = app
        self.metrics = metrics
        self.audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, started = 500, time.perf_counter()  # where nothing is answered, uvicorn answers 500
        log_failed = False

        async def send_recorded(message: Message) -> None:
            nonlocal status, log_failed
            if log_failed:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                if self.audit and is_recorded(scope, status):
                    try:
                        await asyncio.to_thread(self.audit.write, "request", **audit_facts(scope, status))
                    except OSError as error:  # an answer that cannot be recorded is not given
                        log_error(error, "make room for the audit log, or mend its permissions")
                        log_failed, problem = True, busy("the audit log cannot be written")
                        status = problem.status
                        await problem.response(scope, receive, send)
                        return
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        finally:
            seconds = time.perf_counter() - started
            person, route = person_and_route(scope)
            self.metrics.count_request(route, status, seconds)
            if is_recorded(scope, status):
                level = logging.ERROR if status >= 500 else logging.INFO
                facts = {"route": route, "status": status, "milliseconds": round(1000 * seconds), "person": person}
                log_event("request", level=level, **facts)


def is_recorded(scope: Scope, status: int) -> bool:
    """Whether a request has a line in both logs."""
    return status >= 400 or not scope["path"].startswith(UNRECORDED)


def audit_facts(scope: Scope, status: int) -> dict[str, Any]:
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

"""Times every request, counts it in the metrics, and writes its line into the service's log."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mien.service.audit_middleware import UNRECORDED, person_and_route
from mien.service.metrics import Metrics
from mien.service.service_log import log_event


class RequestMonitor:
    """ASGI middleware around all others."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, started = 500, time.perf_counter()  # where nothing is answered, uvicorn answers 500

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, send_noted)
        finally:
            seconds = time.perf_counter() - started
            person, route = person_and_route(scope)
            self.metrics.count_request(route, status, seconds)
            if status >= 400 or not scope["path"].startswith(UNRECORDED):
                level = logging.ERROR if status >= 500 else logging.INFO
                facts = {"route": route, "status": status, "milliseconds": round(1000 * seconds), "person": person}
                log_event("request", level=level, **facts)

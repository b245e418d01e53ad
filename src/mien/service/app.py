"""Assembles the service: routes, access checks, the watch over the gallery, the audit log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from mien.answers.ranking import NOTICE
from mien.service.access_checks import AccessChecks, people_of
from mien.service.api import api_routes, face_routes
from mien.service.audit import AuditLog
from mien.service.galleries import ServedGallery
from mien.service.metrics import Metrics, metrics_routes
from mien.service.official_routes import official_routes
from mien.service.pages import page_routes
from mien.service.patient_ranker import DemoPatient, PatientRanker
from mien.service.problems import answer_problem
from mien.service.request_queue import RequestQueue
from mien.service.request_records import RequestRecords
from mien.service.service_log import log_event, service_log
from mien.service.settings import Settings
from mien.version import __version__


def service(settings: Settings, demo_patients: Mapping[str, DemoPatient] | None = None) -> FastAPI:
    """The application for an ASGI server. What cannot be served is refused here, before anything listens."""
    people = people_of(settings)
    queue = RequestQueue(most_waiting=settings.most_waiting, seconds=settings.seconds)
    gallery = ServedGallery(settings.gallery)
    metrics = Metrics(queue, gallery)
    ranker = PatientRanker(settings, gallery, queue, demo_patients or {}, metrics.rankings.inc)
    if demo_patients:
        gallery.want_map()
    audit = None if settings.audit is None else AuditLog(settings.audit)
    level = logging.WARNING if demo_patients else logging.INFO

    def record(event: str, generation: int) -> None:
        log_event(event, version=__version__, generation=generation)
        if audit is not None:
            audit.write(event, version=__version__, generation=generation)

    with service_log(level):
        record("started", gallery.newest().generation)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with service_log(level):
            watch = asyncio.create_task(gallery.watch(lambda generation: record("new generation", generation)))
            try:
                yield
            finally:
                watch.cancel()
                await asyncio.wait([watch])
                queue.close()
                if audit is not None:
                    with suppress(OSError):  # a full disk must not keep it from stopping
                        audit.write("stopped", version=__version__)
                    audit.close()
                log_event("stopped", version=__version__)

    app = FastAPI(
        title="mien", version=__version__, description=NOTICE, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.cannot_encode = ranker.cannot_encode
    app.include_router(page_routes(ranker))
    app.include_router(api_routes(ranker))
    app.include_router(face_routes(ranker))
    app.include_router(official_routes(ranker))
    app.include_router(metrics_routes(metrics))
    app.mount("/static", StaticFiles(packages=[("mien.service", "static")]))
    app.add_exception_handler(HTTPException, answer_problem)  # all other errors reach the access checks
    app.add_middleware(AccessChecks, settings=settings, people=people, rejected=metrics.rejected_logins.inc)
    app.add_middleware(RequestRecords, metrics=metrics, audit=audit)
    return app

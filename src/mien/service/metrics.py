"""Metrics of the service for Prometheus. No label names a person, a patient or anything that was sent."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from mien.service.galleries import ServedGallery
from mien.service.request_queue import RequestQueue
from mien.storage.gallery import Gallery

SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
NO_ROUTE = "none"  # refused before the route was known, a static file, or no such route

# when each series began would be a second series for each of them, and nobody needs it
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """What one service counts, in a registry of its own."""

    def __init__(self, queue: RequestQueue, gallery: ServedGallery) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("mien_requests", "Requests answered.", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "mien_request_seconds", "Seconds to the answer.", ["route"], registry=self.registry, buckets=SECONDS
        )
        self.rankings = Counter("mien_rankings", "Patients ranked.", registry=self.registry)
        self.rejected_logins = Counter("mien_rejected_logins", "Requests with a wrong token.", registry=self.registry)

        def gauge(name: str, about: str, value: Callable[[], float]) -> None:
            Gauge(name, about, registry=self.registry).set_function(value)

        def of_gallery(value: Callable[[Gallery], float]) -> Callable[[], float]:
            return lambda: nan if gallery.opened is None else value(gallery.opened)

        gauge("mien_queue_places", "Requests that can be under way at a time.", lambda: queue.most_waiting)
        gauge("mien_queue_places_in_use", "Requests under way.", lambda: queue.places_taken)
        gauge("mien_gallery_generation", "The served one; NaN: unreadable.", of_gallery(lambda g: g.generation))
        gauge("mien_gallery_images", "Images in the gallery.", of_gallery(lambda g: len(g.roster.image_ids)))
        gauge("mien_gallery_patients", "Patients in the gallery.", of_gallery(lambda g: len(g.roster.patient_ids)))
        gauge("mien_gallery_disorders", "Disorders in the gallery.", of_gallery(lambda g: len(g.roster.disorders)))

    def count_request(self, route: str | None, status: int, seconds: float) -> None:
        self.requests.labels(route or NO_ROUTE, status).inc()
        self.seconds.labels(route or NO_ROUTE).observe(seconds)


def metrics_routes(metrics: Metrics) -> APIRouter:
    routes = APIRouter()

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def read_metrics() -> Response:
        """What the service counts, in the text format of Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes

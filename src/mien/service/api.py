"""The API of version 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from mien.core.embeddings import mean_cosine_distance
from mien.core.roster import Roster
from mien.encoding.alignment import png_of
from mien.errors import shown
from mien.report.gallery import gallery_document
from mien.service.models import (
    DisorderAnswer,
    EmbeddingsQuery,
    GalleryAnswer,
    Health,
    PhotoOptions,
    ProblemDocument,
    RankAnswer,
)
from mien.service.patient_ranker import PatientRanker
from mien.service.problems import MEDIA_TYPE, Problem
from mien.service.requests import Form, answer_request, asker_of, json_response, read_form, read_json
from mien.service.tokens import Asker
from mien.storage.gallery import Gallery
from mien.version import __version__

MOST_ALIKE = 10
PROBLEM = {"content": {MEDIA_TYPE: {"schema": ProblemDocument.model_json_schema()}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "Refused, and why", **PROBLEM},
    "5XX": {"description": "Busy, or broken", **PROBLEM},
}
RANKED: dict[int | str, dict[str, Any]] = {200: {"model": RankAnswer}}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}
}
FORM = {
    "type": "object",
    "required": ["photos"],
    "additionalProperties": False,
    "properties": {
        "photos": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1},
        "face": {
            "type": "array",
            "items": {"type": "string", "pattern": "^(main|[1-9][0-9]{0,3})?$"},
            "description": "For each photo: a face's number from the left; 'main', the largest; empty, the only.",
        },
        **PhotoOptions.model_json_schema(by_alias=True)["properties"],
    },
}


def openapi_body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Describes the body in the OpenAPI document, for a route that reads its body itself."""
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


def api_routes(ranker: PatientRanker) -> APIRouter:
    routes = APIRouter(prefix="/v1", responses=PROBLEMS)
    queue, newest = ranker.queue, ranker.gallery.newest
    form = openapi_body("multipart/form-data", FORM)
    embeddings = openapi_body("application/json", EmbeddingsQuery.model_json_schema(by_alias=True))

    @routes.post("/rank", response_model=None, responses=RANKED, openapi_extra=form)
    async def rank_photos(request: Request) -> Response:
        """Rank disorders for the photos of one patient."""
        read = partial(read_form, settings=ranker.settings)
        return await answer_request(request, queue, read, lambda form: ranked_photos(ranker, asker_of(request), form))

    @routes.post("/rank/embeddings", response_model=None, responses=RANKED, openapi_extra=embeddings)
    async def rank_embeddings(request: Request) -> Response:
        """Rank disorders for the embeddings of one patient's photos."""
        return await answer_request(
            request, queue, read_json, lambda body: ranked_embeddings(ranker, asker_of(request), body)
        )

    @routes.get("/gallery", response_model=None, responses={200: {"model": GalleryAnswer}})
    async def gallery() -> Response:
        """What the gallery holds: counts, encoder, and its disorders."""
        return await queue.run_short(lambda: json_response(gallery_with_disorders(newest())))

    @routes.get("/disorders/{disorder_id:path}", response_model=None, responses={200: {"model": DisorderAnswer}})
    async def disorder(disorder_id: str) -> Response:
        """One disorder of the gallery, and those that look most like it."""
        return await queue.run_short(lambda: json_response(disorder_document(newest(), disorder_id)))

    @routes.get("/health", response_model=None, responses={200: {"model": Health}})
    async def health(request: Request) -> Response:
        """Whether the service can do its work; more than that only with a token, where there are tokens."""
        opened = await queue.run_short(newest)
        if not asker_of(request).person.rights:
            return json_response({"status": "ok"})
        document = {
            "status": "ok",
            "version": __version__,
            "generation": opened.generation,
            "encodes_photos": ranker.encoder is not None,
            "map_drawn": ranker.gallery.map_drawn,
            "under_way": queue.places_taken,
        }
        return json_response(document)

    return routes


def face_routes(ranker: PatientRanker) -> APIRouter:
    """The faces that a gallery keeps, and composites of them. The audit log names each one that was shown."""
    routes = APIRouter(prefix="/v1", responses={**PROBLEMS, **PICTURE})

    async def send_picture(request: Request, draw: Callable[[Gallery, str], bytes], what: str, which: str) -> Response:
        if ranker.settings.coarse:
            raise Problem(403, "coarse", "this service shows no faces of the gallery")
        picture = await ranker.queue.run_short(lambda: draw(ranker.gallery.newest(), which))
        request.scope["audit"] = {what: which}
        return Response(picture, media_type="image/png")

    @routes.get("/faces/{image_id:path}", response_model=None)
    async def face(request: Request, image_id: str) -> Response:
        """The aligned face on an image of the gallery."""
        return await send_picture(request, face_of, "image_id", image_id)

    @routes.get("/composites/{disorder_id:path}", response_model=None)
    async def composite(request: Request, disorder_id: str) -> Response:
        """The mean face of a disorder, of so many patients that it shows none of them."""
        return await send_picture(request, composite_of, "disorder_id", disorder_id)

    return routes


def ranked_photos(ranker: PatientRanker, asker: Asker, form: Form) -> dict[str, Any]:
    if not form.photos["photos"]:
        raise Problem(422, "no-photos", "send at least one photo in the field 'photos'")
    options = PhotoOptions.model_validate(form.fields)
    method, top = options.chosen_method, options.limit
    how = {"skip_refused": options.skip_refused, "by_gene": options.by == "gene"}
    return ranker.rank_photos(asker, form.photos["photos"], method, top, **how).document


def ranked_embeddings(ranker: PatientRanker, asker: Asker, body: bytes) -> dict[str, Any]:
    if ranker.settings.coarse:
        detail = "this service takes photos only: with made-up embeddings the gallery could be sounded out"
        raise Problem(403, "coarse", detail)
    asked = EmbeddingsQuery.model_validate_json(body)
    how = {"each_photo": asked.each_photo, "by_gene": asked.by == "gene"}
    return ranker.rank_query(asker, asked.query, asked.chosen_method, asked.limit, **how).document


def gallery_with_disorders(gallery: Gallery) -> dict[str, Any]:
    return {**gallery_document(gallery), "disorder_list": disorder_list(gallery.roster)}


def disorder_list(roster: Roster) -> list[dict[str, Any]]:
    return [disorder_entry(roster, place) for place in range(len(roster.disorders))]


def disorder_entry(roster: Roster, place: int) -> dict[str, Any]:
    disorder = roster.disorders[place]
    return {
        "disorder_id": disorder.disorder_id,
        "disorder_name": disorder.name,
        "omim": disorder.omim,
        "gallery_patients": int(roster.patients_of_disorder[place]),
        "gallery_images": int(roster.images_of_disorder[place]),
    }


def disorder_document(gallery: Gallery, disorder_id: str) -> dict[str, Any]:
    """A disorder, and those with the nearest centroids, the nearest first."""
    place = gallery.roster.disorder_of_id.get(disorder_id)
    if place is None:
        raise Problem(404, "unknown-disorder", f"the gallery holds no disorder {shown(disorder_id)}")
    rows = gallery.index.centroids("patient").exact[:]
    order = np.argsort(mean_cosine_distance(rows[place : place + 1], rows)[0], kind="stable").tolist()
    alike = [gallery.roster.disorders[other].disorder_id for other in order if other != place]
    entry = disorder_entry(gallery.roster, place)
    return {**entry, "generation": gallery.generation, "most_alike": alike[:MOST_ALIKE]}


def face_of(gallery: Gallery, image_id: str) -> bytes:
    face = gallery.faces.crop(image_id)
    if face is None:
        raise Problem(404, "no-face", f"the gallery keeps no face of image {shown(image_id)}")
    return face


def composite_of(gallery: Gallery, disorder_id: str) -> bytes:
    picture = gallery.faces.composite(disorder_id)
    if picture is not None:
        return png_of(picture)
    if disorder_id not in gallery.roster.disorder_of_id or not gallery.faces.count():
        raise Problem(404, "no-composite", f"the gallery keeps no faces, or holds no disorder {shown(disorder_id)}")
    patients = gallery.faces.composite_patients()
    detail = f"a composite shows {patients} patients or a multiple of that: this disorder has too few with faces"
    raise Problem(403, "too-few-patients", detail)

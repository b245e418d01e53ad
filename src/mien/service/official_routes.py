"""The routes of the official GestaltMatcher-Arc service, with the same JSON keys: its clients change the address only.

Three things differ: all photos are checked, errors have their own status, and the full method ranks.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from mien.core.cohort import Query
from mien.core.embeddings import VIEWS
from mien.core.method import FULL
from mien.encoding.alignment import png_of
from mien.encoding.photo_encoder import read_photo
from mien.report.gene_exports import official_answer
from mien.service.api import PROBLEMS, openapi_body
from mien.service.models import Base64Photo
from mien.service.patient_ranker import PatientRanker
from mien.service.problems import Problem
from mien.service.requests import Form, answer_request, asker_of, json_response, read_form, read_json
from mien.service.tokens import Asker
from mien.storage.formats.gm_arc import COLUMNS

FILE = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary"}},
}
AnswerPhoto = Callable[[PatientRanker, Asker, bytes], dict[str, Any]]


def official_routes(ranker: PatientRanker) -> APIRouter:
    routes = APIRouter(responses=PROBLEMS, tags=["as the official service"])
    base64_photo = openapi_body("application/json", Base64Photo.model_json_schema()), read_json, photo_of
    read_file = partial(read_form, settings=ranker.settings, names=["file"])
    file_photo = openapi_body("multipart/form-data", FILE), read_file, only_photo

    def add_route(path: str, answer: AnswerPhoto, sent_as: tuple[dict[str, Any], Any, Any]) -> None:
        body, read, photo = sent_as

        async def route(request: Request) -> Response:
            asker = asker_of(request)
            return await answer_request(request, ranker.queue, read, lambda body: answer(ranker, asker, photo(body)))

        routes.post(path, response_model=None, openapi_extra=body, summary=answer.__doc__)(route)

    add_route("/predict", predict, base64_photo)
    add_route("/predict_file", predict, file_photo)
    add_route("/encode", encode, base64_photo)
    add_route("/encode_file", encode, file_photo)
    add_route("/crop", crop, base64_photo)

    @routes.get("/status", response_model=None)
    async def status() -> Response:
        """Whether the service runs."""
        return json_response({"status": "running"})

    return routes


def photo_of(body: bytes) -> bytes:
    """The photo in a body of JSON."""
    text = Base64Photo.model_validate_json(body).img
    try:
        return base64.b64decode(text.partition("base64,")[2] or text, validate=True)
    except ValueError as error:
        raise Problem(422, "invalid-request", "img is not base64") from error


def only_photo(form: Form) -> bytes:
    if len(form.photos["file"]) != 1:
        raise Problem(422, "no-photos", "send one photo in the field 'file'")
    return read_photo(form.photos["file"][0].source)


def predict(ranker: PatientRanker, asker: Asker, content: bytes) -> dict[str, Any]:
    """All disorders and their genes for one photo, the closest first."""
    encoder = ranker.loaded_encoder()
    encoded = ranker.encode_one(content)
    query = Query(encoder.encodings_of([encoded]))
    answer = ranker.rank_query(asker, query, FULL, None, each_photo=False, by_gene=None)
    return official_answer(answer.document["queries"][0], encoder.encoder.as_dict(), answer.gallery.generation)


def encode(ranker: PatientRanker, _asker: Asker, content: bytes) -> dict[str, Any]:
    """The embeddings of one photo, as columns of the official frame."""
    if ranker.settings.coarse:  # with exact embeddings the gallery could be sounded out
        raise Problem(403, "coarse", "this service gives no embeddings")
    encoded = ranker.encode_one(content)
    models = [model.name for model in ranker.loaded_encoder().manifest.models]
    rows = [
        ("input", model, flip, gray, [0], encoded.embedding[number * len(VIEWS) + view].tolist())
        for number, model in enumerate(models)
        for view, (flip, gray) in enumerate(VIEWS)
    ]
    columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
    return {"encodings": {name: {str(row): value for row, value in enumerate(values)} for name, values in columns}}


def crop(ranker: PatientRanker, _asker: Asker, content: bytes) -> dict[str, Any]:
    """The aligned face of one photo, as PNG in base64."""
    return {"crop": base64.b64encode(png_of(ranker.crop_one(content))).decode()}

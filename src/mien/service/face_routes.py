"""The faces that a gallery keeps, and composites of them, as PNG. The audit log names each one that was shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from mien.encoding.alignment import png_of
from mien.errors import shown
from mien.service.api import PROBLEMS
from mien.service.patient_ranker import PatientRanker
from mien.service.problems import Problem
from mien.storage.gallery import Gallery

PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}
}


def face_routes(ranker: PatientRanker) -> APIRouter:
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

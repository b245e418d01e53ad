"""Photos as pages show them: facts, and pictures of the faces."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from mien.encoding.photo import Pixels, decode_photo
from mien.encoding.photo_encoder import Photo, RefusedPhoto, read_photo
from mien.errors import Box
from mien.report.photos import photo_document
from mien.service.patient_ranker import UploadResult

FACE_MARGIN = 0.25  # around a face that is offered to choose from, of its size
FACE_SIDE = 96


def photo_card(upload: UploadResult, *, pictures: bool) -> dict[str, Any]:
    """What a page says of a photo: its facts, the face that was encoded, or the faces to choose from."""
    photo, result, crop = upload
    boxes = result.boxes if isinstance(result, RefusedPhoto) else ()
    faces = [data_address(face) for face in faces_on(photo, boxes)] if pictures and boxes else [None] * len(boxes)
    return {
        **photo_document(result),
        "crop": data_address(crop) if pictures and crop is not None else None,
        "faces": [{"number": number, "crop": face} for number, face in enumerate(faces, start=1)],
    }


def faces_on(photo: Photo, boxes: Sequence[Box]) -> list[Pixels]:
    """Small pictures of the faces on a photo."""
    pixels = decode_photo(read_photo(photo.source))
    faces = []
    for left, top, right, bottom in boxes:
        margin = round(FACE_MARGIN * max(right - left, bottom - top))
        face = pixels[max(top - margin, 0) : bottom + margin, max(left - margin, 0) : right + margin]
        scale = FACE_SIDE / max(face.shape[:2])
        faces.append(cv2.resize(face, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))
    return faces


def data_address(picture: Pixels) -> str:
    """A picture as a data: address, which holds the whole JPEG file."""
    _, content = cv2.imencode(".jpg", np.ascontiguousarray(picture[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 90])
    return f"data:image/jpeg;base64,{base64.b64encode(content.tobytes()).decode()}"

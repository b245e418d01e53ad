"""What pages show beside the document of an answer: links, pictures of faces, marks, an order of names."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import cv2
import numpy as np

from mien.encoding.photo import Pixels, decode_photo
from mien.encoding.photo_encoder import Photo, RefusedPhoto, read_photo
from mien.errors import Box
from mien.report.photos import photo_document
from mien.report.rankings import PARTS
from mien.service.patient_ranker import UploadResult
from mien.storage.faces import Faces

ADDRESSES = {
    "OMIM": ("OMIM", "https://omim.org/entry/"),
    "OMIMPS": ("OMIM series", "https://omim.org/phenotypicSeries/PS"),
    "ORPHA": ("Orphanet", "https://www.orpha.net/en/disease/detail/"),
}
GENE_REVIEWS = "https://www.ncbi.nlm.nih.gov/books/NBK1116/?term="
FACE_MARGIN = 0.25  # around a face that is offered to choose from, of its size
FACE_SIDE = 96


def links_of(line: Mapping[str, Any]) -> list[dict[str, str]]:
    """Name and address of each page about a line's disorder: entries are found by number, GeneReviews by name.

    An address names the disorder, and nothing about the patient.

    >>> [link["name"] for link in links_of({"omim": "OMIM:147920", "disorder_name": "Kabuki syndrome"})]
    ['OMIM 147920', 'GeneReviews']
    """
    found = []
    for curie in (line.get("curie") or line["omim"] or "").split():
        prefix, _, number = curie.partition(":")
        if prefix in ADDRESSES and number.isascii() and number.isdecimal():
            name, address = ADDRESSES[prefix]
            found.append({"name": f"{name} {number}", "url": address + number})
    if line["disorder_name"]:
        found.append({"name": "GeneReviews", "url": GENE_REVIEWS + quote_plus(line["disorder_name"])})
    return found


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


def mark_faces(lines: Sequence[dict[str, Any]], faces: Faces) -> bool:
    """Marks cases that have a face and disorders that have a composite. Returns whether the gallery keeps any face."""
    if not faces.count():
        return False
    shown = faces.of_images(case["image_id"] for line in lines for case in line["nearest_cases"])
    composites = faces.of_disorders(line["disorder_id"] for line in lines)
    for line in lines:
        line["composite"] = line["disorder_id"] in composites
        line["nearest_cases"] = [{**case, "face": case["image_id"] in shown} for case in line["nearest_cases"]]
    return True


def natural_order(text: str) -> list[tuple[int, str]]:
    """Sorts names as people do.

    >>> sorted(["type 10", "Type 9"], key=natural_order)
    ['Type 9', 'type 10']
    """
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text.lower())]


def with_all_parts(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line for the page. Hidden parts of a distance are filled with the distance, so that no weight changes it."""
    missing = {name: line["distance"] for name in PARTS if name in line and line[name] is None}
    others = {key: [with_all_parts(one) for one in line[key]] for key in ("alone", "without") if key in line}
    return {**line, **missing, **others, "parts_hidden": bool(missing)}

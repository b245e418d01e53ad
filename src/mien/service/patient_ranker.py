"""Encodes and ranks what a request sends; all routes share this. It runs on threads, beside the event loop."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cv2
import numpy as np

from mien.core.cohort import Query
from mien.core.errors import Box, EncoderMismatchError, InvalidFileError, WeightsError, shown
from mien.core.examination import examine
from mien.core.method import FULL, Method
from mien.core.roster import Disorder
from mien.encoding.photo import Pixels, decode_photo
from mien.encoding.photo_encoder import EncodedPhoto, Photo, PhotoEncoder, RefusedPhoto, Result
from mien.encoding.quality import odd_pairs
from mien.encoding.store import encoder_for
from mien.encoding.subject import Choice, Subject
from mien.report.photos import photo_document
from mien.report.rankings import coarse_document, examination_document, ranking_document
from mien.service.disorder_map import place_of_patient
from mien.service.galleries import ServedGallery
from mien.service.problems import Problem
from mien.service.ranking_batcher import RankingBatcher
from mien.service.request_queue import RequestQueue
from mien.service.settings import Settings

LONGEST_NAME = 80
CANNOT_ENCODE = "photos cannot be ranked here: the gallery's encoder is not on this machine, the service's log says why"
FACE_MARGIN = 0.25  # around a face that is offered to choose from, of its size
FACE_SIDE = 96


class Upload(NamedTuple):
    """A photo as it was sent."""

    name: str
    content: bytes
    face: Choice = None


class UploadResult(NamedTuple):
    """What became of an upload, and the pictures that show it."""

    result: Result
    crop: Pixels | None  # the face that was encoded
    faces: tuple[Pixels, ...]  # to choose from, where several could be meant

    @property
    def card(self) -> dict[str, Any]:
        """The photo as the page shows it."""
        faces = [{"number": number, "crop": data_address(face)} for number, face in enumerate(self.faces, start=1)]
        crop = None if self.crop is None else data_address(self.crop)
        return {**photo_document(self.result), "crop": crop, "faces": faces}


class DemoPatient(NamedTuple):
    """A simulated patient to pick."""

    query: Query
    truth: Disorder


class Answer(NamedTuple):
    """A document for machines, and what only the page shows."""

    document: dict[str, Any]
    cards: list[dict[str, Any]]
    beside: dict[str, Any]


@dataclass(eq=False)
class PatientRanker:
    """Ranks photos, embeddings and simulated patients against the served gallery."""

    settings: Settings
    gallery: ServedGallery
    queue: RequestQueue
    demo_patients: Mapping[str, DemoPatient] = field(default_factory=dict)
    encoder: PhotoEncoder | None = field(init=False, default=None)
    cannot_encode: str = field(init=False, default="")
    batcher: RankingBatcher = field(init=False, default_factory=RankingBatcher)

    def __post_init__(self) -> None:
        of_gallery = self.gallery.newest().encoder
        try:
            self.encoder = encoder_for(of_gallery, self.settings.encoder).load()
        except (WeightsError, EncoderMismatchError, InvalidFileError) as error:
            if self.settings.encoder is not None:  # it was asked for
                raise
            self.cannot_encode = str(error)

    def rank_photos(
        self, uploads: Sequence[Upload], method: Method, top: int | None, *, skip_refused: bool = False
    ) -> Answer:
        """Ranks the photos of one patient; those that are refused end it, or are left out if that is wanted."""
        self.gallery.newest().index  # noqa: B018 an empty gallery is refused before the work
        encoder = self.loaded_encoder()
        encoded = self.encode_uploads(uploads)
        refused = [photo.result for photo in encoded if isinstance(photo.result, RefusedPhoto)]
        cards = [photo.card for photo in encoded]
        if refused and not (skip_refused and len(refused) < len(encoded)):
            raise refusal(refused, cards)
        encodings = encoder.encodings_of(photo.result for photo in encoded)
        answer = self.rank_query(Query(encodings, ids_are_file_names=True), method, top)
        answer.document["photos"] = [photo_document(photo.result) for photo in encoded]
        answer.document["warnings"] = odd_pairs(encodings, encoder.manifest.same_person_distance)
        return answer._replace(cards=cards)

    def rank_demo(self, patient_id: str, method: Method, top: int | None) -> Answer:
        """Ranks a simulated patient."""
        if patient_id not in self.demo_patients:
            raise Problem(422, "unknown-patient", f"there is no simulated patient {shown(patient_id)}: pick one")
        query, truth = self.demo_patients[patient_id]
        answer = self.rank_query(query, method, top)
        cards: list[dict[str, Any]] = [
            {"image_id": image_id, "encoded": True, "crop": None, "warnings": [], "faces": []}
            for image_id in query.encodings.image_ids
        ]
        named = {"disorder_id": truth.disorder_id, "disorder_name": truth.name}
        return answer._replace(cards=cards, beside={**answer.beside, "truth": named})

    def rank_query(self, query: Query, method: Method, top: int | None, *, each_photo: bool = True) -> Answer:
        """Ranks embeddings, with or without the evidence of each photo."""
        if self.settings.coarse and method != FULL:  # where a band ends, for several weights, tells the distances
            raise Problem(403, "coarse", "this service ranks by the full method only")
        gallery = self.gallery.newest()
        if not each_photo or method.fusion == "none":
            document = ranking_document(self.batcher.rank(gallery, query, method, top), gallery, method)
            return Answer(self.shown(document), [], {})
        with self.batcher.ranking_lock:
            examination = examine(gallery, query, method, top=top)
        document = self.shown(examination_document(examination, gallery, method))
        place = None if self.settings.coarse else place_of_patient(examination.ranking.disorders, self.gallery.map)
        here = None if place is None else dict(zip("xy", place, strict=True))
        points = self.gallery.points(gallery)
        return Answer(document, [], {"map": {"points": points, "place": here} if points else None, "truth": None})

    def shown(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document as this service may show it."""
        return coarse_document(document) if self.settings.coarse else document

    def loaded_encoder(self) -> PhotoEncoder:
        """The encoder, or a problem where photos cannot be ranked."""
        if self.encoder is None:
            raise Problem(409, "no-encoder", CANNOT_ENCODE)
        return self.encoder

    def encode_uploads(self, uploads: Sequence[Upload]) -> list[UploadResult]:
        """Finds and encodes the faces, spread over the cores."""
        names = unique_names(upload.name for upload in uploads)
        photos = [Photo(name, upload.content, upload.face) for name, upload in zip(names, uploads, strict=True)]
        return self.queue.run_on_cores(self._encode_photo, photos)

    def encode_one(self, content: bytes) -> tuple[EncodedPhoto, Pixels]:
        """One photo, which must do: the embedding, and the crop it was made of."""
        self.loaded_encoder()
        [(result, crop, faces)] = self.encode_uploads([Upload("input", content)])
        if isinstance(result, RefusedPhoto) or crop is None:
            assert isinstance(result, RefusedPhoto)
            raise refusal([result], [UploadResult(result, crop, faces).card])
        return result, crop

    def _encode_photo(self, photo: Photo) -> UploadResult:
        encoder = self.loaded_encoder()
        face = encoder.find_face(photo)
        [result] = encoder.encode_subjects([photo], [face])
        if isinstance(face, Subject):
            return UploadResult(result, face.crop, ())
        return UploadResult(result, None, tuple(faces_on(photo, face.boxes)))


def refusal(refused: Sequence[RefusedPhoto], cards: list[dict[str, Any]]) -> Problem:
    """Why photos could not be used; a page finds the cards of all of them beside it."""
    lines = [f"{shown(photo.image_id)}: {photo.reason}" for photo in refused]
    problem = Problem(
        422, "invalid-photos", "; ".join(lines), more={"photos": [photo_document(photo) for photo in refused]}
    )
    problem.cards = cards
    return problem


def unique_names(names: Iterable[str]) -> list[str]:
    r"""File names as clients send them, made safe to show and told apart; they never reach the file system.

    >>> unique_names(["C:\\me\\a.jpg", "../a.jpg", ""])
    ['a.jpg', 'a.jpg (2)', 'photo']
    """
    found: list[str] = []
    for name in names:
        last = re.split(r"[/\\]", name)[-1]
        safe = shown(last, longest=LONGEST_NAME)[1:-1] if not last.isprintable() else last[:LONGEST_NAME]
        base = safe.strip() or "photo"
        candidates = [base, *(f"{base} ({number})" for number in range(2, len(found) + 2))]
        found.append(next(candidate for candidate in candidates if candidate not in found))
    return found


def faces_on(photo: Photo, boxes: Sequence[Box]) -> Iterable[Pixels]:
    """Small pictures of the faces on a photo, for the user to choose from."""
    if not boxes:
        return
    assert isinstance(photo.source, bytes)
    pixels = decode_photo(photo.source)
    for left, top, right, bottom in boxes:
        margin = round(FACE_MARGIN * max(right - left, bottom - top))
        rows = slice(max(top - margin, 0), bottom + margin)
        columns = slice(max(left - margin, 0), right + margin)
        face = pixels[rows, columns]
        scale = FACE_SIDE / max(face.shape[:2])
        yield cv2.resize(face, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def data_address(picture: Pixels) -> str:
    """A picture as an address that a page can show without asking for it."""
    _, content = cv2.imencode(".jpg", np.ascontiguousarray(picture[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 90])
    return f"data:image/jpeg;base64,{base64.b64encode(content.tobytes()).decode()}"

"""Encodes and ranks what a request sends; all routes share this. It runs on threads, beside the event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mien.answers.examination import examine
from mien.answers.genes import genes_of
from mien.answers.ranking import Ranking
from mien.core.cohort import Query
from mien.core.method import FULL, Method
from mien.core.roster import Disorder
from mien.encoding.photo import Pixels
from mien.encoding.photo_encoder import EncodedPhoto, Photo, PhotoEncoder, RefusedPhoto, Result
from mien.encoding.quality import odd_pairs
from mien.encoding.store import encoder_for
from mien.encoding.subject import Subject
from mien.errors import EncoderMismatchError, InvalidFileError, WeightsError, shown
from mien.report.photos import photo_document
from mien.report.rankings import coarse_document, examination_document, ranking_document, rounded_document
from mien.service.budget import Budget, usual_embeddings
from mien.service.galleries import ServedGallery
from mien.service.problems import Problem
from mien.service.ranking_batcher import RankingBatcher
from mien.service.request_queue import RequestQueue
from mien.service.settings import Settings
from mien.service.tokens import Asker
from mien.storage.gallery import Gallery

CANNOT_ENCODE = "photos cannot be ranked here: the gallery's encoder is not on this machine, the service's log says why"
ONLY_PHOTO = "input"  # the name of a photo that comes without one


class UploadResult(NamedTuple):
    """The result of encoding a photo that was sent."""

    photo: Photo
    result: Result
    crop: Pixels | None  # the face that was encoded


class DemoPatient(NamedTuple):
    """A simulated patient to pick."""

    query: Query
    truth: Disorder


class Answer(NamedTuple):
    """A document for machines, and what a page is made of."""

    document: dict[str, Any]
    gallery: Gallery
    ranking: Ranking  # with exact distances, also where the document is coarse
    uploads: Sequence[UploadResult] = ()
    truth: Disorder | None = None  # of a simulated patient


@dataclass(eq=False)
class PatientRanker:
    """Ranks photos, embeddings and simulated patients against the served gallery."""

    settings: Settings
    gallery: ServedGallery
    queue: RequestQueue
    demo_patients: Mapping[str, DemoPatient] = field(default_factory=dict)
    count_ranking: Callable[[], None] = lambda: None
    encoder: PhotoEncoder | None = field(init=False, default=None)
    cannot_encode: str = field(init=False, default="")
    batcher: RankingBatcher = field(init=False, default_factory=RankingBatcher)
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        of_gallery = self.gallery.newest().encoder
        most_embeddings = self.settings.most_embeddings or usual_embeddings(of_gallery)
        self.budget = Budget(self.settings.most_requests, most_embeddings)
        try:
            self.encoder = encoder_for(of_gallery, self.settings.encoder).load(self.settings.device)
        except (WeightsError, EncoderMismatchError, InvalidFileError) as error:
            if self.settings.encoder is not None:  # it was asked for
                raise
            self.cannot_encode = str(error)

    def rank_photos(
        self,
        asker: Asker,
        photos: Sequence[Photo],
        method: Method,
        top: int | None,
        *,
        skip_refused: bool = False,
        by_gene: bool = False,
    ) -> Answer:
        """Ranks the photos of one patient. A refused photo is an error; with `skip_refused` it is left out."""
        self.gallery.newest().index  # noqa: B018 an empty gallery is refused before the photos are encoded
        encoder = self.loaded_encoder()
        results = self.encode_uploads(photos)
        refused = [upload for upload in results if isinstance(upload.result, RefusedPhoto)]
        if refused and not (skip_refused and len(refused) < len(results)):
            raise RefusedPhotosProblem(results)
        encodings = encoder.encodings_of(upload.result for upload in results)
        answer = self.rank_query(asker, Query(encodings), method, top, by_gene=by_gene)
        answer.document["photos"] = [photo_document(upload.result) for upload in results]
        answer.document["warnings"] = odd_pairs(encodings, encoder.manifest.same_person_distance)
        return answer._replace(uploads=results)

    def rank_demo(self, asker: Asker, patient_id: str, method: Method) -> Answer:
        """Ranks all disorders for a simulated patient."""
        if patient_id not in self.demo_patients:
            raise Problem(422, "unknown-patient", f"there is no simulated patient {shown(patient_id)}: pick one")
        query, truth = self.demo_patients[patient_id]
        return self.rank_query(asker, query, method, None)._replace(truth=truth)

    def rank_query(
        self,
        asker: Asker,
        query: Query,
        method: Method,
        top: int | None,
        *,
        each_photo: bool = True,
        by_gene: bool | None = False,
    ) -> Answer:
        """Ranks embeddings; with `each_photo`, also by each photo alone and by all but each.

        `by_gene` adds genes, without what each photo says; None: where the gallery's disorders are described.
        """
        if self.settings.coarse and method != FULL:  # the bands at several weights would tell the distances
            raise Problem(403, "coarse", "this service ranks by the full method only")
        if self.settings.token or self.settings.tokens:  # else only this machine can ask, and it has the gallery
            self.budget.spend(asker.account, query.encodings.embeddings)
        gallery = self.gallery.newest()
        by_gene = bool(gallery.descriptions) if by_gene is None else by_gene
        if not each_photo or by_gene or method.fusion == "none":
            rankings = self.batcher.rank(gallery, query, method, None if by_gene else top)
            rankings = genes_of(gallery, rankings, method, top) if by_gene else rankings
            document = ranking_document(rankings, gallery, method)
        else:
            with self.batcher.ranking_lock:
                examination = examine(gallery, query, method, top=top)
            rankings, document = [examination.ranking], examination_document(examination, gallery, method)
        self.count_ranking()
        if self.settings.coarse:
            document = coarse_document(document)
        elif not asker.may("embeddings"):
            document = rounded_document(document)
        return Answer(document, gallery, rankings[0])

    def loaded_encoder(self) -> PhotoEncoder:
        """The encoder, or a problem where photos cannot be ranked."""
        if self.encoder is None:
            raise Problem(409, "no-encoder", CANNOT_ENCODE)
        return self.encoder

    def encode_uploads(self, photos: Sequence[Photo]) -> list[UploadResult]:
        """Finds and encodes the face on each photo, spread over the cores."""
        encoder = self.loaded_encoder()

        def encode(photo: Photo) -> UploadResult:
            face = encoder.find_face(photo)
            [result] = encoder.encode_subjects([photo], [face])
            return UploadResult(photo, result, face.crop if isinstance(face, Subject) else None)

        return self.queue.run_on_cores(encode, photos)

    def encode_one(self, content: bytes) -> EncodedPhoto:
        """Encodes a single photo; raises a problem where it is refused."""
        [upload] = self.encode_uploads([Photo(ONLY_PHOTO, content)])
        if isinstance(upload.result, RefusedPhoto):
            raise RefusedPhotosProblem([upload])
        return upload.result

    def crop_one(self, content: bytes) -> Pixels:
        """The aligned face of a single photo; raises a problem where none can be encoded."""
        encoder, photo = self.loaded_encoder(), Photo(ONLY_PHOTO, content)
        [face] = self.queue.run_on_cores(encoder.find_face, [photo])
        if isinstance(face, RefusedPhoto):
            raise RefusedPhotosProblem([UploadResult(photo, face, None)])
        return face.crop


class RefusedPhotosProblem(Problem):
    """Photos that could not be used. The document names the refused ones; a page shows all of them."""

    def __init__(self, uploads: Sequence[UploadResult]) -> None:
        refused = [upload.result for upload in uploads if isinstance(upload.result, RefusedPhoto)]
        lines = [f"{shown(photo.image_id)}: {photo.reason}" for photo in refused]
        documents = [photo_document(photo) for photo in refused]
        super().__init__(422, "invalid-photos", "; ".join(lines), more={"photos": documents})
        self.uploads = uploads

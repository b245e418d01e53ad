"""What requests and answers look like, checked on the way in and described in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, FailFast, Field, create_model

from mien.core.cohort import Encodings, Query
from mien.core.embeddings import Encoder
from mien.core.method import FUSIONS, NAMED_METHODS, Method, method_of
from mien.core.scores import Parameter, known_scores
from mien.errors import InvalidCohortError

MOST_IMAGES = 100  # of a query of embeddings
Id = Annotated[str, Field(min_length=1, max_length=200)]
Vector = Annotated[list[float], FailFast(), Field(min_length=1, max_length=8192)]
Representations = Annotated[list[Vector], FailFast(), Field(min_length=1, max_length=64)]


PARAMETERS = {each.name: each for score in known_scores().values() for each in score.parameters}


def _one_of(names: Iterable[str], description: str) -> Any:
    """A choice: a request may name nothing else, least of all code to run."""
    return Literal[tuple(names)] | None, Field(None, description=description)


def _number(parameter: Parameter) -> Any:
    limits: dict[str, Any] = {"gt" if parameter.above_low else "ge": parameter.low, "le": parameter.high}
    return float | None, Field(None, alias=parameter.name, description=parameter.help, **limits)


MethodFields: Any = create_model(
    "MethodFields",
    __config__=ConfigDict(extra="forbid", populate_by_name=True),
    method=_one_of(NAMED_METHODS, "A named method, instead of its parts."),
    fusion=_one_of(FUSIONS, "How the photos of a query are combined."),
    score=_one_of(known_scores(), "How a disorder is scored."),
    **{each.keyword: _number(each) for each in PARAMETERS.values()},
)


class Options(MethodFields):  # type: ignore[misc]
    """How to rank; without any, the full method."""

    top: Annotated[int, Field(ge=1, le=100_000)] | Literal["all"] = Field(10, description="How many disorders to list.")
    by: Literal["disorder", "gene"] = Field("disorder", description="gene: also genes, not what each photo says.")

    @property
    def chosen_method(self) -> Method:
        """The method that the options describe."""
        parameters = {each.name: getattr(self, each.keyword) for each in PARAMETERS.values()}
        return method_of(self.method, self.fusion, self.score, parameters)

    @property
    def limit(self) -> int | None:
        """How many disorders; None for all."""
        return None if self.top == "all" else self.top


class PhotoOptions(Options):
    """How to rank photos."""

    skip_refused: bool = Field(default=False, description="Rank without photos that are refused.")


class EmbeddingsQuery(Options):
    """Raw embeddings of the photos of one patient."""

    embeddings: Annotated[list[Representations], FailFast()] = Field(
        min_length=1,
        max_length=MOST_IMAGES,
        description="Images x representations x dimensions, as the encoder gave them.",
    )
    image_ids: list[Id] | None = Field(None, description="Ids in the gallery's terms, if the images have any.")
    patient_id: Id | None = Field(None, description="The patient, who is left out of the gallery.")
    encoder: Id | None = Field(None, description="The encoder's name; another one than the gallery's is refused.")
    each_photo: bool = Field(
        default=False, description="Also say what each photo says alone, and what the others say without it."
    )

    @property
    def query(self) -> Query:
        """The query of these embeddings."""
        shapes = {(len(image), *{len(vector) for vector in image}) for image in self.embeddings}
        if len(shapes) > 1 or len(next(iter(shapes))) > 2:
            raise InvalidCohortError("embeddings of different shapes: all need the same representations and dimensions")
        with np.errstate(over="ignore"):  # an infinite value is refused by name
            arrays = np.array(self.embeddings, dtype=np.float32)
        ids = self.image_ids or [f"query image {number + 1}" for number in range(len(arrays))]
        if len(ids) != len(arrays):
            raise InvalidCohortError(f"{len(ids)} image_ids for {len(arrays)} embeddings: give one for each")
        encoder = Encoder(arrays.shape[1], arrays.shape[2], self.encoder)
        return Query(Encodings.of(ids, arrays, encoder, ids_are_file_names=self.image_ids is None), self.patient_id)


class Base64Photo(BaseModel):
    """A photo as clients of the official service send it."""

    img: str = Field(min_length=1, description="The file's bytes in base64.")


class Tool(BaseModel):
    """What made an answer."""

    name: str
    version: str


class GalleryState(BaseModel):
    """Which gallery an answer comes from."""

    generation: int
    images: int
    patients: int
    disorders: int
    encoder: dict[str, Any] | None


class Standing(BaseModel):
    """Where a disorder stands in a list made of other photos."""

    rank: int
    distance: float | None = None
    nearest_distance: float | None = None
    centroid_distance: float | None = None


class Case(BaseModel):
    """One of the nearest gallery patients of a disorder."""

    patient_id: str
    image_id: str
    distance: float | None = None


class RankedLine(Standing):
    """What lines of disorders and of genes have in common. Coarse services give a band instead of distances."""

    disorder_id: str
    disorder_name: str | None
    curie: str | None = Field(None, description="In OMIM, Orphanet or elsewhere, where the disorders are described.")
    band: str | None = None
    nearest_image_id: str
    nearest_patient_id: str
    gallery_images: int
    gallery_patients: int
    probability: float | None = Field(None, description="With a calibration; of all disorders and none of these, one.")
    log10_likelihood_ratio: float | None = Field(
        None, description="Against a disorder that is not in the gallery, before the prior; capped."
    )


class RankedDisorder(RankedLine):
    """A line of the answer."""

    omim: str | None
    nearest_cases: list[Case] | None = None
    alone: list[Standing] | None = Field(None, description="By each photo alone, in the order of image_ids.")
    without: list[Standing] | None = Field(None, description="By all photos but this one.")


class RankedGene(RankedLine):
    """A gene, and its nearest disorder; those as far away have the same rank."""

    gene_symbol: str | None = Field(description="null for a disorder without a gene.")
    entrez_id: str | None
    hgnc_id: str | None
    ensembl_id: str | None
    disorder_ids: list[str] = Field(description="All disorders of this gene; its probability is that of any of them.")


class RankedQuery(BaseModel):
    """The answer to one query."""

    patient_id: str | None
    image_ids: list[str]
    excluded_gallery_patients: list[str] = Field(description="The query's own patient, if the gallery holds it.")
    disorders: list[RankedDisorder]
    none_of_these: float | None = Field(None, description="Probability that the disorder is not in the gallery.")
    prediction_set: dict[str, Any] | None = Field(None, description="Coverage, and the ids of the disorders.")
    calibration: dict[str, Any] | None = Field(None, description="What stands behind the probabilities.")
    genes: list[RankedGene] | None = Field(None, description="The closest first, if they were asked for.")
    not_described: list[str] | None = Field(None, description="Disorders of which nobody said what genes they have.")


class RankAnswer(BaseModel):
    """Ranked disorders with their evidence, as `mien rank --json` prints them."""

    model_config = ConfigDict(extra="forbid")

    tool: Tool
    method: dict[str, Any]
    gallery: GalleryState
    queries: list[RankedQuery]
    photos: list[dict[str, Any]] | None = Field(None, description="What was seen on each photo, or why it was refused.")
    warnings: list[str] | None = None
    bands: dict[str, str] | None = None
    notice: str


class DisorderState(BaseModel):
    """A disorder of the gallery."""

    disorder_id: str
    disorder_name: str | None
    omim: str | None
    gallery_patients: int
    gallery_images: int


class GalleryAnswer(GalleryState):
    """The gallery with its disorders."""

    tool: Tool
    patients_with_several_images: int
    patients_with_two_disorders: int
    patients_per_disorder: dict[str, float] | None
    images_per_disorder: dict[str, float] | None
    learned: list[str] = Field(description="What is stored beside it: calibrations by method, the tuned method.")
    described_disorders: int = Field(description="Of which it is known what genes they have, or that they have none.")
    bytes_on_disk: int
    faces_kept: int
    disorder_list: list[DisorderState]


class DisorderAnswer(DisorderState):
    """A disorder, and those that look most like it."""

    generation: int
    most_alike: list[str] = Field(description="Ids of the disorders with the nearest centroids, the nearest first.")


class Health(BaseModel):
    """Whether the service can do its work."""

    status: Literal["ok"]
    version: str | None = Field(None, description="This and all else only with a token, where there are tokens.")
    generation: int | None = None
    encodes_photos: bool | None = None
    map_drawn: bool | None = Field(
        None, description="Whether this generation's map is drawn. False until a page is opened."
    )
    under_way: int | None = Field(None, description="Requests that are being worked on.")


class ProblemDocument(BaseModel):
    """What every error looks like (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None
    photos: list[dict[str, Any]] | None = None

"""Describes an encoder: a detector and one or more networks, each with its file, hash and input scaling."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from mien.core.arrays import Float32s
from mien.core.embeddings import VIEWS, Encoder, representation_name
from mien.encoding.photo import Pixels

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}\.onnx$")]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Channels = Literal["RGB", "BGR"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scaling(_Part):
    """How pixels 0 to 255 become a network's input: (pixel - mean) / deviation, per channel and in this order."""

    channels: Channels
    mean: tuple[Finite, Finite, Finite]
    deviation: tuple[Positive, Positive, Positive]

    def scaled(self, pictures: Pixels) -> Float32s:
        """RGB pictures (images, height, width, 3) as a batch (images, 3, height, width)."""
        images, height, width, _ = pictures.shape
        batch = np.empty((images, 3, height, width), dtype=np.float32)
        for place, channel in enumerate(self.channels):
            np.subtract(pictures[..., "RGB".index(channel)], np.float32(self.mean[place]), out=batch[:, place])
            if self.deviation[place] != 1:
                batch[:, place] /= np.float32(self.deviation[place])
        return batch


class Origin(_Part):
    """The file inside a published package that a network is made from."""

    package: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+==[0-9.]+$")]
    package_sha256: Sha256
    path: str  # inside the package
    sha256: Sha256
    network: str  # which kind: a key of NETWORKS


class NetworkFile(_Part):
    """A network on disk. It has no hash until its file is there."""

    file: FileName
    sha256: Sha256 | None = None
    input: Scaling
    licence: str
    source: str
    made_from: Origin | None = None


AnyPart = TypeVar("AnyPart", bound=NetworkFile)


class DetectorManifest(NetworkFile):
    """A RetinaFace detector: boxes, confidences and landmarks over the anchors of three scales."""

    longer_side: Annotated[int, Field(ge=64, le=4096)]
    strides: tuple[Annotated[int, Field(ge=1)], ...]
    anchor_sizes: tuple[tuple[Annotated[int, Field(ge=1)], ...], ...]
    variances: tuple[Positive, Positive]

    @model_validator(mode="after")
    def _check_scales(self) -> Self:
        if len(self.strides) != len(self.anchor_sizes):
            raise ValueError("strides and anchor_sizes are of different numbers of scales")
        return self


class ModelManifest(NetworkFile):
    """An ArcFace-style network: aligned crops of 112 x 112 to embeddings."""

    name: Name
    dimensions: Annotated[int, Field(ge=1, le=1 << 16)]
    trained_on: Channels | None = None  # in fine-tuning, which may have been another order than `input` says


class EncoderManifest(_Part):
    """Everything that decides the numbers of an embedding."""

    name: Name
    detector: DetectorManifest
    models: Annotated[tuple[ModelManifest, ...], Field(min_length=1)]
    same_person_distance: Positive | None = None  # two photos farther apart look like two persons; None: not known
    trained_on_syndromes: bool | None = None  # None: not known

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if len({model.dimensions for model in self.models}) > 1:
            raise ValueError("the models have different numbers of dimensions")
        if len({model.name for model in self.models}) < len(self.models):
            raise ValueError("two models have the same name")
        if len({part.file for part in self.parts.values()}) < len(self.parts):
            raise ValueError("two networks share a file")
        return self

    @property
    def parts(self) -> dict[str, NetworkFile]:
        """Every network by its role: "detector", or the model's name."""
        return {"detector": self.detector, **{model.name: model for model in self.models}}

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of every network that is known, by its role."""
        return {role: part.sha256 for role, part in self.parts.items() if part.sha256 is not None}

    def with_hashes(self, sha256_of: Mapping[str, str]) -> Self:
        """The same encoder with these hashes; those of published packages stay as they are."""

        def filled(role: str, part: AnyPart) -> AnyPart:
            known = part.sha256 if part.made_from is not None else sha256_of.get(role, part.sha256)
            return part.model_copy(update={"sha256": known})

        models = tuple(filled(model.name, model) for model in self.models)
        return self.model_copy(update={"detector": filled("detector", self.detector), "models": models})

    @property
    def encoder(self) -> Encoder:
        """The identity that embeddings carry. Its hash covers the files, their order and their input scaling."""
        deciding = self.model_dump_json(
            include={
                "detector": {"sha256", "input", "longer_side", "strides", "anchor_sizes", "variances"},
                "models": {"__all__": {"sha256", "input"}},
            }
        )
        return Encoder(
            len(self.models) * len(VIEWS),
            self.models[0].dimensions,
            self.name,
            hashlib.sha256(deciding.encode()).hexdigest(),
            tuple(representation_name(model.name, *view) for model in self.models for view in VIEWS),
            self.trained_on_syndromes,
        )

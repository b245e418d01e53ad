"""What tables say about images, and cohort tables, whatever their file format.

A cohort table has rows with `image_id`, `embedding` and, for labelled images, more ids. An embedding is a list of
numbers, or a list of such lists, one per representation. An image of a patient with two disorders stands in two rows.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mien.core.arrays import Float32s
from mien.core.cohort import Encodings
from mien.core.embeddings import Encoder
from mien.core.roster import Disorder, Label
from mien.errors import EncoderMismatchError, InvalidFileError, MienError, shown

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
REQUIRED_COLUMNS = ("image_id", "embedding")
TEXT_COLUMNS = ("image_id", "patient_id", "disorder_id", "disorder_name", "omim")


@dataclass
class Annotations:
    """Gathered row by row. Both methods return what is wrong with a row, or None."""

    patient_of: dict[str, str] = field(default_factory=dict)  # by image id
    labels: list[Label] = field(default_factory=list)
    disorders: dict[str, Disorder] = field(default_factory=dict)  # by id

    def add_image(self, image_id: str, patient_id: str | None, disorder_id: str | None) -> str | None:
        """One image of one patient, perhaps with a disorder."""
        ids = {"image": image_id, "patient": patient_id, "disorder": disorder_id}
        if blank := [name for name, value in ids.items() if value is not None and not value.strip()]:
            return f"the {blank[0]}'s id is blank: fill it in or take the row out"
        if patient_id is None:
            return None
        known = self.patient_of.setdefault(image_id, patient_id)
        if known != patient_id:
            return (
                f"image {shown(image_id)} belongs to patient {shown(patient_id)} here"
                f" and to {shown(known)} in an earlier row: an image shows one person"
            )
        if disorder_id is not None:
            self.labels.append(Label(image_id, patient_id, disorder_id))
        return None

    def add_disorder(self, disorder: Disorder) -> str | None:
        """What one disorder is called, and its OMIM numbers."""
        known = self.disorders.setdefault(disorder.disorder_id, disorder)
        for mine, theirs in ((disorder.name, known.name), (disorder.omim, known.omim)):
            if mine and theirs and mine != theirs:
                which = shown(disorder.disorder_id)
                return f"disorder {which} is called {shown(mine)} here and {shown(theirs)} in an earlier row: keep one"
        merged = Disorder(disorder.disorder_id, known.name or disorder.name, known.omim or disorder.omim)
        self.disorders[disorder.disorder_id] = merged
        return None


@dataclass(frozen=True)
class EncodingsFile:
    """What an encodings file holds."""

    encodings: Encodings
    left_out: int  # images in the file that were not wanted
    annotations: Annotations = field(default_factory=Annotations)  # only cohort tables have any

    def missing(self, image_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the images that have no encoding here."""
        present = set(self.encodings.image_ids)
        return tuple(image_id for image_id in image_ids if image_id not in present)

    def with_encoder_name(self, name: str | None) -> Encodings:
        """The encodings with their encoder's name filled in; a name that the file itself gives must be the same."""
        encoder = self.encodings.encoder
        if encoder.name not in {None, name} and name is not None:
            raise EncoderMismatchError(f"--encoder says {name}, the encodings file says {encoder.name}: drop one")
        return replace(self.encodings, encoder=replace(encoder, name=name or encoder.name))


class CohortCollector:
    """Gathers the rows of a table into embeddings and annotations."""

    def __init__(self, path: Path, wanted: Container[str] | None, *, labelled: bool) -> None:
        self.path = path
        self.wanted = wanted
        self.labelled = labelled  # else the disorder of an image is ignored
        self.annotations = Annotations()
        self.embedding_of: dict[str, Float32s] = {}
        self.left_out: set[str] = set()

    def add(
        self,
        embedding: Float32s,
        image_id: str,
        patient_id: str | None = None,
        disorder_id: str | None = None,
        disorder_name: str | None = None,
        omim: str | None = None,
    ) -> str | None:
        """Adds a row, or says what is wrong with it. None is for a column that is not there, "" for an empty cell."""
        if image_id and self.wanted is not None and image_id not in self.wanted:
            self.left_out.add(image_id)
            return None
        wrong = self.annotations.add_image(image_id, patient_id, disorder_id if self.labelled else None)
        wrong = wrong or self._add_embedding(image_id, embedding)
        if disorder_id and (disorder_name or omim):
            wrong = wrong or self.annotations.add_disorder(Disorder(disorder_id, disorder_name or None, omim or None))
        return wrong

    def _add_embedding(self, image_id: str, embedding: Float32s) -> str | None:
        others = next(iter(self.embedding_of.values()), embedding)
        if embedding.shape != others.shape:
            sizes = [" x ".join(map(str, each.shape)) for each in (embedding, others)]
            return f"image {shown(image_id)} has an embedding of {sizes[0]} numbers, others of {sizes[1]}"
        first = self.embedding_of.setdefault(image_id, embedding)
        if first is not embedding and not np.array_equal(first, embedding):
            return f"image {shown(image_id)} is there twice, with different embeddings: keep one"
        return None

    def result(self, encoder: Encoder | None = None) -> EncodingsFile:
        """All that was gathered."""
        embeddings = np.stack(list(self.embedding_of.values())) if self.embedding_of else np.empty((0, 1, 1))
        try:
            encodings = Encodings.of(list(self.embedding_of), embeddings, encoder)
        except MienError as error:
            raise InvalidFileError(self.path, [str(error)]) from error
        return EncodingsFile(encodings, len(self.left_out), self.annotations)


def require_columns(path: Path, names: Collection[str], required: Collection[str], separator: str = ",") -> None:
    """Refuses a table without its columns, and guesses at the separator."""
    missing = [name for name in required if name not in names]
    if not missing:
        return
    other = next((other for other in SEPARATORS if other != separator and any(other in name for name in names)), None)
    hint = (
        f"it looks separated by {SEPARATORS[other]}: save it with {SEPARATORS[separator]}"
        if other
        else f"the header is {shown(', '.join(names))}"
    )
    raise InvalidFileError(path, [f"row 1: the column {shown(name)} is missing; {hint}" for name in missing])

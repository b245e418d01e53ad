"""A gallery directory as a reader sees it; its changes live in `changes`, its checks in `verification`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from mien.answers.calibration import Calibration
from mien.answers.genes import Description
from mien.core.cohort import Cohort
from mien.core.embeddings import Encoder
from mien.core.gallery_parts import LocalParts
from mien.core.index import GalleryIndex, build_index
from mien.core.method import Method
from mien.core.roster import Roster
from mien.core.searcher import Searcher
from mien.errors import CorruptGalleryError, EmptyGalleryError, GalleryBusyError, GalleryError, require
from mien.storage.changes import Change, describe, import_cohort, remove_patients, restore_index
from mien.storage.cohort_reader import embedding_reader, read_roster
from mien.storage.database import State, connection, newest_state, snapshot
from mien.storage.descriptions import StoredDocument, descriptions_of
from mien.storage.faces import Faces, FacesAdded, add_faces
from mien.storage.index_files import read_index
from mien.storage.learned import stored_calibration, stored_tuned

OPENING_TRIES = 20


def state_of(directory: Path) -> State:
    """Which generation is the newest, and what is known without reading it."""
    with connection(directory) as database:
        return newest_state(database, directory)


@dataclass(frozen=True, eq=False)
class Gallery:
    """A gallery as it was when it was opened: later changes do not reach it.

    >>> import tempfile, numpy as np
    >>> from mien import Cohort, Gallery, Query, rank
    >>> cohort = Cohort.of(np.eye(3), image_ids=["1", "2", "3"], patient_ids=["p", "q", "r"],
    ...                    disorder_ids=["Noonan", "Kabuki", "Kabuki"])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     change = Gallery.build(directory, cohort)
    ...     gallery = Gallery.open(directory)
    >>> change.images_added
    3
    >>> rank(gallery, Query.of(np.array([[0.0, 1.0, 0.9]])))[0].disorders[0].disorder_id
    'Kabuki'
    """

    directory: Path
    generation: int
    fingerprint: str  # of everything that is stored
    encoder: Encoder | None
    loaded_index: GalleryIndex | None  # None: no images
    learned: Mapping[str, str] = field(default_factory=dict)  # by name, JSON
    described: StoredDocument | None = None

    @cached_property
    def descriptions(self) -> dict[str, Description]:
        """What is known of disorders, their genes above all, by id."""
        return descriptions_of(self.described)

    def calibration_for(self, method: Method) -> Calibration | None:
        """What distances by a method mean here, if it was learned."""
        return stored_calibration(self.learned, method, self.directory) if self.learned else None

    @property
    def tuned_method(self) -> Method:
        """The method that was chosen for this gallery."""
        return stored_tuned(self.learned, self.directory)

    @property
    def index(self) -> GalleryIndex:
        """The unit rows; an empty gallery has none to rank against."""
        if self.loaded_index is None:
            raise EmptyGalleryError(f"{self.directory}: the gallery holds no images: add some before ranking")
        return self.loaded_index

    @cached_property
    def searcher(self) -> Searcher:
        """What ranks queries against it."""
        return Searcher.of(LocalParts([self.index]))

    @property
    def roster(self) -> Roster:
        """Who is in the gallery."""
        return Roster.of_labels([]) if self.loaded_index is None else self.loaded_index.roster

    @property
    def faces(self) -> Faces:
        """The faces that are kept, as they are now, also where the gallery has changed since it was opened."""
        return Faces(self.directory)

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """Opens the newest generation; makes its index where that is missing or damaged."""
        require(directory, str | Path, "directory", "that of a gallery")
        directory = Path(directory)
        for _ in range(OPENING_TRIES):
            now = state_of(directory)
            try:
                index = read_index(directory, now.generation, now.fingerprint) if now.images else None
            except (FileNotFoundError, CorruptGalleryError) as problem:
                if state_of(directory).generation != now.generation:
                    continue  # a writer has gone on meanwhile
                if isinstance(problem, CorruptGalleryError):
                    logging.getLogger(__name__).warning("%s: the index is made anew from the database", problem)
                try:
                    restore_index(directory)
                except (GalleryBusyError, CorruptGalleryError):
                    raise
                except GalleryError:  # not ours to write: do without the files
                    return cls._in_memory(directory)
                continue  # the index is there now, or a writer has gone on to the next generation
            return cls(directory, now.generation, now.fingerprint, now.encoder, index, dict(now.learned), now.described)
        raise GalleryBusyError(f"{directory}: the gallery changes faster than it can be opened, try again later")

    @classmethod
    def _in_memory(cls, directory: Path) -> Self:
        with connection(directory) as database, snapshot(database):
            now = newest_state(database, directory)
            assert now.encoder is not None
            encoder, roster = now.encoder, read_roster(database)
            index = build_index(roster, encoder, embedding_reader(database, roster, encoder))
        return cls(directory, now.generation, now.fingerprint, encoder, index, dict(now.learned), now.described)

    @staticmethod
    def build(directory: str | Path, cohort: Cohort) -> Change:
        """Makes a gallery of exactly this cohort, all of it or nothing; again, it changes nothing."""
        return import_cohort(Path(directory), cohort, exactly=True)

    @staticmethod
    def add(directory: str | Path, cohort: Cohort) -> Change:
        """Adds a cohort's images, all or none; those that are there already must be the same."""
        return import_cohort(Path(directory), cohort, exactly=False)

    @staticmethod
    def add_faces(
        directory: str | Path, crops: Mapping[str, bytes], *, composite_patients: int | None = None
    ) -> FacesAdded:
        """Keeps aligned faces of images (PNG, 112 x 112), all or none; nothing else changes, the generation neither."""
        return add_faces(Path(directory), crops, composite_patients)

    @staticmethod
    def remove_patients(directory: str | Path, patient_ids: Iterable[str]) -> int:
        """Erases patients from every file of the gallery; returns the new generation."""
        return remove_patients(Path(directory), patient_ids)

    @staticmethod
    def describe(directory: str | Path, descriptions: Iterable[Description]) -> int:
        """Says what is known of disorders, in the place of all that was said before; returns the generation."""
        return describe(Path(directory), descriptions)

    @staticmethod
    def export(directory: str | Path, path: str | Path) -> int:
        """Writes the newest generation as a cohort table in Parquet; returns the number of rows."""
        from mien.storage.formats.cohort_parquet import write_cohort_parquet  # noqa: PLC0415 pyarrow is heavy

        directory, path = Path(directory), Path(path)
        if path.resolve().is_relative_to(directory.resolve()):
            raise GalleryError(f"{path} lies inside the gallery and would keep removed patients: choose another place")
        if path.suffix != ".parquet":
            raise GalleryError(f"{path}: a gallery is exported as Parquet: give a name that ends in .parquet")
        with connection(directory) as database, snapshot(database):
            now, roster = newest_state(database, directory), read_roster(database)
            if now.encoder is None or not now.images:
                raise EmptyGalleryError(f"{directory}: the gallery holds no images: nothing to export")
            write_cohort_parquet(path, roster, now.encoder, embedding_reader(database, roster, now.encoder))
        return len(roster.image_of_label)

    def __repr__(self) -> str:
        return f"<Gallery {self.directory}, generation {self.generation}: {self.roster.sizes}>"

    def __str__(self) -> str:
        return str(self.directory)

    def as_dict(self) -> dict[str, Any]:
        """Generation, sizes and encoder, as every answer carries them."""
        return {
            "generation": self.generation,
            "images": len(self.roster.image_ids),
            "patients": len(self.roster.patient_ids),
            "disorders": len(self.roster.disorders),
            "encoder": None if self.encoder is None else self.encoder.as_dict(),
        }

"""What tables say about images: which patient is on them, which disorder that patient has, and the disorder's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from mien.core.roster import Disorder, Label
from mien.errors import shown


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

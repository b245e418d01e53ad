"""Facts about a photo, and warnings that its embedding may mislead."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np

from mien.core.arrays import Floats
from mien.core.cohort import Encodings
from mien.core.embeddings import mean_cosine_distance
from mien.core.gallery_parts import SAME_PHOTO
from mien.encoding.network import Device
from mien.encoding.photo import Pixels
from mien.encoding.subject import SURE, Subject
from mien.errors import Box, shown

SMALLEST_FACE = 50  # pixels; the crop would show it at twice its size
LEAST_SHARPNESS = 20  # of a crop that was blurred by one to one and a half of its pixels
MOST_TURN = 0.35
NODDING = (0.25, 0.9)
MOST_OUTSIDE = 0.1
MOST_PAIRS = 3  # of photos, to be told about


@dataclass(frozen=True)
class PhotoFacts:
    """Facts about the face that was encoded."""

    faces: int  # that could have been meant
    box: Box  # of the face that was encoded
    confidence: float  # of the detector, 0 to 1
    face_size: int  # pixels
    sharpness: float  # variance of the crop's second derivative
    turn: float  # where the nose is between the eyes: 0 is the middle, 0.5 under an eye
    nod: float  # where the nose is between eyes (0) and mouth (1)
    outside: float  # share of the face's box that is not on the photo
    taken_as_official: str | None = None  # why it would have been refused; None: it would not
    device: Device = "cpu"  # that the networks ran on

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what is wrong with the photo."""
        low, high = NODDING
        found = {
            f"one of {self.faces} faces was taken, the one at {self.box}": self.faces > 1,
            f"the detector is only {self.confidence:.0%} sure of this face": self.confidence < SURE,
            f"the face has only {self.face_size} pixels: a larger photo would tell more": (
                self.face_size < SMALLEST_FACE
            ),
            f"the photo is blurred (sharpness {self.sharpness:.0f})": self.sharpness < LEAST_SHARPNESS,
            "the head is turned to the side: a photo from the front would tell more": abs(self.turn) > MOST_TURN,
            "the head is tilted up or down: a photo from the front would tell more": not low < self.nod < high,
            f"{self.outside:.0%} of the face is not on the photo": self.outside > MOST_OUTSIDE,
            f"the surest face was taken, as officially; without --face official: {self.taken_as_official}": (
                self.taken_as_official is not None
            ),
        }
        return tuple(sentence for sentence, holds in found.items() if holds)

    def as_dict(self) -> dict[str, Any]:
        """Facts and warnings as plain values."""
        return {**asdict(self), "warnings": self.warnings}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PhotoFacts:
        """The inverse of `dataclasses.asdict`, also after a way through JSON."""
        return cls(**{**values, "box": tuple(values["box"])})


def facts_of(subject: Subject, device: Device) -> PhotoFacts:
    """Measures a photo's face."""
    turn, nod = pose(subject.landmarks)
    return PhotoFacts(
        faces=subject.faces,
        box=subject.face.whole_box,
        confidence=round(subject.face.confidence, 4),
        face_size=round(subject.face.size),
        sharpness=round(sharpness(subject.crop), 1),
        turn=round(turn, 3),
        nod=round(nod, 3),
        outside=round(subject.outside, 3),
        taken_as_official=subject.refusal,
        device=device,
    )


def pose(landmarks: Floats) -> tuple[float, float]:
    """Turn and nod of a levelled face.

    >>> pose(np.array([(30, 50), (70, 50), (50, 70), (35, 90), (65, 90)]))
    (0.0, 0.5)
    """
    left_eye, right_eye, nose, left_mouth, right_mouth = landmarks
    eyes, mouth = (left_eye + right_eye) / 2, (left_mouth + right_mouth) / 2
    eye_distance = max(float(np.linalg.norm(right_eye - left_eye)), 1e-6)
    face_height = max(float(mouth[1] - eyes[1]), 1e-6)
    middle = eyes[0] + (mouth[0] - eyes[0]) * (nose[1] - eyes[1]) / face_height
    return float((nose[0] - middle) / eye_distance), float((nose[1] - eyes[1]) / face_height)


def sharpness(crop: Pixels) -> float:
    """The variance of the Laplacian of the gray crop: small where nothing has an edge."""
    return float(cv2.Laplacian(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var())


def odd_pairs(encodings: Encodings, same_person_distance: float | None) -> list[str]:
    """Warns of photos of one query that look like two persons, or are the same photo; the worst pairs first.

    Without `same_person_distance`, no two photos are said to show two persons.
    """
    distances = mean_cosine_distance(encodings.unit_rows, encodings.unit_rows)
    ids = [shown(image_id) for image_id in encodings.image_ids]
    limit = np.inf if same_person_distance is None else same_person_distance
    pairs = sorted(zip(*np.triu_indices(len(ids), 1), strict=True), key=lambda pair: -distances[pair])
    apart = [
        f"{ids[one]} and {ids[other]} look like two persons (distance {distances[one, other]:.2f};"
        f" two photos of one person are mostly below {limit:.2f})"
        for one, other in pairs
        if distances[one, other] > limit
    ]
    more = [f"… {len(apart)} such pairs in all"] if len(apart) > MOST_PAIRS else []
    twice = [
        f"{ids[one]} and {ids[other]} are the same photo, which counts twice"
        for one, other in pairs
        if distances[one, other] < SAME_PHOTO
    ]
    return [*apart[:MOST_PAIRS], *more, *twice[:MOST_PAIRS]]

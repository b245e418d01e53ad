"""Finds the face that is meant on a photo, and aligns it: detects faces, levels the photo, detects again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mien.core.arrays import Floats
from mien.encoding.alignment import aligned_crop, levelled, levelling
from mien.encoding.detection import Detector, Face
from mien.encoding.photo import Pixels
from mien.errors import InvalidPhotoError, SeveralFacesError

LEAST_CONFIDENCE = 0.5  # of a face that can be encoded
SURE = 0.9  # the least confidence of a second face that may be meant
SECOND_FACE_SIZE = 0.5  # of a second face, as a share of the main one; who is smaller is a bystander
OFFICIAL_CONFIDENCE = 0.02  # the least of the official pipeline
SAME_PLACE = 0.5  # of the face's size: the largest shift between the two detections of one face
NO_FACE = "no face was found: take a photo from the front, with the whole face on it"

# int: a face's number from the left. "main": the most prominent face. None: the only face; several are refused.
# "official": as None, but takes the official pipeline's face instead of refusing the photo.
Choice = int | Literal["main", "official"] | None


@dataclass(frozen=True, eq=False)
class Subject:
    """The face that is encoded."""

    crop: Pixels
    face: Face  # of the first detection, in the photo's pixels
    landmarks: Floats  # on the levelled photo
    outside: float  # share of the face's box that is not on the photo
    faces: int  # that could have been meant
    refusal: str | None  # why the photo would be refused without the choice "official"


def find_subject(photo: Pixels, detector: Detector, choice: Choice) -> Subject:
    """Finds the chosen face of a photo; refuses a photo without it, and says which faces there are."""
    size, refusal = photo.shape[:2], None
    candidates = possible_subjects(detector.faces(photo, least_confidence=LEAST_CONFIDENCE), size)
    try:
        face = chosen_face(candidates, choice, size)
    except InvalidPhotoError as error:
        if choice != "official":
            raise
        refusal, face = str(error), surest_face(detector.faces(photo, least_confidence=OFFICIAL_CONFIDENCE))
    level = levelled(photo, face.landmarks)
    found = detector.faces(level, least_confidence=OFFICIAL_CONFIDENCE)
    again = landmarks_when_levelled(face, found) if refusal is None else surest_face(found).landmarks
    # whole pixels, as in the official pipeline: so photos agree with an official gallery
    whole = np.trunc(again)
    if not np.ptp(whole, axis=0).all():
        raise InvalidPhotoError("the face is too small to be aligned: send a larger photo")
    return Subject(aligned_crop(level, whole), face, again, outside_share(face.box, size), len(candidates), refusal)


def outside_share(box: Floats, size: Sequence[int]) -> float:
    """How much of a box lies outside of a photo of that height and width.

    >>> outside_share(np.array([-10, 0, 10, 20]), (100, 100))
    0.5
    """
    inside = np.clip(box, 0, [size[1], size[0], size[1], size[0]])
    area, seen = (float(np.prod(sides[2:] - sides[:2])) for sides in (box, inside))
    return 1 - seen / max(area, 1e-6)


def prominence(face: Face, size: Sequence[int]) -> float:
    """How likely this face is the subject: large and near the middle, both in pixels."""
    middle = np.array([size[1], size[0]]) / 2
    return float(face.size - np.linalg.norm((face.box[:2] + face.box[2:]) / 2 - middle))


def possible_subjects(faces: Sequence[Face], size: Sequence[int]) -> list[Face]:
    """The most prominent face, and the others that could be meant as well; from left to right."""
    if not faces:
        return []
    main = max(faces, key=lambda face: prominence(face, size))
    others = [
        face
        for face in faces
        if face is not main and face.confidence >= SURE and face.size >= SECOND_FACE_SIZE * main.size
    ]
    return sorted([main, *others], key=lambda face: (face.box[0], face.box[1]))


def chosen_face(faces: Sequence[Face], choice: Choice, size: Sequence[int]) -> Face:
    """The face that the user means."""
    if not faces:
        raise InvalidPhotoError(NO_FACE)
    if choice == "main":
        return max(faces, key=lambda face: prominence(face, size))
    if not isinstance(choice, int):
        if len(faces) > 1:
            raise SeveralFacesError([face.whole_box for face in faces])
        return faces[0]
    if not 1 <= choice <= len(faces):
        raise InvalidPhotoError(f"there is no face {choice}: {len(faces)} could be meant")
    return faces[choice - 1]


def surest_face(faces: Sequence[Face]) -> Face:
    """The face that the official pipeline takes, in each of its two detections."""
    if not faces:
        raise InvalidPhotoError(NO_FACE)
    return max(faces, key=lambda face: face.confidence)


def landmarks_when_levelled(face: Face, faces: Sequence[Face]) -> Floats:
    """The landmarks of a face on the levelled photo. If it is not found there, its first landmarks are turned."""
    turn = levelling(face.landmarks)
    turned: Floats = face.landmarks @ turn[:, :2].T + turn[:, 2]
    away = [float(np.linalg.norm(other.landmarks - turned, axis=1).mean()) for other in faces]
    nearest = int(np.argmin(away)) if away else None
    return turned if nearest is None or away[nearest] > SAME_PLACE * face.size else faces[nearest].landmarks

"""What `--face official` takes: photos that mien refuses, and the official pipeline does not."""

from __future__ import annotations

import numpy as np
import pytest

from mien.encoding.alignment import aligned_crop, levelled
from mien.encoding.detection import Face
from mien.encoding.journal import Journal, encode_into
from mien.encoding.photo_encoder import EncodedPhoto, Photo, RefusedPhoto
from mien.encoding.subject import find_subject
from mien.errors import InvalidPhotoError, SeveralFacesError
from mien.progress import silent

from pictures import saved, two_portraits, unsure_portrait

WHITE = np.full((300, 400, 3), 255, dtype=np.uint8)


def official_crop(photo, detector):
    """Step by step: the surest face, levelled, the surest face again, landmarks in whole pixels."""

    def surest(picture):
        faces = detector.faces(picture, least_confidence=0.02)
        return faces[int(np.argmax([face.confidence for face in faces]))].landmarks

    level = levelled(photo, surest(photo))
    return aligned_crop(level, np.trunc(surest(level)))


@pytest.mark.parametrize(
    ("picture", "kind", "reason"),
    [(two_portraits, SeveralFacesError, "2 faces: face 1 at"), (unsure_portrait, InvalidPhotoError, "no face was")],
)
def test_the_surest_face_is_taken_where_mien_refuses(photo_encoder, picture, kind, reason):
    photo, detector = picture(), photo_encoder.detector
    with pytest.raises(kind, match=reason) as refused:
        find_subject(photo, detector, None)
    subject = find_subject(photo, detector, "official")
    assert subject.refusal == str(refused.value)
    assert subject.face.confidence == max(face.confidence for face in detector.faces(photo, least_confidence=0.02))
    assert (subject.crop == official_crop(photo, detector)).all()


def test_a_photo_that_mien_takes_is_the_same_either_way(photo_encoder):
    photo = two_portraits()[:, :300]
    subjects = [find_subject(photo, photo_encoder.detector, choice) for choice in (None, "official")]
    assert (subjects[0].crop == subjects[1].crop).all()
    assert [subject.refusal for subject in subjects] == [None, None]


def test_a_photo_without_any_face_stays_refused(photo_encoder):
    with pytest.raises(InvalidPhotoError, match="no face was found"):
        find_subject(WHITE, photo_encoder.detector, "official")


def test_the_second_look_takes_the_surest_face_too_whoever_it_is():
    """So does the official pipeline: it forgets the first look but for its angle."""
    points = np.array([(30, 40), (70, 40), (50, 60), (35, 80), (65, 80)], dtype=float)

    def face(left, confidence):
        return Face(np.array([left, 0, left + 100, 100.0]), points + np.array([left, 0]), confidence)

    class Detector:
        looks = iter(
            [[face(0, 0.99), face(200, 0.98)], [face(0, 0.99), face(200, 0.98)], [face(200, 0.97), face(0, 0.9)]]
        )

        def faces(self, _picture, *, least_confidence):
            return next(self.looks)

    photo = np.zeros((100, 300, 3), dtype=np.uint8)
    subject = find_subject(photo, Detector(), "official")
    assert subject.face.whole_box[0] == 0
    assert subject.landmarks[0].tolist() == [230, 40]


def test_facts_say_which_photos_were_taken_as_official_and_why(photo_encoder):
    pictures = {"one": two_portraits()[:, :300], "two": two_portraits(), "unsure": unsure_portrait(), "white": WHITE}
    photos = [Photo(name, saved(picture), "official") for name, picture in pictures.items()]
    one, two, unsure, white = photo_encoder.encode(photos)
    assert one.facts.taken_as_official is None
    assert two.facts.taken_as_official.startswith("2 faces")
    assert (two.facts.faces, unsure.facts.faces) == (2, 0)
    assert unsure.facts.taken_as_official.startswith("no face was found")
    assert any("as officially" in warning for warning in unsure.facts.warnings)
    assert isinstance(white, RefusedPhoto)


def test_a_run_that_goes_on_does_not_mix_the_two_ways(photo_encoder, tmp_path):
    pictures = {"one": two_portraits()[:, :300], "two": two_portraits(), "unsure": unsure_portrait()}

    def photos(choice):
        return [Photo(name, saved(picture), choice) for name, picture in pictures.items()]

    journal = Journal(tmp_path / "out.partial", photo_encoder.encoder)
    assert all(
        isinstance(result, EncodedPhoto) for result in encode_into(journal, photo_encoder, photos("official"), silent)
    )
    assert [journal.has(photo) for photo in photos("official")] == [True, True, True]
    for choice in (None, "main", 1):
        assert [journal.has(photo) for photo in photos(choice)] == [True, False, False]
    results = encode_into(journal, photo_encoder, photos(None), silent)
    assert [isinstance(result, RefusedPhoto) for result in results] == [False, True, True]
    journal.close()
    journal = Journal(tmp_path / "other.partial", photo_encoder.encoder)
    encode_into(journal, photo_encoder, photos("main"), silent)
    assert [journal.has(photo) for photo in photos("official")] == [True, False, False]
    journal.close()

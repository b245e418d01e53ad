from __future__ import annotations

from itertools import product
from math import ceil

import cv2
import numpy as np
import pytest

from mien.encoding.detection import Face, anchors_of, decoded_boxes, decoded_landmarks, separate_faces
from mien.encoding.photo import decode_photo
from mien.encoding.subject import chosen_face, find_subject, landmarks_when_levelled, possible_subjects, prominence
from mien.errors import InvalidPhotoError, SeveralFacesError


def plain_anchors(size, strides, sides):
    """One after another, as shares of the picture: centre x, centre y, width, height."""
    height, width = size
    return np.array(
        [
            ((x + 0.5) * stride / width, (y + 0.5) * stride / height, side / width, side / height)
            for stride, sides_here in zip(strides, sides, strict=True)
            for y, x in product(range(ceil(height / stride)), range(ceil(width / stride)))
            for side in sides_here
        ]
    )


def plain_detection(photo, detector, least_confidence):
    """The steps of RetinaFace as loops over anchors, in shares of the picture."""
    manifest = detector.manifest
    ratio = manifest.longer_side / max(photo.shape[:2])
    size = tuple(int(side * ratio) for side in photo.shape[:2])
    small = cv2.resize(photo, size[::-1]).astype(np.float32)
    batch = (small[..., ::-1] - np.array([104, 117, 123], dtype=np.float32)).transpose(2, 0, 1)[None]
    boxes, confidences, landmarks = (output[0] for output in detector.network.run(np.ascontiguousarray(batch)))
    found = []
    anchors = plain_anchors(size, manifest.strides, manifest.anchor_sizes)
    for place in np.flatnonzero(confidences[:, 1] >= least_confidence):
        x, y, w, h = anchors[place]
        centre = x + boxes[place, 0] * 0.1 * w, y + boxes[place, 1] * 0.1 * h
        wide, high = w * np.exp(boxes[place, 2] * 0.2), h * np.exp(boxes[place, 3] * 0.2)
        box = np.array([centre[0] - wide / 2, centre[1] - high / 2, centre[0] + wide / 2, centre[1] + high / 2])
        points = [(x + px * 0.1 * w, y + py * 0.1 * h) for px, py in landmarks[place].reshape(5, 2)]
        found.append((confidences[place, 1], box * [*size[::-1], *size[::-1]], np.array(points) * size[::-1]))
    found.sort(key=lambda face: -face[0])
    kept = []
    for face in found:
        if all(shared_part(face[1], other[1]) <= 0.4 for other in kept):
            kept.append(face)
    scale = max(photo.shape[:2]) / max(size)
    return [(confidence, scale * box, scale * points) for confidence, box, points in kept]


def shared_part(one, other):
    wide = max(0, min(one[2], other[2]) - max(one[0], other[0]))
    high = max(0, min(one[3], other[3]) - max(one[1], other[1]))
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return wide * high / (area - wide * high)


def face_at(left, top, size, confidence=0.99):
    box = np.array([left, top, left + 0.8 * size, top + size], dtype=float)
    points = np.array([(0.3, 0.4), (0.7, 0.4), (0.5, 0.6), (0.35, 0.8), (0.65, 0.8)])
    return Face(box, box[:2] + points * (box[2:] - box[:2]), confidence)


@pytest.mark.parametrize("size", [(640, 640), (640, 427), (33, 640)])
def test_anchors_are_those_of_a_plain_loop(size, photo_encoder):
    manifest = photo_encoder.manifest.detector
    theirs = plain_anchors(size, manifest.strides, manifest.anchor_sizes)
    ours = anchors_of(size, manifest)
    np.testing.assert_allclose(ours[:, :2], theirs[:, :2] * size[::-1], rtol=1e-5)
    np.testing.assert_allclose(ours[:, 2], theirs[:, 2] * size[1], rtol=1e-5)


def test_offsets_of_zero_are_the_anchor_itself():
    anchors = np.array([[100.0, 60.0, 32.0]])
    np.testing.assert_allclose(decoded_boxes(np.zeros((1, 4)), anchors, (0.1, 0.2)), [[84, 44, 116, 76]])
    np.testing.assert_allclose(decoded_landmarks(np.zeros((1, 10)), anchors, (0.1, 0.2)), [[[100, 60]] * 5])


def test_a_box_goes_when_it_shares_too_much_with_a_better_one():
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [8, 0, 18, 10], [0, 0, 4, 10]], dtype=float)
    assert separate_faces(boxes) == [0, 2, 3]
    assert separate_faces(np.empty((0, 4))) == []


def test_real_faces_are_found_where_plain_loops_find_them(photo_encoder, faces):
    for path in sorted(faces.glob("person_03*/photo_[034].jpg")):
        photo = decode_photo(path.read_bytes())
        photo = photo[:, : photo.shape[1] - 17]  # not a square
        ours = photo_encoder.detector.faces(photo, least_confidence=0.3)
        theirs = plain_detection(photo, photo_encoder.detector, 0.3)
        assert len(ours) == len(theirs) > 0
        for face, (confidence, box, points) in zip(ours, theirs, strict=True):
            assert face.confidence == pytest.approx(confidence, abs=1e-5)
            np.testing.assert_allclose(face.box, box, atol=1e-2)
            np.testing.assert_allclose(face.landmarks, points, atol=1e-2)


def test_every_photo_of_a_person_shows_a_face(photo_encoder, faces):
    for path in sorted(faces.glob("*/photo_0.jpg")):
        assert photo_encoder.detector.faces(decode_photo(path.read_bytes()), least_confidence=0.5)


@pytest.mark.parametrize("kind", ["noise", "white", "stripes"])
def test_a_picture_without_a_face_is_refused(kind, photo_encoder, rng):
    pictures = {
        "noise": rng.integers(0, 256, (300, 400, 3), dtype=np.uint8),
        "white": np.full((300, 400, 3), 255, dtype=np.uint8),
        "stripes": np.tile(np.array([0, 0, 0, 255, 255, 255], dtype=np.uint8).repeat(10), (400, 5))[..., None].repeat(
            3, 2
        ),
    }
    with pytest.raises(InvalidPhotoError, match="no face was found"):
        find_subject(pictures[kind], photo_encoder.detector, "main")


def test_the_subject_is_large_and_near_the_middle():
    size = (600, 800)
    middle, edge, small = face_at(350, 250, 100), face_at(0, 0, 120), face_at(390, 300, 30)
    assert max([edge, small, middle], key=lambda face: prominence(face, size)) is middle


def test_bystanders_do_not_count_and_possible_subjects_do():
    size = (600, 800)
    main = face_at(350, 250, 100)
    far_away, unsure, other = face_at(600, 300, 40), face_at(100, 250, 90, confidence=0.7), face_at(100, 200, 80)
    assert possible_subjects([main, far_away, unsure], size) == [main]
    assert possible_subjects([main, other, far_away], size) == [other, main]  # from left to right
    assert possible_subjects([], size) == []


def test_two_faces_are_refused_with_their_boxes_and_one_can_be_chosen():
    size = (600, 800)
    left, main = face_at(100, 200, 80), face_at(350, 250, 100)
    with pytest.raises(SeveralFacesError) as refused:
        chosen_face([left, main], None, size)
    assert refused.value.boxes == ((100, 200, 164, 280), (350, 250, 430, 350))
    assert str(refused.value).startswith("2 faces: face 1 at (100, 200, 164, 280), face 2 at (350, 250, 430, 350)")
    assert chosen_face([left, main], 1, size) is left
    assert chosen_face([left, main], 2, size) is main
    assert chosen_face([left, main], "main", size) is main
    assert chosen_face([left], None, size) is left
    with pytest.raises(InvalidPhotoError, match="there is no face 3"):
        chosen_face([left, main], 3, size)


def test_the_second_look_keeps_to_the_same_face():
    face = face_at(100, 100, 100)
    near, surer = face_at(103, 99, 100, confidence=0.6), face_at(400, 100, 100)
    assert landmarks_when_levelled(face, [surer, near]) is near.landmarks
    np.testing.assert_allclose(landmarks_when_levelled(face, [surer]), face.landmarks, atol=1e-6)  # level already
    np.testing.assert_allclose(landmarks_when_levelled(face, []), face.landmarks, atol=1e-6)


def test_a_tilted_photo_gives_nearly_the_same_crop(photo_encoder, faces):
    photo = decode_photo((faces / "person_002" / "photo_1.jpg").read_bytes())
    height, width = photo.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), 25, 1.0)
    tilted = cv2.warpAffine(photo, turn, (width, height))
    crops = [find_subject(picture, photo_encoder.detector, "main").crop for picture in (photo, tilted)]
    straight, levelled_again = photo_encoder.embed(crops)[:, 0]
    cosine = straight @ levelled_again / np.linalg.norm(straight) / np.linalg.norm(levelled_again)
    assert cosine > 0.8

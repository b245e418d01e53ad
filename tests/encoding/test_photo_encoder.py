from __future__ import annotations

import io
import json
import os
import resource
import sqlite3
from pathlib import Path
from runpy import run_path

import cv2
import numpy as np
import pytest
from PIL import Image

from mien.core.cohort import Encodings
from mien.encoding.alignment import views_of
from mien.encoding.folder import find_photos
from mien.encoding.journal import Journal, encode_into
from mien.encoding.photo_encoder import PHOTOS_PER_BATCH, EncodedPhoto, Photo, RefusedPhoto, read_photo
from mien.encoding.quality import PhotoFacts, odd_pairs, pose, sharpness
from mien.errors import InvalidFileError, InvalidPhotoError, MienError
from mien.progress import silent

SCRIPT = run_path(str(Path(__file__).parents[2] / "scripts" / "faces.py"))


def encoded(photo_encoder, faces, pattern):
    """Photos of some persons, the most prominent face of each."""
    photos = [Photo(path.relative_to(faces).as_posix(), path, "main") for path in sorted(faces.glob(pattern))]
    return list(photo_encoder.encode(photos))


def jpeg(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def test_the_views_are_plain_gray_mirrored_and_both(rng):
    crop = rng.integers(0, 256, (112, 112, 3), dtype=np.uint8)
    plain, gray, mirrored, both = views_of(crop)
    np.testing.assert_array_equal(plain, crop)
    np.testing.assert_array_equal(mirrored, crop[:, ::-1])
    np.testing.assert_array_equal(both, gray[:, ::-1])
    light = crop @ np.array([0.299, 0.587, 0.114])
    for channel in range(3):
        assert np.abs(gray[..., channel] - light).max() <= 1


def test_photos_of_some_persons_give_a_face_and_persons_are_told_apart(photo_encoder, faces):
    results = encoded(photo_encoder, faces, "person_00[0-5]/*.jpg")
    assert len(results) == 30
    assert all(isinstance(result, EncodedPhoto) for result in results)
    photos, auc, rank_1, _ = map(float, SCRIPT["identity_row"](results))
    assert photos == 30
    assert auc >= 0.99
    assert rank_1 >= 0.96


@pytest.mark.long
def test_every_photo_gives_a_face_and_persons_are_told_apart_as_the_page_says(photo_encoder, faces):
    results = encoded(photo_encoder, faces, "*/*.jpg")
    assert len(results) == 300
    assert all(isinstance(result, EncodedPhoto) for result in results)
    identity, disorder = SCRIPT["identity_row"](results), SCRIPT["disorder_row"](results)
    _, auc, rank_1, changed_by_views = map(float, identity)
    assert auc >= 0.998
    assert rank_1 >= 0.98
    assert changed_by_views <= 0.02
    base, full = map(float, disorder[:2])
    assert full >= base
    page = (Path(__file__).parents[2] / "docs" / "faces.md").read_text()
    for row in (identity, disorder):
        assert f"| as they are | {' | '.join(row)} |" in page
    assert f"{sum(result.facts.faces > 1 for result in results)} of the 300 show several people" in page


def test_the_script_measures_what_a_plain_loop_measures(rng):
    names = [f"person_{person}/photo_{photo}.jpg" for person in range(4) for photo in range(5)]
    persons = np.repeat(rng.standard_normal((4, 4, 8)), 5, axis=0)
    photos = [
        EncodedPhoto(name, vectors.astype(np.float32), None)
        for name, vectors in zip(names, persons + 1.5 * rng.standard_normal((20, 4, 8)), strict=True)
    ]

    def distance(one, other, views):
        cosines = [
            float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
            for a, b in list(zip(one.embedding, other.embedding, strict=True))[:views]
        ]
        return 1 - sum(cosines) / views

    def person(photo):
        return photo.image_id.split("/")[0]

    pairs = [(a, b) for place, a in enumerate(photos) for b in photos[place + 1 :]]
    same, different = (
        [distance(a, b, 4) for a, b in pairs if (person(a) == person(b)) == wanted] for wanted in (True, False)
    )
    auc = np.mean([near < far for near in same for far in different])
    nearest = {
        views: [
            person(min((b for b in photos if b is not a), key=lambda b, a=a: distance(a, b, views))) for a in photos
        ]
        for views in (1, 4)
    }
    rank_1 = np.mean([found == person(photo) for found, photo in zip(nearest[4], photos, strict=True)])
    changed = np.mean([one != four for one, four in zip(nearest[1], nearest[4], strict=True)])
    assert 0 < changed < 1
    assert SCRIPT["identity_row"](photos) == ["20", f"{auc:.5f}", f"{rank_1:.3f}", f"{changed:.3f}"]


def test_an_embedding_does_not_depend_on_the_photos_beside_it(photo_encoder, faces):
    together = encoded(photo_encoder, faces, "person_00[01]/*.jpg")
    for result in together[::4]:
        (alone,) = encoded(photo_encoder, faces, result.image_id)
        np.testing.assert_allclose(alone.embedding, result.embedding, rtol=1e-4, atol=1e-4)


def test_a_representation_is_a_model_and_a_view(photo_encoder, faces):
    (photo,) = photo_encoder.encode([Photo("it", faces / "person_002" / "photo_1.jpg")])
    assert photo.embedding.shape == (4, 128)
    assert photo_encoder.encoder.representation_names == (
        *("m0/flip0/gray0", "m0/flip0/gray1"),
        *("m0/flip1/gray0", "m0/flip1/gray1"),
    )
    assert np.linalg.norm(photo.embedding, axis=1).min() > 1.5  # raw, not normalised


def test_a_bad_photo_is_refused_alone(photo_encoder, faces, tmp_path):
    (tmp_path / "text.jpg").write_text("not a picture")
    os.mkfifo(tmp_path / "pipe.jpg")
    good = faces / "person_002" / "photo_1.jpg"
    paths = [tmp_path / "text.jpg", good, tmp_path / "gone.jpg", tmp_path / "pipe.jpg", tmp_path]
    noise = np.random.default_rng(1).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    photos = [*(Photo(path.name, path) for path in paths), Photo("noise", jpeg(noise))]
    results = list(photo_encoder.encode(photos))
    assert [result.image_id for result in results] == [photo.image_id for photo in photos]
    assert [isinstance(result, EncodedPhoto) for result in results] == [False, True, False, False, False, False]
    reasons = [result.reason for result in results if isinstance(result, RefusedPhoto)]
    assert "text" in reasons[0]
    assert "No such file" in reasons[1]
    assert reasons[2] == reasons[3] == "it is not a file"
    assert "no face" in reasons[4]


def test_a_file_that_is_too_large_is_not_even_read(photo_encoder, tmp_path):
    large = tmp_path / "large.jpg"
    with large.open("wb") as file:
        file.truncate(40_000_000_000)  # a hole: it takes no room
    (result,) = photo_encoder.encode([Photo("large", large)])
    assert result.reason.startswith("40000.0 MB: at most 30 are read")


def test_facts_speak_against_a_photo(photo_encoder, faces):
    path = faces / "person_002" / "photo_1.jpg"
    pixels = np.array(Image.open(path).convert("RGB"))
    blurred = cv2.GaussianBlur(pixels, (0, 0), 4)
    small = cv2.resize(pixels, (90, 90), interpolation=cv2.INTER_AREA)
    good, bad, tiny = photo_encoder.encode(
        [Photo("good", path), Photo("bad", jpeg(blurred)), Photo("tiny", jpeg(small))]
    )
    assert good.facts.warnings == ()
    assert good.facts.faces == 1
    assert good.facts.confidence > 0.99
    assert any("blurred" in warning for warning in bad.facts.warnings)
    assert any("pixels" in warning for warning in tiny.facts.warnings)
    left, top, right, bottom = good.facts.box
    assert 0 < left < right < 250
    assert good.facts.face_size == pytest.approx(max(right - left, bottom - top), abs=1)
    assert PhotoFacts.from_dict(json.loads(json.dumps(vars(good.facts)))) == good.facts


def test_pose_is_told_from_where_the_nose_is():
    front = np.array([(30, 50), (70, 50), (50, 70), (35, 90), (65, 90)], dtype=float)
    to_the_side, down = front.copy(), front.copy()
    to_the_side[2, 0] = 66
    down[2, 1] = 88
    assert pose(to_the_side) == pytest.approx((0.4, 0.5))
    assert pose(down) == pytest.approx((0.0, 0.95))
    facts = PhotoFacts(
        faces=1, box=(0, 0, 99, 99), confidence=0.8, face_size=99, sharpness=99, turn=-0.4, nod=0.95, outside=0.25
    )
    assert [warning.split(":")[0] for warning in facts.warnings] == [
        "the detector is only 80% sure of this face",
        "the head is turned to the side",
        "the head is tilted up or down",
        "25% of the face is not on the photo",
    ]


def test_sharpness_falls_with_blur(rng):
    crop = rng.integers(0, 256, (112, 112, 3), dtype=np.uint8)
    values = [sharpness(cv2.GaussianBlur(crop, (0, 0), sigma)) for sigma in (0.5, 1, 2, 4)]
    assert values == sorted(values, reverse=True)
    assert sharpness(np.zeros((112, 112, 3), dtype=np.uint8)) == 0


def test_photos_of_two_persons_in_one_query_are_noticed(photo_encoder, faces):
    *of_one, of_another = encoded(photo_encoder, faces, "person_00[01]/*.jpg")[:6]

    def encodings(photos):
        return Encodings.of([photo.image_id for photo in photos], np.stack([photo.embedding for photo in photos]))

    limit = photo_encoder.manifest.same_person_distance
    assert odd_pairs(encodings(of_one), limit) == []
    warnings = odd_pairs(encodings([*of_one[:2], of_another]), limit)
    assert len(warnings) == 2
    assert all("person_001/photo_0.jpg' look like two persons (distance " in warning for warning in warnings)
    assert odd_pairs(encodings([*of_one, of_another]), None) == []
    again = EncodedPhoto("copy.jpg", of_one[0].embedding, of_one[0].facts)
    (warning,) = odd_pairs(encodings([*of_one, again]), limit)
    assert warning == "'person_000/photo_0.jpg' and 'copy.jpg' are the same photo, which counts twice"


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(photo_encoder, faces, tmp_path, monkeypatch):
    photos = [Photo(path.name, path, "main") for path in sorted(faces.glob("person_000/*.jpg"))]
    undisturbed = list(photo_encoder.encode(photos))
    journal = Journal(tmp_path / "out.partial", photo_encoder.encoder)
    calls = []

    def cut_off(done, _all):
        calls.append(done)
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("mien.encoding.journal.COMMIT_EVERY", 1)
    with pytest.raises(KeyboardInterrupt):
        encode_into(journal, photo_encoder, photos, cut_off)
    journal.close()
    again = Journal(tmp_path / "out.partial", photo_encoder.encoder)
    assert [again.has(photo) for photo in photos] == [True] * 3 + [False] * 2
    calls.clear()
    results = encode_into(again, photo_encoder, photos, lambda done, _all: calls.append(done))
    assert calls == [3, 4, 5]
    for result, expected in zip(results, undisturbed, strict=True):
        assert result.image_id == expected.image_id
        assert result.facts == expected.facts
        np.testing.assert_allclose(result.embedding, expected.embedding, rtol=1e-4, atol=1e-4)
    assert (tmp_path / "out.partial").stat().st_mode & 0o077 == 0  # embeddings are biometric data
    again.close()


def test_a_changed_photo_or_encoder_is_encoded_anew(photo_encoder, faces, tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes((faces / "person_000" / "photo_0.jpg").read_bytes())
    photos = [Photo("it", path)]
    journal = Journal(tmp_path / "out.partial", photo_encoder.encoder)
    (first,) = encode_into(journal, photo_encoder, photos, silent)
    path.write_bytes((faces / "person_001" / "photo_0.jpg").read_bytes())
    (second,) = encode_into(journal, photo_encoder, photos, silent)
    assert np.abs(first.embedding - second.embedding).max() > 0.1
    journal.close()
    other = photo_encoder.manifest.model_copy(update={"name": "another"}).encoder
    assert not Journal(tmp_path / "out.partial", other).has(photos[0])


def test_a_refused_photo_gets_another_chance_and_a_single_face_needs_no_choice(photo_encoder, faces, tmp_path):
    one, two = faces / "person_002" / "photo_1.jpg", faces / "person_030" / "photo_0.jpg"
    journal = Journal(tmp_path / "out.partial", photo_encoder.encoder)
    encode_into(journal, photo_encoder, [Photo("one", one), Photo("two", two)], silent)
    assert [journal.has(Photo("one", one, face)) for face in (None, "main", 1, 2)] == [True, True, True, False]
    assert [journal.has(Photo("two", two, face)) for face in (None, "main", 1, 2)] == [False] * 4
    encode_into(journal, photo_encoder, [Photo("two", two, 2)], silent)
    assert [journal.has(Photo("two", two, face)) for face in (None, "main", 1, 2)] == [False, False, False, True]
    journal.close()


def test_two_runs_do_not_share_a_journal(photo_encoder, tmp_path):
    first = Journal(tmp_path / "out.partial", photo_encoder.encoder)
    with pytest.raises(MienError, match="another run is at work on this output"):
        Journal(tmp_path / "out.partial", photo_encoder.encoder)
    first.close()
    Journal(tmp_path / "out.partial", photo_encoder.encoder).close()


def test_a_journal_that_is_none_is_left_alone(photo_encoder, tmp_path):
    (tmp_path / "notes.partial").write_text("somebody's notes, long enough to be looked at " * 99)
    with pytest.raises(InvalidFileError, match="not the work of a run that was cut off"):
        Journal(tmp_path / "notes.partial", photo_encoder.encoder)
    assert (tmp_path / "notes.partial").read_text().startswith("somebody's notes")
    with sqlite3.connect(tmp_path / "other.partial") as other:
        other.execute("CREATE TABLE photo (image_id TEXT)")
    other.close()
    with pytest.raises(InvalidFileError, match="somebody else's database"):
        Journal(tmp_path / "other.partial", photo_encoder.encoder)


def test_whoever_stops_asking_does_not_wait_for_the_rest(photo_encoder, faces, monkeypatch):
    read = []

    def counted(source):
        read.append(source)
        return source.read_bytes()

    monkeypatch.setattr("mien.encoding.photo_encoder.read_photo", counted)
    many = 10 * PHOTOS_PER_BATCH * (os.cpu_count() or 1)
    results = photo_encoder.encode([Photo(str(n), faces / "person_002" / "photo_1.jpg") for n in range(many)])
    next(results)
    results.close()
    assert len(read) < many / 2


@pytest.mark.long
def test_memory_stays_bounded_however_many_photos_there_are(photo_encoder, faces):
    paths = sorted(faces.glob("person_00[0-3]/*.jpg"))
    many = [Photo(f"{n}", paths[n % len(paths)], "main") for n in range(60)]
    list(photo_encoder.encode(many[:20]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    list(photo_encoder.encode(many))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 100  # megabytes


def test_links_below_a_folder_are_named_or_followed(tmp_path):
    for name in ("in/1.jpg", "in/sub/2.jpg", "out/3.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folder = tmp_path / "in"
    for name, to in {"loop": ".", "sub/up": "..", "out": "../out", "4.jpg": "../out/3.jpg", "gone.jpg": "no"}.items():
        (folder / name).symlink_to(to)
    said = []
    assert list(find_photos([folder], say=said.append)) == ["1.jpg", "sub/2.jpg"]
    assert said == ["5 links were not followed, --follow-links does that: 'loop', 'out', '4.jpg', 'gone.jpg', 'sub/up'"]
    followed = find_photos([folder], follow_links=True, say=said.append)
    assert list(followed) == ["1.jpg", "4.jpg", "gone.jpg", "out/3.jpg", "sub/2.jpg"]  # each folder once
    (folder / "self.jpg").symlink_to("self.jpg")
    assert "self.jpg" in find_photos([folder], follow_links=True)
    with pytest.raises(InvalidPhotoError, match="it cannot be read: Too many levels of symbolic links"):
        read_photo(folder / "self.jpg")
    (folder / "self.jpg").unlink()
    (tmp_path / "links").symlink_to(folder)
    assert list(find_photos([tmp_path / "links", folder / "4.jpg"], say=said.append)) == ["1.jpg", "sub/2.jpg", "4.jpg"]
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "3.jpg").symlink_to(tmp_path / "out" / "3.jpg")
    with pytest.raises(InvalidFileError, match="no files in this folder, only links: --follow-links follows them"):
        find_photos([tmp_path / "only"])
    with pytest.warns(UserWarning, match="5 links were not followed"):
        find_photos([folder])


def test_photos_are_known_by_their_path_below_the_folder(tmp_path):
    for name in ("b/2.jpg", "a.png", ".hidden.jpg", ".git/x", "b/c/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(find_photos([tmp_path])) == ["a.png", "b/2.jpg", "b/c/1.jpg"]
    assert list(find_photos([tmp_path / "b" / "2.jpg", tmp_path / "a.png"])) == ["2.jpg", "a.png"]


def test_names_that_cannot_be_told_apart_or_shown_are_refused(tmp_path):
    for name in ("a/1.jpg", "b/1.jpg", "c/12_rot.jpg", "c/12.jpg", "d/x\u202ey.jpg", "e/" + "n" * 250 + ".jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(InvalidFileError, match=r"are both image '1\.jpg'"):
        find_photos([tmp_path / "a", tmp_path / "b"])
    assert list(find_photos([tmp_path / "c"])) == ["12.jpg", "12_rot.jpg"]
    with pytest.raises(InvalidFileError, match="are both image '12'"):
        find_photos([tmp_path / "c"], short_ids=True)
    assert list(find_photos([tmp_path / "a"], short_ids=True)) == ["1"]
    with pytest.raises(InvalidFileError, match=r"x\\u202ey.jpg' has characters that cannot be shown"):
        find_photos([tmp_path / "d"])
    assert "1.jpg" in find_photos([tmp_path / "d", tmp_path / "a"], wanted={"1.jpg"})
    assert list(find_photos([tmp_path / "e"])) == ["n" * 250 + ".jpg"]
    with pytest.raises(InvalidFileError, match="no such file or folder"):
        find_photos([tmp_path / ".." / "not there"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidFileError, match="no files in this folder"):
        find_photos([tmp_path / "empty"])

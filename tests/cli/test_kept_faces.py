"""`gallery build --keep-faces` and `gallery add-faces`."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from mien import Gallery
from mien.encoding.photo_encoder import Photo
from mien.simulation.photos import DrawnPerson

from pictures import noisy_crop, saved, two_portraits


@pytest.fixture
def folder(default_encoder, tmp_path, rng):
    """A photo of each of five patients with one disorder, and one of a sixth patient that is in no table."""
    (tmp_path / "photos" / "ward").mkdir(parents=True)
    for number in range(6):
        photo = saved(DrawnPerson.drawn(rng).photo(rng, 300), "JPEG")
        (tmp_path / "photos" / "ward" / f"{number}.jpg").write_bytes(photo)
    rows = [f"ward/{number}.jpg,patient {number},d" for number in range(5)]
    (tmp_path / "table.csv").write_text("\n".join(["image_id,subject,label", *rows]))
    return tmp_path


def build(mien, folder, *options, command="build"):
    where = ("--photos", folder / "photos", "--metadata", folder / "table.csv")
    return mien("gallery", command, folder / "g", *where, *options)


def pixels(crop):
    return np.asarray(Image.open(io.BytesIO(crop)))


def info(mien, directory):
    return json.loads(mien("gallery", "info", directory, "--json")[1])


def test_faces_are_kept_only_where_it_is_asked_for(mien, folder, photo_encoder):
    code, _, err = build(mien, folder)
    assert code == 0, err
    assert info(mien, folder / "g")["faces_kept"] == 0
    code, _, err = build(mien, folder, "--keep-faces")  # of the images that are there
    assert code == 0, err
    assert info(mien, folder / "g")["faces_kept"] == 5
    kept = Gallery.open(folder / "g").faces
    for number in range(5):
        face = photo_encoder.find_face(Photo("", folder / "photos" / "ward" / f"{number}.jpg"))
        np.testing.assert_array_equal(pixels(kept.crop(f"ward/{number}.jpg")), face.crop)
    assert kept.composite("d") is not None


def test_a_build_that_was_cut_off_goes_on_with_its_faces(mien, folder, monkeypatch):
    good = (folder / "photos" / "ward" / "4.jpg").read_bytes()
    (folder / "photos" / "ward" / "4.jpg").write_text("not a photo")
    assert build(mien, folder)[0] == 1  # without faces in its journal: they are encoded again
    assert build(mien, folder, "--keep-faces")[0] == 1
    assert not (folder / "g").exists()
    (folder / "photos" / "ward" / "4.jpg").write_bytes(good)
    encoded = []
    monkeypatch.setattr("mien.encoding.photo_encoder.PhotoEncoder.encode_batch", counted(encoded, "encode_batch"))
    code, _, err = build(mien, folder, "--keep-faces", "--composite-patients", "3")
    assert code == 0, err
    assert encoded == ["ward/4.jpg"]
    kept = Gallery.open(folder / "g").faces
    assert (kept.count(), kept.composite_patients()) == (5, 3)
    assert not list(folder.glob("*.partial"))


def counted(encoded, name):
    from mien.encoding.photo_encoder import PhotoEncoder

    original = getattr(PhotoEncoder, name)

    def run(self, photos, *others):
        encoded.extend(photo.image_id for photo in photos)
        return original(self, photos, *others)

    return run


def encodings_gallery(mien, tmp_path, image_ids):
    rows = [f'{i},p{i},d,"[{n}.5, 1.0, {n * n}.0]"' for n, i in enumerate(image_ids)]
    (tmp_path / "cohort.csv").write_text("\n".join(["image_id,patient_id,disorder_id,embedding", *rows]))
    assert mien("gallery", "build", tmp_path / "g", "--encodings", tmp_path / "cohort.csv")[0] == 0
    return tmp_path / "g"


def test_official_crops_are_taken_as_they_are(mien, tmp_path, rng, monkeypatch):
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path / "no weights"))
    directory = encodings_gallery(mien, tmp_path, ["10", "11", "12", "13"])
    (tmp_path / "crops" / "sub").mkdir(parents=True)
    files = {image: saved(noisy_crop(rng), "JPEG", quality=80) for image in ("10", "12", "99")}
    for image, content in files.items():
        (tmp_path / "crops" / "sub" / f"{image}_rot_aligned.jpg").write_bytes(content)
    before = Gallery.open(directory)
    code, out, err = mien("gallery", "add-faces", directory, "--photos", tmp_path / "crops")
    assert code == 0, err
    assert "2 faces added, 2 are kept now; 0 disorders have a composite" in out
    assert "1 files of no image: 'sub/99_rot_aligned.jpg'" in err
    assert "2 images without file: '11', '13'" in err
    kept = Gallery.open(directory).faces
    for image in ("10", "12"):
        np.testing.assert_array_equal(pixels(kept.crop(image)), pixels(files[image]))
    (tmp_path / "crops" / "11.png").write_bytes(saved(noisy_crop(rng)))
    _, out, _ = mien("gallery", "add-faces", directory, "--photos", tmp_path / "crops", "--json")
    assert json.loads(out) == {
        "faces_added": 1,
        "faces_kept": 3,
        "composites": 0,
        "photos_refused": [],
        "files_of_no_image": ["sub/99_rot_aligned.jpg"],
        "images_without_file": ["13"],
    }
    assert Gallery.open(directory).generation == before.generation
    (tmp_path / "crops" / "13.jpg").write_bytes(saved(two_portraits()[:, :300]))
    code, _, err = mien("gallery", "add-faces", directory, "--photos", tmp_path / "crops")
    assert code == 1
    assert "mien weights get" in err
    assert Gallery.open(directory).faces.count() == 3


def test_photos_are_aligned_and_those_that_do_not_do_are_named(mien, tmp_path, rng, photo_encoder):
    directory = encodings_gallery(mien, tmp_path, ["a/1.jpg", "2", "3"])
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "1.jpg").write_bytes(saved(DrawnPerson.drawn(rng).photo(rng, 300), "JPEG"))
    (tmp_path / "photos" / "2.jpg").write_bytes(saved(two_portraits(), "JPEG"))
    (tmp_path / "photos" / "3.jpg").write_text("text")
    command = ("gallery", "add-faces", directory, "--photos", tmp_path / "photos", "--json")
    code, out, err = mien(*command)
    assert code == 0, err
    refused = json.loads(out)["photos_refused"]
    assert [line.partition(":")[0] for line in refused] == ["photo '2'", "photo '3'"]
    code, out, _ = mien(*command, "--face", "2=2")
    assert json.loads(out)["faces_added"] == 1
    kept = Gallery.open(directory).faces
    for image_id, face in {"a/1.jpg": None, "2": 2}.items():
        path = tmp_path / "photos" / (image_id if "/" in image_id else f"{image_id}.jpg")
        np.testing.assert_array_equal(pixels(kept.crop(image_id)), photo_encoder.find_face(Photo("", path, face)).crop)


def test_two_files_of_one_image_and_wrong_usage_are_refused(mien, tmp_path, rng):
    directory = encodings_gallery(mien, tmp_path, ["1", "2"])
    (tmp_path / "crops").mkdir()
    for name in ("1.png", "1_rot_aligned.png"):
        (tmp_path / "crops" / name).write_bytes(saved(noisy_crop(rng)))
    code, _, err = mien("gallery", "add-faces", directory, "--photos", tmp_path / "crops")
    assert code == 1
    assert "are both image '1'" in err
    add = ("gallery", "add", directory, "--encodings", tmp_path / "cohort.csv")
    assert mien(*add, "--keep-faces")[0] == 2
    assert mien("gallery", "add-faces", directory, "--photos", tmp_path / "crops", "--composite-patients", "2")[0] == 2
    assert mien("gallery", "add-faces", directory, "--photos", tmp_path / "nothing")[0] == 1

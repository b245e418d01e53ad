from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from mien.cli.main import main
from mien.encoding.store import MANIFEST, stored_encoder
from mien.storage.loading import read_encodings

from pictures import two_portraits, unsure_portrait

GALLERY_PHOTOS, QUERY_PHOTOS = (0, 1, 2), (3, 4)


@pytest.fixture(scope="session")
def folder(default_encoder, faces, tmp_path_factory):
    """Eight persons whose photos show one face each, as a lab would keep them: a folder and a table."""
    root = tmp_path_factory.mktemp("lab")
    chosen = ("005", "009", "014", "016", "017", "020", "021", "023")
    rows = []
    for number in chosen:
        (root / "photos" / number).mkdir(parents=True)
        for photo in range(5):
            shutil.copy(faces / f"person_{number}" / f"photo_{photo}.jpg", root / "photos" / number / f"{photo}.jpg")
        rows += [(f"{number}/{photo}.jpg", f"patient {number}", f"disorder {number}") for photo in GALLERY_PHOTOS]
    with (root / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image_id", "subject", "label"), *rows])
    return root


@pytest.fixture(scope="session")
def gallery(folder, tmp_path_factory):
    """A gallery of them, for tests that leave it as it is; the others copy it."""
    directory = tmp_path_factory.mktemp("built") / "g"
    arguments = ["mien", "gallery", "build", directory, "--photos", folder / "photos", "--face", "main", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [*map(str, arguments), "--metadata", str(folder / "table.csv")])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return directory


def build(mien, folder, directory, *options):
    return mien(
        "gallery", "build", directory, "--photos", folder / "photos", "--metadata", folder / "table.csv",
        "--face", "main", *options,
    )  # fmt: skip


def test_photos_of_a_patient_are_ranked_against_a_gallery_of_photos(mien, folder, tmp_path):
    code, out, err = build(mien, folder, tmp_path / "g")
    assert code == 0, err
    assert "24 images added" in out
    assert "16 images are in no table" in err
    assert not list(tmp_path.glob("*.partial"))
    photos = [folder / "photos" / "014" / f"{photo}.jpg" for photo in QUERY_PHOTOS]
    code, out, err = mien("rank", "--gallery", tmp_path / "g", *photos, "--face", "main", "--json")
    assert code == 0, err
    answer = json.loads(out)
    (query,) = answer["queries"]
    assert query["disorders"][0]["disorder_id"] == "disorder 014"
    assert query["image_ids"] == ["3.jpg", "4.jpg"]
    assert query["excluded_gallery_patients"] == []
    assert [photo["image_id"] for photo in answer["photos"]] == ["3.jpg", "4.jpg"]
    assert {"confidence", "face_size", "sharpness", "box", "warnings"} <= set(answer["photos"][0])
    assert [photo["device"] for photo in answer["photos"]] == ["cpu", "cpu"]
    assert answer["gallery"]["encoder"]["name"] == "mobilefacenet"
    again, out, _ = build(mien, folder, tmp_path / "g")
    assert again == 0
    assert "0 images added, 24 there already" in " ".join(out.split())


def test_a_photo_of_the_gallery_is_recognised_whatever_its_name(mien, folder, gallery, tmp_path):
    shutil.copy(folder / "photos" / "014" / "0.jpg", tmp_path / "unknown.jpg")
    _, out, _ = mien("rank", "--gallery", gallery, tmp_path / "unknown.jpg", "--face", "main", "--json")
    (query,) = json.loads(out)["queries"]
    assert query["excluded_gallery_patients"] == ["patient 014"]


def test_photos_of_two_persons_are_answered_with_a_warning(mien, folder, gallery, tmp_path):
    shutil.copy(folder / "photos" / "017" / "3.jpg", tmp_path / "other.jpg")
    photos = [folder / "photos" / "014" / "3.jpg", tmp_path / "other.jpg"]
    code, _, err = mien("rank", "--gallery", gallery, *photos, "--face", "main")
    assert code == 0
    assert "'3.jpg' and 'other.jpg' look like two persons (distance " in err
    code, out, _ = mien("rank", "--gallery", gallery, *photos, "--face", "main", "--json")
    answer = json.loads(out)
    (warning,) = answer["warnings"]
    assert "look like two persons" in warning
    lines = {line["disorder_id"]: line for line in answer["queries"][0]["disorders"]}
    assert [lines[f"disorder {who}"]["alone"][place]["rank"] for place, who in enumerate(("014", "017"))] == [1, 1]
    assert [lines[f"disorder {who}"]["without"][place]["rank"] for place, who in enumerate(("017", "014"))] == [1, 1]


def test_a_photo_without_a_face_or_with_two_is_refused_with_the_reason(mien, gallery, faces, tmp_path):
    noise = np.random.default_rng(3).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    two = faces / "person_030" / "photo_0.jpg"
    code, out, err = mien("rank", "--gallery", gallery, tmp_path / "noise.png", two)
    assert (code, out) == (1, "")
    assert "photo 'noise.png': no face was found" in err
    assert "photo 'photo_0.jpg': 2 faces: face 1 at (" in err
    assert "--face main takes the most prominent one" in err
    for choice, number in (("2", 2), ("photo_0.jpg=1", 1), ("main", 2)):
        code, out, _ = mien("rank", "--gallery", gallery, two, "--face", choice, "--json")
        assert code == 0
        (photo,) = json.loads(out)["photos"]
        assert (photo["box"][0] > 50) == (number == 2)
        assert any("one of 2 faces" in warning for warning in photo["warnings"])


@pytest.mark.parametrize(
    "options",
    [("--face", "0"), ("--face", "x=1"), ("--face", "left"), ("--metadata", "t.csv"), ("--encodings", "e.csv")],
)
def test_wrong_usage_of_photos_has_exit_code_two(mien, folder, gallery, tmp_path, options):
    photos = [folder / "photos" / "014" / f"{photo}.jpg" for photo in QUERY_PHOTOS]
    assert mien("rank", "--gallery", gallery, *photos, *options)[0] == 2
    assert mien("rank", "--gallery", gallery)[0] == 2
    assert mien("rank", "--gallery", gallery, *photos, "--face", "1")[0] == 2  # of which photo?
    assert mien("gallery", "build", tmp_path / "n", "--photos", folder / "photos")[0] == 2  # who is on them?
    assert mien("gallery", "build", tmp_path / "n")[0] == 2
    assert mien("rank", "--gallery", gallery, photos[0], "--face", "=1")[0] == 2
    assert mien("rank", "--gallery", gallery, photos[0], "--face", "9" * 5000)[0] == 2
    assert mien("rank", "--gallery", gallery, photos[0], "--face", "main", "--face", "1")[0] == 2


def test_a_gallery_is_built_of_all_its_photos_or_says_which_are_missing(mien, folder, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(folder / "photos", photos)
    (photos / "005" / "0.jpg").write_text("not a photo")
    (photos / "009" / "1.jpg").unlink()
    arguments = ("gallery", "build", tmp_path / "g", "--photos", photos, "--metadata", folder / "table.csv")
    code, _, err = mien(*arguments, "--face", "main")
    assert code == 1
    assert "there is no photo '009/1.jpg'" in err
    assert not (tmp_path / "g").exists()
    shutil.copy(folder / "photos" / "009" / "1.jpg", photos / "009" / "1.jpg")
    code, _, err = mien(*arguments, "--face", "main")
    assert code == 1
    assert "photo '005/0.jpg': it is text" in err
    assert not (tmp_path / "g").exists()
    code, out, _ = mien(*arguments, "--face", "main", "--allow-missing", "--json")
    assert code == 0
    assert json.loads(out)["images_without_encoding"] == ["005/0.jpg"]
    assert json.loads(out)["images_added"] == 23


def test_ids_of_a_table_never_reach_the_file_system(mien, folder, tmp_path):
    shutil.copy(folder / "photos" / "005" / "0.jpg", tmp_path / "secret.jpg")
    (tmp_path / "table.csv").write_text("image_id,subject,label\n../../secret.jpg,p,d\n")
    options = ("--photos", folder / "photos", "--metadata", tmp_path / "table.csv")
    code, _, err = mien("gallery", "build", tmp_path / "g", *options)
    assert code == 1
    assert "there is no photo '../../secret.jpg'" in err


def test_encodings_are_written_as_parquet_and_in_the_official_layout(mien, folder, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, name in enumerate(("11.jpg", "12_rot_aligned.jpg", "13.jpg")):
        shutil.copy(folder / "photos" / "014" / f"{number}.jpg", photos / name)
    (photos / "14.txt").write_text("notes")
    code, out, err = mien("encode", photos, "--out", tmp_path / "e.parquet", "--face", "main")
    assert code == 0, err
    assert "3 of 4 photos encoded by mobilefacenet" in out
    assert "photo '14.txt': it is text" in err
    rows = list(csv.DictReader((tmp_path / "e.parquet.photos.csv").read_text().splitlines()))
    assert [row["image_id"] for row in rows] == ["14.txt", "11.jpg", "12_rot_aligned.jpg", "13.jpg"]
    assert [row["encoded"] for row in rows] == ["no", "yes", "yes", "yes"]
    assert [row["device"] for row in rows] == ["", "cpu", "cpu", "cpu"]
    assert "text" in rows[0]["reason"]
    assert mien("encode", photos, "--out", tmp_path / "e.csv", "--face", "main")[0] == 0
    parquet, official = (read_encodings(tmp_path / name).encodings for name in ("e.parquet", "e.csv"))
    assert parquet.image_ids == ("11.jpg", "12_rot_aligned.jpg", "13.jpg")
    assert official.image_ids == ("11", "12", "13")
    np.testing.assert_array_equal(official.embeddings, parquet.embeddings)
    assert official.encoder.representation_names == parquet.encoder.representation_names
    header, first = (tmp_path / "e.csv").read_text().splitlines()[:2]
    assert header == "img_name;model;flip;gray;class_conf;representations"
    assert first.startswith("11_rot_aligned.jpg;m0;0;0;[0];[")


def test_a_card_that_is_asked_for_and_not_there_ends_the_command(mien, folder, gallery, tmp_path):
    photo = folder / "photos" / "014" / "0.jpg"
    for command in (
        ("encode", photo, "--out", tmp_path / "e.parquet"),
        ("rank", "--gallery", gallery, photo, "--face", "main"),
        ("serve", "--gallery", gallery, "--port", "0"),
    ):
        code, out, err = mien(*command, "--device", "cuda")
        assert (code, out) == (1, "")
        assert "mien: no graphics card can be used: installed is onnxruntime" in err
    assert mien("encode", photo, "--out", tmp_path / "e.parquet", "--device", "cuda", "--cluster", "local")[0] == 2
    assert not list(tmp_path.iterdir())


def test_links_below_a_folder_of_photos_are_followed_only_if_asked(mien, folder, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    shutil.copy(folder / "photos" / "014" / "0.jpg", photos / "own.jpg")
    (photos / "loop").symlink_to(photos)
    (photos / "others").symlink_to(folder / "photos" / "017")  # out of the folder
    encode = ("encode", photos, "--out", tmp_path / "e.parquet", "--face", "main", "--json")
    code, out, err = mien(*encode)
    assert code == 0, err
    assert [photo["image_id"] for photo in json.loads(out)["photos"]] == ["own.jpg"]
    assert "2 links were not followed, --follow-links does that: 'loop', 'others'" in err
    (tmp_path / "t.csv").write_text("image_id,patient_id,disorder_id\nothers/0.jpg,p,D\nown.jpg,q,D\n")
    build = ("gallery", "build", tmp_path / "g", "--photos", photos, "--metadata", tmp_path / "t.csv", "--json")
    code, _, err = mien(*build)
    assert code == 1
    assert "there is no photo 'others/0.jpg'" in err
    assert "'others'" in err
    code, out, err = mien(*build, "--follow-links", "--face", "main")
    assert code == 0, err
    document = json.loads(out)
    assert (document["images_added"], document["device"]) == (2, "cpu")


def test_encode_says_what_it_cannot_do(mien, folder, tmp_path):
    photo = folder / "photos" / "014" / "0.jpg"
    assert "the suffix names the format" in mien("encode", photo, "--out", tmp_path / "e.txt")[2]
    assert "no encoder 'nobody'" in mien("encode", photo, "--out", tmp_path / "e.parquet", "--encoder", "nobody")[2]
    assert "lacks detector, m0, m1, m2" in mien("encode", photo, "--out", tmp_path / "e.csv", "--encoder", "gm-arc")[2]
    assert "no such file" in mien("encode", tmp_path / "gone", "--out", tmp_path / "e.parquet")[2]
    (tmp_path / "notes.txt").write_text("notes")
    code, _, err = mien("encode", tmp_path / "notes.txt", "--out", tmp_path / "e.parquet")
    assert code == 1
    assert "none of the 1 photos could be encoded" in err
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "e.parquet.photos.csv"}


@pytest.mark.long
def test_a_killed_run_goes_on_and_gives_the_same(mien, folder, tmp_path):
    program = "from mien.cli.main import main; main()"
    encode = ["encode", str(folder / "photos"), "--face", "main", "--out"]
    assert mien(*encode, tmp_path / "whole.parquet")[0] == 0
    command = [sys.executable, "-c", program, *encode, str(tmp_path / "cut.parquet")]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = tmp_path / "cut.parquet.partial"
    while run.poll() is None and not (journal.exists() and journal.stat().st_size > 40_000):
        time.sleep(0.005)
    run.kill()
    if run.wait() != 0:
        assert not (tmp_path / "cut.parquet").exists()
        assert mien(*encode, tmp_path / "cut.parquet")[0] == 0
    whole, cut = (read_encodings(tmp_path / name).encodings for name in ("whole.parquet", "cut.parquet"))
    assert whole.image_ids == cut.image_ids
    np.testing.assert_allclose(whole.embeddings, cut.embeddings, rtol=1e-4, atol=1e-4)
    assert not journal.exists()


def test_another_encoder_than_the_gallerys_is_refused_before_the_work(mien, folder, ten_syndromes, tmp_path):
    assert mien("gallery", "build", tmp_path / "g", "--encodings", ten_syndromes)[0] == 0
    code, _, err = mien("rank", "--gallery", tmp_path / "g", folder / "photos" / "014" / "3.jpg")
    assert code == 1
    assert "a photo is encoded by mobilefacenet (4 x 128" in err
    assert "the gallery by unnamed encoder (1 x 320)" in err


def test_weights_are_listed_and_verified(mien, default_encoder, tmp_path, monkeypatch):
    code, out, _ = mien("weights", "list", "--json")
    assert code == 0
    encoders = {encoder["name"]: encoder for encoder in json.loads(out)["encoders"]}
    assert encoders["mobilefacenet"]["missing"] == []
    assert encoders["gm-arc"]["missing"] == ["detector", "m0", "m1", "m2"]
    assert "MobileFaceNet" in mien("weights", "list")[1]
    assert mien("weights", "verify") == (0, "mobilefacenet: sound\n", "")
    assert mien("weights", "get")[0] == 0  # nothing to do
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path))
    shutil.copytree(default_encoder.folder, tmp_path / "mobilefacenet")
    network = tmp_path / "mobilefacenet" / "m0.onnx"
    content = bytearray(network.read_bytes())
    content[-1000] ^= 1
    network.write_bytes(bytes(content))
    code, out, _ = mien("weights", "verify")
    assert code == 1
    assert "SHA-256 differs: run `mien weights get mobilefacenet`" in " ".join(out.split())
    assert "damaged" in mien("weights", "list")[1]
    network.unlink()
    assert "run `mien weights get mobilefacenet`" in " ".join(mien("weights", "verify", "--json")[1].split())
    assert stored_encoder("mobilefacenet").missing() == ("m0",)


def test_an_encoder_can_be_a_folder(mien, folder, default_encoder, tmp_path):
    shutil.copytree(default_encoder.folder, tmp_path / "mine")
    manifest = json.loads((tmp_path / "mine" / MANIFEST).read_text())
    manifest["name"] = "mine"
    (tmp_path / "mine" / MANIFEST).write_text(json.dumps(manifest))
    photo = folder / "photos" / "014" / "0.jpg"
    code, out, err = mien("encode", photo, "--out", tmp_path / "e.parquet", "--encoder", tmp_path / "mine")
    assert code == 0, err
    assert "encoded by mine (4 x 128" in out
    del manifest["detector"]["strides"]
    manifest["models"][0]["input"]["deviation"] = [1, 0, 1]
    (tmp_path / "mine" / MANIFEST).write_text(json.dumps(manifest))
    code, _, err = mien("encode", photo, "--out", tmp_path / "f.parquet", "--encoder", tmp_path / "mine")
    assert code == 1
    assert "'detector.strides': Field required" in err
    assert "'models.0.input.deviation.1': Input should be greater than 0" in err


def test_encoded_photos_are_kept_until_they_are_in_the_gallery(mien, folder, gallery, tmp_path):
    shutil.copytree(gallery, tmp_path / "g")
    (tmp_path / "conflict.csv").write_text("image_id,subject,label\n014/0.jpg,somebody else,disorder 014\n")
    options = ("--photos", folder / "photos", "--metadata", tmp_path / "conflict.csv", "--face", "main")
    assert mien("gallery", "add", tmp_path / "g", *options)[0] == 1
    assert (tmp_path / "g.partial").exists()
    assert mien("gallery", "remove-patient", tmp_path / "g", "patient 005")[0] == 0
    assert not (tmp_path / "g.partial").exists()  # nothing of anybody who is gone
    (tmp_path / "g.partial").write_text("somebody's notes")
    assert mien("gallery", "remove-patient", tmp_path / "g", "patient 009")[0] == 0
    assert (tmp_path / "g.partial").exists()


def test_photos_are_added_with_the_gallerys_own_encoder(mien, folder, default_encoder, tmp_path):
    shutil.copytree(default_encoder.folder, tmp_path / "mine")
    manifest = json.loads((tmp_path / "mine" / MANIFEST).read_text())
    (tmp_path / "mine" / MANIFEST).write_text(json.dumps({**manifest, "name": "mine"}))
    assert build(mien, folder, tmp_path / "g", "--encoder", tmp_path / "mine")[0] == 0
    (tmp_path / "more.csv").write_text("image_id,subject,label\n014/3.jpg,patient 014,disorder 014\n")
    options = ("--photos", folder / "photos", "--metadata", tmp_path / "more.csv", "--face", "main")
    code, _, err = mien("gallery", "add", tmp_path / "g", *options)
    assert code == 1
    assert "a photo is encoded by mobilefacenet" in err
    assert mien("gallery", "add", tmp_path / "g", *options, "--encoder", tmp_path / "mine")[0] == 0


def test_photos_that_are_numbered_as_gmdbs_need_no_suffix(mien, folder, tmp_path, monkeypatch):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        shutil.copy(folder / "photos" / "014" / f"{number}.jpg", photos / f"{100 + number}_rot.jpg")
    (photos / "odd\u202e.jpg").touch()  # in no table: its name does not matter
    (tmp_path / "t.csv").write_text("image_id,subject,label\n100,p,d\n101,p,d\n102,q,d\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    options = ("--photos", photos, "--metadata", tmp_path / "t.csv", "--face", "main")
    code, _, err = mien("gallery", "build", ".", *options)
    assert code == 1
    assert "need --short-ids" in err
    assert mien("gallery", "build", ".", *options, "--short-ids")[0] == 0


def test_a_second_run_does_not_take_its_own_files_for_photos(mien, folder, tmp_path):
    shutil.copy(folder / "photos" / "014" / "0.jpg", tmp_path / "11.jpg")
    for force in ((), ("--force",)):
        code, out, err = mien("encode", tmp_path, "--out", tmp_path / "e.csv", "--face", "main", *force)
        assert code == 0, err
        assert "1 of 1 photos encoded" in " ".join(out.split())
    assert {path.name for path in tmp_path.iterdir()} == {"11.jpg", "e.csv", "e.csv.photos.csv"}
    assert (tmp_path / "e.csv").stat().st_mode & 0o077 == 0
    shutil.copy(tmp_path / "11.jpg", tmp_path / "=1.jpg")
    code, _, err = mien("encode", tmp_path / "=1.jpg", "--out", tmp_path / "f.csv", "--face", "main")
    assert code == 1
    assert "formula" in err
    assert not (tmp_path / "f.csv.partial").exists()  # refused before the work
    assert mien("encode", tmp_path, "--out", tmp_path / "no" / "f.csv")[0] == 1


def test_nothing_is_kept_or_told_beside_what_was_asked_for(folder, default_encoder, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "MIEN_CACHE": str(default_encoder.folder.parent)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    program = "from mien.cli.main import main; main()"
    command = [sys.executable, "-c", program, "encode", str(folder / "photos" / "014"), "--face", "main"]
    run = subprocess.run(
        [*command, "--out", str(tmp_path / "e.parquet")], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    assert not list(home.rglob("*"))
    assert {path.name for path in tmp_path.iterdir()} == {"home", "e.parquet", "e.parquet.photos.csv"}


@pytest.fixture
def drawn_photos(default_encoder, tmp_path):
    """Drawn portraits: one face, two faces, a face that the detector is not sure of, none at all."""
    (tmp_path / "drawn").mkdir()
    pictures = {
        "one": two_portraits()[:, :300],
        "two": two_portraits(),
        "unsure": unsure_portrait(),
        "white": np.full((300, 300, 3), 255, np.uint8),
    }
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(tmp_path / "drawn" / f"{name}.png")
    return tmp_path / "drawn"


def test_photos_that_only_mien_refuses_do_not_end_a_study(mien, drawn_photos, tmp_path):
    code, out, err = mien("encode", drawn_photos, "--out", tmp_path / "e.parquet", "--face", "official", "--json")
    assert code == 0, err
    reasons = {photo["image_id"]: photo.get("taken_as_official") for photo in json.loads(out)["photos"]}
    assert list(reasons) == ["one.png", "two.png", "unsure.png", "white.png"]
    assert (reasons["one.png"], reasons["white.png"]) == (None, None)
    assert reasons["two.png"].startswith("2 faces: face 1 at")
    assert reasons["unsure.png"].startswith("no face was found")
    rows = csv.DictReader((tmp_path / "e.parquet.photos.csv").read_text().splitlines())
    found = {row["image_id"]: (row["encoded"], row["taken_as_official"]) for row in rows}
    assert found == {
        "white.png": ("no", ""),
        **{name: ("yes", reasons[name] or "") for name in ("one.png", "two.png", "unsure.png")},
    }
    code, _, err = mien("encode", drawn_photos, "--out", tmp_path / "again.parquet", "--face", "official")
    assert code == 0
    assert "2 photos that would have been refused were taken as officially" in err
    code, out, _ = mien("encode", drawn_photos, "--out", tmp_path / "strict.parquet", "--json")
    assert json.loads(out)["encoded"] == 1


def test_a_gallery_takes_them_too_and_a_chosen_face_comes_first(mien, drawn_photos, tmp_path):
    (tmp_path / "t.csv").write_text("image_id,subject,label\none.png,p,d\ntwo.png,q,d\nunsure.png,r,e\n")
    options = ("--photos", drawn_photos, "--metadata", tmp_path / "t.csv", "--face", "official")
    code, _, err = mien("gallery", "build", tmp_path / "g", *options)
    assert code == 0, err
    assert "photo 'unsure.png': the surest face was taken, as officially" in err
    options = ("--face", "official", "--face", "two.png=2", "--json", "--out", tmp_path / "e.parquet")
    photos = json.loads(mien("encode", drawn_photos, *options)[1])["photos"]
    assert photos[1]["taken_as_official"] is None
    assert photos[1]["box"][0] > 300
    code, _, err = mien("rank", "--gallery", tmp_path / "g", drawn_photos / "two.png", "--face", "official")
    assert code == 2
    assert "is for studies" in err

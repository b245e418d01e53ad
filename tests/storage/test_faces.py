"""Faces that a gallery keeps: stored, erased, checked; and composites, which must not show anybody."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from mien import Cohort, Encodings, Gallery, Label, calibrate
from mien.encoding.alignment import png_of
from mien.errors import CorruptGalleryError, GalleryError, MienError
from mien.storage import changes, faces
from mien.storage.learned import store_calibration
from mien.storage.verification import problems

import processes
from cohorts import families, random_cohort
from oracle import composite
from pictures import noisy_crop, saved


def cohort_of(rng, patients_of_disorder, prefix="", photos=2):
    """Disorders of so many patients, every second of whom has more photos than one."""
    labels = [
        Label(f"{prefix}{disorder}-{patient}-{photo}.jpg", f"{prefix}person-{disorder}-{patient}", disorder)
        for disorder, patients in patients_of_disorder.items()
        for patient in range(patients)
        for photo in range(1 + patient % photos)
    ]
    embeddings = rng.standard_normal((len(labels), 1, 4)).astype(np.float32)
    return Cohort.join(Encodings.of([label.image_id for label in labels], embeddings), labels)


class Lab:
    """A gallery with a face for every image, and what its keeper knows of them."""

    def __init__(self, directory, rng):
        self.directory, self.rng = directory, rng
        self.pixels, self.labels = {}, []

    def add(self, cohort, **options):
        (Gallery.add if self.directory.exists() else Gallery.build)(self.directory, cohort)
        self.labels += cohort.roster.labels()
        new = {image_id: noisy_crop(self.rng) for image_id in cohort.roster.image_ids}
        self.pixels |= new
        return Gallery.add_faces(self.directory, {key: png_of(crop) for key, crop in new.items()}, **options)

    def remove(self, patient_id):
        Gallery.remove_patients(self.directory, [patient_id])
        self.labels = [label for label in self.labels if label.patient_id != patient_id]

    def blocks(self):
        """{block: {patient_id: [image_id, ...]}}, as it is stored."""
        found = {}
        with sqlite3.connect(self.directory / "gallery.sqlite") as database:
            for block, patient_id, image_id in database.execute(
                "SELECT block, patient_id, image_id FROM face JOIN image USING (image_key)"
                " JOIN patient ON patient.patient_key = image.patient_key WHERE block IS NOT NULL"
            ):
                found.setdefault(block, {}).setdefault(patient_id, []).append(image_id)
        database.close()
        return found

    def composite(self, disorder_id="d"):
        return Gallery.open(self.directory).faces.composite(disorder_id)

    def face(self, patient_id):
        """The mean face of one patient."""
        image_ids = dict.fromkeys(label.image_id for label in self.labels if label.patient_id == patient_id)
        return np.mean([self.pixels[image_id] for image_id in image_ids], axis=0)

    def block_mean(self, block):
        return np.mean([np.mean([self.pixels[i] for i in images], axis=0) for images in block.values()], axis=0)


@pytest.fixture
def lab(tmp_path, rng):
    return Lab(tmp_path / "gallery", rng)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "said").mkdir()
    return partial(processes.run, tmp_path / "said" / "stderr")


# storing


def test_a_gallery_without_faces_says_so(lab, rng):
    Gallery.build(lab.directory, cohort_of(rng, {"d": 6}))
    kept = Gallery.open(lab.directory).faces
    assert (kept.count(), kept.crop("d-0-0.jpg"), kept.composite("d")) == (0, None, None)
    assert kept.of_images(["d-0-0.jpg"]) == kept.of_disorders(["d"]) == set()
    assert list(problems(lab.directory)) == []


def test_faces_come_back_as_they_were_and_only_where_there_are_some(lab, rng):
    added = lab.add(cohort_of(rng, {"d": 6, "e": 4}))
    assert (added.faces_added, added.faces_kept, added.composites) == (15, 15, 1)
    kept = Gallery.open(lab.directory).faces
    for image_id, pixels in lab.pixels.items():
        assert kept.crop(image_id) == png_of(pixels)
    assert kept.of_images(["d-0-0.jpg", "nobody"]) == {"d-0-0.jpg"}
    assert kept.of_disorders(["d", "e", "f"]) == {"d"}
    assert kept.count() == 15
    assert list(problems(lab.directory)) == []


def test_faces_change_nothing_else_and_a_calibration_stays(tmp_path, rng):
    cohort = families(rng)
    Gallery.build(tmp_path / "gallery", cohort)
    store_calibration(tmp_path / "gallery", calibrate(Gallery.open(tmp_path / "gallery")))
    before, opened = index_bytes(tmp_path / "gallery"), Gallery.open(tmp_path / "gallery")
    Gallery.add_faces(tmp_path / "gallery", {i: png_of(noisy_crop(rng)) for i in cohort.roster.image_ids})
    now = Gallery.open(tmp_path / "gallery")
    assert (now.generation, now.fingerprint, now.learned) == (opened.generation, opened.fingerprint, opened.learned)
    assert len(now.learned) == 1
    assert index_bytes(tmp_path / "gallery") == before


def index_bytes(directory):
    return {path.name: path.read_bytes() for path in directory.glob("index-*")}


def test_adding_again_changes_nothing_and_a_face_is_never_replaced(lab, rng):
    cohort = cohort_of(rng, {"d": 6})
    lab.add(cohort)
    before = dump(lab.directory)
    again = Gallery.add_faces(lab.directory, {i: png_of(noisy_crop(rng)) for i in cohort.roster.image_ids})
    assert (again.faces_added, again.faces_kept) == (0, 9)
    assert dump(lab.directory) == before


def dump(directory):
    with sqlite3.connect(directory / "gallery.sqlite") as database:
        lines = list(database.iterdump())
    database.close()
    return lines


@pytest.mark.parametrize(
    ("crops", "message"),
    [
        ({"d-0-0.jpg": b"text"}, "no PNG of 112 x 112"),
        ({"d-0-0.jpg": saved(np.zeros((100, 112, 3), np.uint8))}, "no PNG of 112 x 112"),
        ({"d-0-0.jpg": saved(np.zeros((112, 112), np.uint8))}, "no PNG of 112 x 112"),
        ({"who": saved(np.zeros((112, 112, 3), np.uint8))}, "does not hold: 'who'"),
    ],
)
def test_what_is_no_face_of_an_image_is_refused_with_all_others(lab, rng, crops, message):
    Gallery.build(lab.directory, cohort_of(rng, {"d": 6}))
    before = dump(lab.directory)
    with pytest.raises(GalleryError, match=message):
        Gallery.add_faces(lab.directory, {"d-1-0.jpg": png_of(noisy_crop(rng)), **crops})
    assert dump(lab.directory) == before


def test_faces_that_are_cut_short_leave_nothing(lab, rng, monkeypatch):
    cohort = cohort_of(rng, {"d": 6})
    Gallery.build(lab.directory, cohort)
    before = dump(lab.directory)

    def cut(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(faces, "_make_blocks", cut)
    with pytest.raises(KeyboardInterrupt):
        lab.add(cohort)
    assert dump(lab.directory) == before


@pytest.mark.parametrize("galleries", [2, pytest.param(60, marks=pytest.mark.long)])
def test_an_import_of_faces_killed_at_any_moment_is_finished_by_the_same_command(tmp_path, rng, run, galleries):
    cohort = cohort_of(rng, {"d": 12, "e": 7}, photos=4)
    Gallery.build(tmp_path / "without", cohort)
    (tmp_path / "crops").mkdir()
    for image_id in cohort.roster.image_ids:
        (tmp_path / "crops" / image_id).write_bytes(saved(noisy_crop(rng), "JPEG"))
    shutil.copytree(tmp_path / "without", tmp_path / "undisturbed")
    undisturbed = run("gallery", "add-faces", tmp_path / "undisturbed", "--photos", tmp_path / "crops")
    assert undisturbed.code == 0
    whole, none = dump(tmp_path / "undisturbed"), dump(tmp_path / "without")
    kill = processes.Killer(run, undisturbed.seconds, seed=3)
    for number in kill.numbers(galleries, at_least=galleries / 4):
        directory = shutil.copytree(tmp_path / "without", tmp_path / f"gallery-{number}")
        command = ("gallery", "add-faces", directory, "--photos", tmp_path / "crops")
        kill(*command)
        assert dump(directory) in (whole, none)
        assert list(problems(directory)) == []
        assert run(*command).code == 0
        assert dump(directory) == whole


# erasure


def test_no_byte_of_a_removed_patients_faces_stays(lab, rng):
    for number in range(4):  # several imports: pages split and join
        lab.add(cohort_of(rng, {"d": 4, "e": 3}, prefix=f"{number}-", photos=3))
    kept = Gallery.open(lab.directory).faces
    gone = []
    for patient_id in rng.permutation([f"{n}-person-{d}-{p}" for n in range(4) for d in "de" for p in (0, 2)])[:6]:
        image_ids = [label.image_id for label in lab.labels if label.patient_id == patient_id]
        crops = [kept.crop(image_id) for image_id in image_ids]
        gone += [crop[start : start + 16] for crop in crops for start in range(50, len(crop) - 16, 1500)]
        gone += [lab.pixels[image_id].tobytes()[:24] for image_id in image_ids]
        gone += checksums(lab.directory, image_ids)
        lab.remove(str(patient_id))
        assert not kept.of_images(image_ids)
        for path in lab.directory.iterdir():
            data = path.read_bytes()
            assert not any(pattern in data for pattern in gone), path
        assert list(problems(lab.directory)) == []


def checksums(directory, image_ids):
    with sqlite3.connect(directory / "gallery.sqlite") as database:
        places = ", ".join("?" * len(image_ids))
        rows = database.execute(
            f"SELECT face.checksum FROM face JOIN image USING (image_key) WHERE image_id IN ({places})", image_ids
        ).fetchall()
    database.close()
    return [checksum for (checksum,) in rows]


# damage


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE face SET crop = CAST(substr(crop, 1, 900) AS BLOB) WHERE image_key = 2", "row 2 of table face"),
        ("UPDATE face SET checksum = x'00' WHERE image_key = 2", "row 2 of table face"),
        ("UPDATE face SET block = 7 WHERE image_key = 2", "row 2 of table face"),
        ("UPDATE face SET block = NULL WHERE image_key = 2", "row 2 of table face"),
        ("UPDATE face SET disorder_key = 2 WHERE image_key = 2", "row 2 of table face"),
        ("UPDATE face SET patient_key = 3 WHERE image_key = 2", "row 2 of table face"),
        ("UPDATE faces SET composite_patients = 4", "row 2 of table face"),
        ("DELETE FROM face WHERE image_key = 2", "faces are missing or were added"),
        ("DELETE FROM faces", "faces are missing or were added"),
    ],
)  # fmt: skip
def test_what_is_changed_is_named_and_is_in_no_composite(lab, rng, change, named):
    lab.add(cohort_of(rng, {"d": 5, "e": 5}, photos=1))
    with sqlite3.connect(lab.directory / "gallery.sqlite") as database:
        database.execute(change)
    database.close()
    assert any(named in problem for problem in problems(lab.directory))
    try:
        found = lab.composite()
    except CorruptGalleryError:
        return
    assert found is None


@pytest.mark.parametrize("flips", [60, pytest.param(3000, marks=pytest.mark.long)])
def test_no_flipped_bit_gives_a_traceback_or_another_picture(lab, rng, flips):
    lab.add(cohort_of(rng, {"d": 3}, photos=1), composite_patients=3)
    before = lab.composite(), Gallery.open(lab.directory).faces.crop("d-1-0.jpg")
    path = lab.directory / "gallery.sqlite"
    whole = path.read_bytes()
    kept = faces.Faces(lab.directory)
    for bit in rng.integers(8 * len(whole), size=flips).tolist():
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        for action, expected in ((lambda: kept.composite("d"), before[0]), (lambda: kept.crop("d-1-0.jpg"), before[1])):
            with suppress(MienError):
                assert (found := action()) is None or np.array_equal(found, expected)
        with suppress(MienError):
            list(problems(lab.directory))


def test_missing_faces_are_still_named_after_a_change(lab, rng):
    lab.add(cohort_of(rng, {"d": 6}))
    with sqlite3.connect(lab.directory / "gallery.sqlite") as database:
        database.execute("DELETE FROM face WHERE image_key = 2")
    database.close()
    lab.remove("person-d-4")
    assert "gallery.sqlite: faces are missing or were added" in problems(lab.directory)
    with pytest.raises(CorruptGalleryError, match="faces are missing"):
        Gallery.add_faces(lab.directory, {})


# composites


def test_a_composite_is_the_mean_of_whole_blocks(lab, rng):
    lab.add(cohort_of(rng, {"d": 12, "e": 4}, photos=3))
    blocks = lab.blocks().values()
    assert [len(block) for block in blocks] == [5, 5]
    assert lab.composite("e") is None
    found, place = lab.composite(), (slice(40, 44), slice(60, 64))
    of_patient = {p: [lab.pixels[i][place].tolist() for i in images] for block in blocks for p, images in block.items()}
    expected = composite(of_patient)
    for row, column, colour in np.ndindex(4, 4, 3):
        assert abs(found[place][row, column, colour] - expected[row][column][colour]) <= 0.5


def test_how_many_patients_make_a_block_is_fixed_by_the_first_faces(lab, rng):
    cohort = cohort_of(rng, {"d": 8})
    with pytest.raises(GalleryError, match="at least 3"):
        lab.add(cohort, composite_patients=2)
    lab.add(cohort, composite_patients=3)
    assert [len(block) for block in lab.blocks().values()] == [3, 3]
    assert lab.add(cohort_of(rng, {"d": 1}, prefix="new-")).composites == 1
    assert [len(block) for block in lab.blocks().values()] == [3, 3, 3]
    with pytest.raises(GalleryError, match="steps of 3"):
        lab.add(cohort, composite_patients=5)


def test_a_patient_is_in_the_composites_of_one_disorder(lab, rng):
    """Else two blocks could share all patients but one, and their difference would show it."""
    cohort = cohort_of(rng, {"d": 5, "e": 1})
    both = [*cohort.roster.labels(), *[label._replace(disorder_id="e") for label in cohort.roster.labels()]]
    lab.add(Cohort.join(cohort.encodings, list(dict.fromkeys(both))))
    assert [len(block) for block in lab.blocks().values()] == [5]
    assert lab.composite("e") is None


def test_later_photos_of_a_patient_change_no_composite(lab, rng):
    """Else two composites would show how two photos of one person differ."""
    cohort = cohort_of(rng, {"d": 10}, photos=3)  # six of them have more photos than one
    first = [label for label in cohort.roster.labels() if label.image_id.endswith("-0.jpg")]
    lab.add(Cohort.join(cohort.encodings, first))
    before = lab.composite()
    assert lab.add(cohort).faces_added == 9
    np.testing.assert_array_equal(lab.composite(), before)


def correlation(one, other):
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def best_guess(pictures, face):
    """How near any weighted sum of pictures comes to a face: better than whoever does not know the face can do."""
    matrix = np.stack([np.ones(face.size), *[picture.ravel().astype(float) for picture in pictures]], axis=1)
    weights = np.linalg.lstsq(matrix, face.ravel(), rcond=None)[0]
    return correlation(matrix @ weights, face)


def test_no_composites_together_show_a_removed_patient(lab, rng):
    """Before and after a removal, after an addition, and after both: what they tell is the means of whole blocks."""
    lab.add(cohort_of(rng, {"d": 12}, photos=3))
    known, shown = {}, []  # every block there ever was, and every composite with its blocks
    naive, removed = [], []

    def look():
        whole = {number: block for number, block in lab.blocks().items() if len(block) == 5}
        for number, block in whole.items():
            assert known.setdefault(number, block) == block  # a block never changes
        shown.append((lab.composite(), set(whole)))
        naive.append(np.rint(np.mean([lab.face(p) for p in {label.patient_id for label in lab.labels}], axis=0)))

    def remove_from(block):
        patient_id = max(lab.blocks()[block])
        removed.append((patient_id, block, lab.face(patient_id)))
        lab.remove(patient_id)

    look()
    remove_from(1)
    look()
    lab.add(cohort_of(rng, {"d": 4}, prefix="new-"))
    look()
    remove_from(2)
    lab.add(cohort_of(rng, {"d": 7}, prefix="newer-"))
    look()
    assert [blocks for _, blocks in shown] == [{1, 2}, {2}, {2, 3}, {3, 4}]
    patients = [patient_id for block in known.values() for patient_id in block]
    assert len(patients) == len(set(patients))  # and blocks share nobody
    means = {number: lab.block_mean(block) for number, block in known.items()}
    for first, blocks in shown:
        for second, others in shown:  # sums of block means, up to rounding: no difference shows less than a block
            expected = sum(means[n] for n in blocks - others) - sum(means[n] for n in others - blocks)
            difference = len(blocks) * first.astype(float) - len(others) * second.astype(float)
            assert np.abs(difference - expected).max() <= (len(blocks) + len(others)) / 2 + 1e-9
    for _, block, face in removed:
        assert best_guess([picture for picture, _ in shown], face) < correlation(means[block], face) + 0.02 < 0.6
    assert best_guess(naive[:2], removed[0][2]) > 0.95  # the plain mean over all patients gives the face away


def test_nobody_of_a_block_that_lost_somebody_is_in_a_composite_again(lab, rng):
    lab.add(cohort_of(rng, {"d": 5}))
    first = lab.composite()
    lab.remove("person-d-3")
    assert lab.composite() is None
    assert lab.add(cohort_of(rng, {"d": 4}, prefix="new-")).composites == 0  # with the four that are left it would be
    assert lab.add(cohort_of(rng, {"d": 1}, prefix="newer-")).composites == 1
    [new] = [block for block in lab.blocks().values() if len(block) == 5]
    assert all(patient_id.startswith("new") for patient_id in new)
    assert abs(correlation(first, lab.composite())) < 0.05
    with sqlite3.connect(lab.directory / "gallery.sqlite") as database:
        assert not any("person-d-3" in line for line in database.iterdump() if "new" not in line)
    database.close()


def test_a_removal_that_is_undone_drops_no_block(lab, rng, monkeypatch):
    lab.add(cohort_of(rng, {"d": 5}))
    before = lab.composite()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(changes, "_next_generation", fail)
    with pytest.raises(GalleryError):
        Gallery.remove_patients(lab.directory, ["person-d-3"])
    np.testing.assert_array_equal(lab.composite(), before)
    assert list(problems(lab.directory)) == []


def test_an_export_holds_no_faces(tmp_path, rng):
    cohort = random_cohort(rng)
    Gallery.build(tmp_path / "gallery", cohort)
    pictures = {image_id: png_of(noisy_crop(rng)) for image_id in cohort.roster.image_ids}
    Gallery.add_faces(tmp_path / "gallery", pictures)
    Gallery.export(tmp_path / "gallery", tmp_path / "out.parquet")
    exported = (tmp_path / "out.parquet").read_bytes()
    assert not any(picture[200:232] in exported for picture in pictures.values())
    assert len(exported) < len(next(iter(pictures.values())))

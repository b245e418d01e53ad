from __future__ import annotations

import pickle
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from mien import Cohort, Disorder, Encoder, Encodings, Gallery, Label, Query, rank
from mien.core.method import TWELVE_METHODS
from mien.errors import (
    CorruptGalleryError,
    EmptyGalleryError,
    EncoderMismatchError,
    GalleryBusyError,
    GalleryError,
    InvalidCohortError,
)
from mien.storage import changes, cohort_reader, database
from mien.storage.index_files import FileRows
from mien.storage.verification import problems

from cohorts import random_cohort, random_query_arrays


def part_of(cohort, keep):
    """The cohort of the patients for whom keep(patient_id) holds."""
    names = {disorder.disorder_id: disorder for disorder in cohort.roster.disorders}
    labels = [label for label in cohort.roster.labels() if keep(label.patient_id)]
    return Cohort.join(cohort.encodings, labels, names)


def assert_same_content(gallery, other):
    assert gallery.roster.labels() == other.roster.labels()
    assert gallery.roster.disorders == other.roster.disorders
    for mine, theirs in zip(matrices(gallery.index), matrices(other.index), strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)


def matrices(index):
    """All that an index consists of."""
    return [index.images.exact, index.images.codes, index.images.rounding, *index.others.values()]


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=8)


@pytest.fixture
def directory(tmp_path, cohort, small_gallery):
    """A gallery of the cohort."""
    return shutil.copytree(small_gallery, tmp_path / "gallery")


def test_a_stored_gallery_ranks_as_the_cohort_does(directory, cohort, rng):
    gallery = Gallery.open(directory)
    queries = [Query.of(random_query_arrays(rng, cohort, images)) for images in (1, 2, 3)]
    for method in TWELVE_METHODS:
        assert rank(gallery, queries, method) == rank(cohort, queries, method)
    assert gallery.as_dict()["images"] == len(cohort.roster.image_ids)
    assert gallery.generation == 1


def test_building_again_changes_nothing(directory, cohort):
    before = files_of(directory)
    change = Gallery.build(directory, cohort)
    assert (change.generation, change.images_added) == (1, 0)
    assert change.images_unchanged == len(cohort.roster.image_ids)
    assert {name: data for name, data in files_of(directory).items() if "sqlite-" not in name} == {
        name: data for name, data in before.items() if "sqlite-" not in name
    }


def test_the_order_of_imports_does_not_matter(tmp_path, cohort, directory):
    patient_ids = cohort.roster.patient_ids
    Gallery.build(tmp_path / "other", part_of(cohort, lambda patient_id: patient_id in patient_ids[5:]))
    Gallery.add(tmp_path / "other", part_of(cohort, lambda patient_id: patient_id in patient_ids[:7]))
    assert_same_content(Gallery.open(tmp_path / "other"), Gallery.open(directory))


def test_a_reader_keeps_the_generation_it_opened(directory, cohort, rng):
    query = Query.of(random_query_arrays(rng, cohort, 2))
    before = Gallery.open(directory)
    answer = rank(before, query)
    Gallery.remove_patients(directory, cohort.roster.patient_ids[:3])
    assert rank(before, query) == answer
    assert before.generation == 1
    assert Gallery.open(directory).generation == 2


def test_a_deleted_index_is_made_again(directory):
    before = Gallery.open(directory)
    files = {name: data for name, data in files_of(directory).items() if name.startswith("index")}
    for name in files:
        (directory / name).unlink()
    assert_same_content(Gallery.open(directory), before)
    assert {name: data for name, data in files_of(directory).items() if name.startswith("index")} == files


def test_a_gallery_that_cannot_be_written_is_read_all_the_same(directory, monkeypatch):
    before = Gallery.open(directory)
    (directory / "index-1.json").unlink()

    def refuse(*_):
        raise GalleryError("read-only")

    monkeypatch.setattr("mien.storage.gallery.restore_index", refuse)
    assert_same_content(Gallery.open(directory), before)


def test_a_second_disorder_of_a_known_image_is_added(directory, cohort):
    image_id, patient_id, disorder_id = cohort.roster.labels()[0]
    label = Label(image_id, patient_id, "new")
    change = Gallery.add(directory, Cohort.join(cohort.encodings, [label]))
    assert (change.images_added, change.labels_added) == (0, 1)
    gallery = Gallery.open(directory)
    assert {label, Label(image_id, patient_id, disorder_id)} <= set(gallery.roster.labels())
    assert list(problems(directory)) == []


def test_names_of_disorders_can_be_filled_in_and_changed(directory, cohort):
    renamed = [Disorder("d0", "Kabuki syndrome", "OMIM:147920"), *cohort.roster.disorders[1:]]
    again = Cohort(replace(cohort.roster, disorders=tuple(renamed)), cohort.encodings)
    assert Gallery.build(directory, again).disorders_renamed == ("d0",)
    gallery = Gallery.open(directory)
    assert gallery.roster.disorders[0].name == "Kabuki syndrome"
    assert list(problems(directory)) == []


def test_export_and_build_give_the_same_gallery(directory, tmp_path):
    from mien.storage.loading import Source, load_cohort

    rows = Gallery.export(directory, tmp_path / "gallery.parquet")
    assert rows == len(Gallery.open(directory).roster.labels())
    exported, _ = load_cohort(Source(tmp_path / "gallery.parquet"), lambda *_: None)
    Gallery.build(tmp_path / "copy", exported)
    assert_same_content(Gallery.open(tmp_path / "copy"), Gallery.open(directory))


# what is refused leaves the gallery as it was


def assert_refused(directory, error, match, action):
    before = Gallery.open(directory)
    with pytest.raises(error, match=match):
        action()
    after = Gallery.open(directory)
    assert after.generation == before.generation
    assert_same_content(after, before)
    assert list(problems(directory)) == []


def test_the_same_image_with_another_embedding_is_refused(directory, cohort):
    embeddings = cohort.embeddings.copy()
    embeddings[3] *= 1.5
    changed = Cohort(cohort.roster, Encodings(cohort.roster.image_ids, embeddings, cohort.encodings.encoder))
    match = f"image '{cohort.roster.image_ids[3]}' is in the gallery with another embedding"
    assert_refused(directory, InvalidCohortError, match, lambda: Gallery.add(directory, changed))


def test_the_same_image_of_another_patient_is_refused(directory, cohort):
    image_id, patient_id, disorder_id = cohort.roster.labels()[0]
    stranger = Cohort.join(cohort.encodings, [Label(image_id, "stranger", disorder_id)])
    match = f"image '{image_id}' belongs to patient '{patient_id}' in the gallery and to 'stranger' here"
    assert_refused(directory, InvalidCohortError, match, lambda: Gallery.add(directory, stranger))


def test_another_encoder_is_refused(directory, rng):
    other = random_cohort(rng, representations=2, dimensions=8, prefix="x")
    match = r"2 x 8.*3 x 8.*representations differ"
    assert_refused(directory, EncoderMismatchError, match, lambda: Gallery.add(directory, other))


def test_the_encoder_of_the_first_images_stays(tmp_path, cohort):
    named = Encodings(cohort.roster.image_ids, cohort.embeddings, Encoder(3, 8, name="gm-arc", weights_sha256="a" * 64))
    Gallery.build(tmp_path / "named", Cohort(cohort.roster, named))
    other = Encodings(named.image_ids, named.embeddings, Encoder(3, 8, name="gm-arc", weights_sha256="b" * 64))
    match = r"weights bbbbbbbbbbbb.*weights aaaaaaaaaaaa"
    assert_refused(
        tmp_path / "named",
        EncoderMismatchError,
        match,
        lambda: Gallery.add(tmp_path / "named", Cohort(cohort.roster, other)),
    )


def test_building_over_other_images_is_refused(directory, rng):
    other = random_cohort(rng, prefix="other-")
    assert_refused(directory, GalleryError, "already holds .* other images", lambda: Gallery.build(directory, other))


def test_removing_an_unknown_patient_removes_nobody(directory, cohort):
    patients = [cohort.roster.patient_ids[0], "nobody"]
    assert_refused(directory, GalleryError, "no patient 'nobody'", lambda: Gallery.remove_patients(directory, patients))


def test_a_directory_with_other_files_is_left_alone(tmp_path, cohort):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(GalleryError, match="not empty and holds no gallery"):
        Gallery.build(tmp_path, cohort)
    assert files_of(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_directory_without_a_gallery_says_so(tmp_path):
    with pytest.raises(GalleryError, match="holds no gallery: make one with 'mien gallery build'"):
        Gallery.open(tmp_path)
    with pytest.raises(GalleryError, match="holds no gallery"):
        Gallery.remove_patients(tmp_path, ["p"])
    assert list(tmp_path.iterdir()) == []


def test_a_gallery_of_a_newer_format_is_refused(directory):
    with sqlite3.connect(directory / "gallery.sqlite") as other:
        other.execute("UPDATE gallery SET format = 99")
    other.close()
    with pytest.raises(GalleryError, match="has format 99"):
        Gallery.open(directory)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "gallery.sqlite").write_text("a letter, and a long one at that" * 100)
    with pytest.raises(CorruptGalleryError, match="not a database"):
        Gallery.open(tmp_path)


def test_two_writers_do_not_mix(directory, cohort, monkeypatch):
    monkeypatch.setattr(database, "SECONDS_TO_WAIT_FOR_A_LOCK", 0.05)
    with database.connection(directory, write=True) as other, database.transaction(other):
        assert_refused(
            directory,
            GalleryBusyError,
            "another process is writing",
            lambda: Gallery.remove_patients(directory, cohort.roster.patient_ids[:1]),
        )


def test_the_last_patient_can_go_and_others_come(directory, cohort):
    Gallery.remove_patients(directory, cohort.roster.patient_ids)
    empty = Gallery.open(directory)
    assert empty.as_dict()["images"] == 0
    with pytest.raises(EmptyGalleryError, match="holds no images"):
        rank(empty, Query.of(np.ones((1, 3, 8))))
    with pytest.raises(EmptyGalleryError, match="nothing to export"):
        Gallery.export(directory, directory.parent / "export.parquet")
    Gallery.add(directory, cohort)
    assert Gallery.open(directory).roster.labels() == cohort.roster.labels()


# a flipped bit


def flip_bit(path, content):
    data = bytearray(path.read_bytes())
    assert data.count(content) == 1
    data[data.index(content) + len(content) // 2] ^= 0b100
    path.write_bytes(data)


def test_a_flipped_bit_in_an_embedding_is_found_and_named(directory, cohort):
    image_id, patient_id = cohort.roster.image_ids[4], cohort.roster.patient_ids[cohort.roster.patient_of_image[4]]
    flip_bit(directory / "gallery.sqlite", cohort.embeddings[4].tobytes())
    [problem] = problems(directory)
    assert f"image '{image_id}' of patient '{patient_id}'" in problem
    (directory / "index-1.json").unlink()  # nothing is computed from damaged bytes
    with pytest.raises(CorruptGalleryError, match=f"image '{image_id}' is damaged"):
        Gallery.open(directory)


@pytest.mark.parametrize("table", ["image", "patient", "disorder"])
def test_a_changed_id_is_found_and_named(directory, table):
    with sqlite3.connect(directory / "gallery.sqlite") as other:
        other.execute(f"UPDATE {table} SET {table}_id = {table}_id || 'x' WHERE {table}_key = 1")
    other.close()
    assert any("x'" in problem and "damaged" in problem for problem in problems(directory))


def test_a_changed_label_is_found_and_named(directory):
    with sqlite3.connect(directory / "gallery.sqlite") as other:
        other.execute("UPDATE label SET disorder_key = 5 WHERE image_key = 1")
    other.close()
    [problem] = problems(directory)
    assert "row 1 of table image" in problem


def test_a_torn_index_is_made_again(directory, cohort, caplog):
    (directory / "index-1.json").write_bytes((directory / "index-1.json").read_bytes()[:100])
    assert Gallery.open(directory).roster.labels() == cohort.roster.labels()
    assert "index-1.json does not match its checksum: the index is made anew" in caplog.text


# erasure


def bytes_of_patient(cohort, patient_id, gallery):
    """Everything that could betray a patient: ids, raw embeddings, unit rows, checksums."""
    roster = cohort.roster
    patterns = [patient_id.encode()]
    for image in np.flatnonzero(roster.patient_of_image == roster.patient_of_id[patient_id]):
        disorder_ids = roster.disorder_ids_of_image[image]
        embedding = cohort.embeddings[image].tobytes()
        patterns += [
            roster.image_ids[image].encode(),
            *[vector.tobytes() for vector in cohort.embeddings[image]],
            *[embedding[start : start + 12] for start in range(0, len(embedding) - 12, 12)],
            gallery.index.images.exact[image].tobytes()[:16],
            gallery.index.others["image_lengths"][image].tobytes()[:8],
            cohort_reader.checksum_of_image(roster.image_ids[image], patient_id, disorder_ids, embedding),
        ]
    return patterns


def distinctive(cohort):
    """The cohort with ids that cannot occur by chance."""
    labels = [
        Label(f"photograph-{image_id}-photograph", f"person-{patient_id}-person", disorder_id)
        for image_id, patient_id, disorder_id in cohort.roster.labels()
    ]
    image_ids = [f"photograph-{image_id}-photograph" for image_id in cohort.roster.image_ids]
    return Cohort.join(Encodings.of(image_ids, cohort.embeddings), labels)


def assert_gone(directory, patterns):
    for name, data in files_of(directory).items():
        for pattern in patterns:
            assert pattern not in data, (name, pattern)


@pytest.mark.parametrize("disorders", [24, pytest.param(60, marks=pytest.mark.long)])
def test_a_removed_patient_leaves_no_byte_and_no_trace_in_centroids(tmp_path, rng, disorders):
    cohort = distinctive(random_cohort(rng, disorders=disorders, representations=12, dimensions=16, most_patients=6))
    directory = tmp_path / "gallery"
    shuffled = rng.permutation(cohort.roster.patient_ids).tolist()
    at_a_time = len(shuffled) // 5
    for start in range(0, len(shuffled), at_a_time):  # several imports: pages split and join
        chosen = set(shuffled[start : start + at_a_time])
        (Gallery.add if start else Gallery.build)(directory, part_of(cohort, lambda p, chosen=chosen: p in chosen))
    full = Gallery.open(directory)
    gone = shuffled[10 : 3 * disorders : 9]
    for count, patient_id in enumerate(gone, start=1):
        Gallery.remove_patients(directory, [patient_id])
        assert_gone(directory, [p for one in gone[:count] for p in bytes_of_patient(cohort, one, full)])
    without = part_of(cohort, lambda patient_id: patient_id not in gone)
    Gallery.build(tmp_path / "without", without)
    assert_same_content(Gallery.open(directory), Gallery.open(tmp_path / "without"))
    assert list(problems(directory)) == []


def test_a_removal_that_was_cut_short_is_finished_by_repeating_it(tmp_path, rng, monkeypatch):
    cohort = distinctive(random_cohort(rng, disorders=10))
    directory = tmp_path / "gallery"
    Gallery.build(directory, cohort)
    patterns = bytes_of_patient(cohort, cohort.roster.patient_ids[2], Gallery.open(directory))

    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(changes, "_erase", cut)
        with pytest.raises(KeyboardInterrupt):
            Gallery.remove_patients(directory, [cohort.roster.patient_ids[2]])
    assert cohort.roster.patient_ids[2] not in Gallery.open(directory).roster.patient_of_id
    assert any("a removal is not finished" in problem for problem in problems(directory))
    with pytest.raises(GalleryError, match="an interrupted removal was finished just now"):
        Gallery.remove_patients(directory, [cohort.roster.patient_ids[2]])
    assert list(problems(directory)) == []
    assert_gone(directory, patterns)


def test_two_removals_at_once_erase_both(tmp_path, rng, monkeypatch):
    """The second one commits while the first is erasing; a reader keeps the log from going away by itself."""
    cohort = distinctive(random_cohort(rng, disorders=10))
    directory = tmp_path / "gallery"
    Gallery.build(directory, cohort)
    first, second = cohort.roster.patient_ids[1:3]
    patterns = [p for one in (first, second) for p in bytes_of_patient(cohort, one, Gallery.open(directory))]
    erase, calls = changes._erase, []

    def erase_late(connected, where):
        calls.append(where)
        if len(calls) == 1:
            Gallery.remove_patients(directory, [second])
        erase(connected, where)

    monkeypatch.setattr(changes, "_erase", erase_late)
    Gallery.remove_patients(directory, [first])
    assert_gone(directory, patterns)
    assert list(problems(directory)) == []


def test_an_index_left_by_a_killed_import_does_not_survive_the_removal_of_everybody(tmp_path, rng, monkeypatch):
    cohort = distinctive(random_cohort(rng, disorders=6))
    directory = tmp_path / "gallery"
    Gallery.build(directory, part_of(cohort, lambda patient_id: "p0" in patient_id))
    orphans = {name: data for name, data in files_of(directory).items() if name.startswith("index-1.")}
    for name, data in orphans.items():
        (directory / name.replace("index-1.", "index-2.")).write_bytes(data)
    patients = Gallery.open(directory).roster.patient_ids
    patterns = [p for one in patients for p in bytes_of_patient(cohort, one, cohort)]
    Gallery.remove_patients(directory, patients)
    assert {path.name.split("-")[0] for path in directory.iterdir()} == {"gallery.sqlite", "gallery.generation"}
    assert_gone(directory, patterns)


def test_an_erasure_that_fails_says_that_the_patient_is_removed(directory, cohort, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(changes, "delete_other_indexes", full)
        with pytest.raises(
            GalleryError, match=r"removed, but the last bytes could not be erased .*: repeat the removal"
        ):
            Gallery.remove_patients(directory, cohort.roster.patient_ids[:1])
    assert cohort.roster.patient_ids[0] not in Gallery.open(directory).roster.patient_of_id
    Gallery.remove_patients(directory, cohort.roster.patient_ids[1:2])  # finishes the other one, too
    assert list(problems(directory)) == []


def test_damage_to_others_keeps_nobody_in_the_gallery(directory, cohort):
    flip_bit(directory / "gallery.sqlite", cohort.embeddings[4].tobytes())
    leaving = next(p for i, p in enumerate(cohort.roster.patient_ids) if i != cohort.roster.patient_of_image[4])
    Gallery.remove_patients(directory, [leaving])
    with database.connection(directory) as connected:
        assert leaving not in cohort_reader.read_roster(connected).patient_of_id
    assert not list(directory.glob("index-*"))


def test_the_index_of_another_gallery_is_not_taken_for_ones_own(tmp_path, directory, rng, cohort, caplog):
    Gallery.build(tmp_path / "other", random_cohort(rng, disorders=5))
    for path in (tmp_path / "other").glob("index-1.*"):
        path.rename(directory / path.name)
    assert Gallery.open(directory).roster.labels() == cohort.roster.labels()
    assert "index-1.json belongs to another gallery: the index is made anew" in caplog.text


def test_an_altered_name_in_the_index_is_noticed(directory, cohort, caplog):
    path = directory / "index-1.json"
    path.write_bytes(path.read_bytes().replace(b"Disorder 1", b"Disorder 2"))
    assert Gallery.open(directory).roster.disorders == cohort.roster.disorders
    assert "index-1.json does not match its checksum" in caplog.text


@pytest.mark.parametrize("suffix", ["json", "image_rows", "image_codes", "image_sums"])
def test_an_index_that_lacks_a_file_is_made_again(directory, suffix, cohort):
    (directory / f"index-1.{suffix}").unlink()
    assert Gallery.open(directory).roster.labels() == cohort.roster.labels()
    assert list(problems(directory)) == []


def test_what_becomes_known_of_the_encoder_stays(tmp_path, cohort):
    def named(name):
        encodings = Encodings(cohort.roster.image_ids, cohort.embeddings, Encoder(3, 8, name=name))
        return Cohort(cohort.roster, encodings)

    Gallery.build(tmp_path / "gallery", cohort)
    Gallery.add(tmp_path / "gallery", named("gm-arc"))
    assert Gallery.open(tmp_path / "gallery").encoder.name == "gm-arc"
    with pytest.raises(EncoderMismatchError, match=r"facenet.*gm-arc"):
        Gallery.add(tmp_path / "gallery", named("facenet"))


def test_build_refuses_labels_that_it_does_not_bring(directory, cohort):
    image_id, patient_id, _ = cohort.roster.labels()[0]
    Gallery.add(directory, Cohort.join(cohort.encodings, [Label(image_id, patient_id, "new")]))
    with pytest.raises(GalleryError, match="other images or labels"):
        Gallery.build(directory, cohort)


def test_an_export_is_whole_or_not_there(directory, tmp_path, monkeypatch, cohort):
    with pytest.raises(GalleryError, match="lies inside the gallery"):
        Gallery.export(directory, directory / "gallery.parquet")
    with pytest.raises(GalleryError, match=r"ends in \.parquet"):
        Gallery.export(directory, tmp_path / "gallery.csv")
    (tmp_path / "old.parquet").write_bytes(b"an older export")
    flip_bit(directory / "gallery.sqlite", cohort.embeddings[-1].tobytes())
    with pytest.raises(CorruptGalleryError):
        Gallery.export(directory, tmp_path / "old.parquet")
    assert (tmp_path / "old.parquet").read_bytes() == b"an older export"
    assert not list(tmp_path.glob("*.new"))


def test_a_new_gallery_is_for_its_keeper_only(directory):
    assert directory.stat().st_mode & 0o077 == 0


def test_rows_in_files_are_those_in_memory(tmp_path, rng, monkeypatch):
    monkeypatch.setattr("mien.storage.index_files.LARGEST_READ", 0)
    cohort = random_cohort(rng, disorders=40, dimensions=64)
    Gallery.build(tmp_path, cohort)
    index = Gallery.open(tmp_path).index
    for stored, made in zip(matrices(index), matrices(cohort.index), strict=True):
        assert isinstance(stored, FileRows)
        assert (len(stored), stored.shape) == (len(made), made.shape)
        for some in (slice(None), slice(3, 9), slice(5, 5), slice(7, 10**6), np.array([3, 0, 3]), np.zeros(0, np.intp)):
            np.testing.assert_array_equal(stored[some], made[some], strict=True)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(stored)), made, strict=True)

"""Encodings as a pickled dict of images, without anything in it being run."""

from __future__ import annotations

import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import InvalidFileError
from mien.progress import silent
from mien.storage.formats.gm_arc_csv import write_gm_arc_csv
from mien.storage.loading import Source, load_cohort, load_queries, read_encodings


@pytest.fixture
def embeddings(rng):
    return rng.standard_normal((3, 12, 5)).astype(np.float32)


def pickled(path, content, protocol=pickle.DEFAULT_PROTOCOL):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


WAYS = {
    "lists": lambda one: one.tolist(),
    "tuples": lambda one: tuple(map(tuple, one.tolist())),
    "lists with an axis of length one": lambda one: one[:, np.newaxis].tolist(),
    "an array": lambda one: one,
    "an array of float64": lambda one: one.astype(np.float64),
    "an array with an axis of length one": lambda one: one[:, np.newaxis],
    "an array in columns": np.asfortranarray,
    "a list of arrays": list,
    "a list of arrays with an axis of length one": lambda one: [vector[np.newaxis] for vector in one],
}
NAMES = {
    "numbers": lambda number: number,
    "texts": str,
    "numbers of numpy": np.int64,
    "file names": "{}_rot_aligned.jpg".format,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_dict_is_read_however_it_was_filled(tmp_path, embeddings, way, names, protocol):
    content = {NAMES[names](100 + image): WAYS[way](one) for image, one in enumerate(embeddings)}
    file = read_encodings(pickled(tmp_path / "all.p", content, protocol))
    assert file.encodings.image_ids == ("100", "101", "102")
    np.testing.assert_array_equal(file.encodings.embeddings, embeddings)


def test_a_dict_gives_what_the_csv_gives(tmp_path, embeddings):
    encodings = read_encodings(pickled(tmp_path / "all.pkl", dict(enumerate(embeddings.tolist())))).encodings
    write_gm_arc_csv(tmp_path / "all.csv", encodings)
    again = read_encodings(tmp_path / "all.csv").encodings
    np.testing.assert_array_equal(again.embeddings, encodings.embeddings)
    again.encoder.require_same(encodings.encoder, here="the table", there="the dict")


def test_only_what_is_wanted_is_converted(tmp_path, embeddings):
    content = {1: "no embedding at all", 2: embeddings[0].tolist(), "3_a.jpg": embeddings[1].tolist()}
    file = read_encodings(pickled(tmp_path / "all.p", content), wanted={"2", "9"})
    assert (file.encodings.image_ids, file.left_out) == (("2",), 2)


def test_a_dict_makes_galleries_and_queries(tmp_path, embeddings):
    path = pickled(tmp_path / "all.p", dict(enumerate(embeddings.tolist(), start=100)))
    table = tmp_path / "images.csv"
    table.write_text("image_id,subject,label\n100,p,A\n102,q,B\n")
    cohort, left_out = load_cohort(Source(path, [table]), silent)
    assert (cohort.roster.image_ids, left_out.encodings_without_metadata) == (("100", "102"), 1)
    queries, _ = load_queries(Source(path, [table]), silent)
    assert [query.patient_id for query in queries] == ["p", "q"]


def test_one_vector_is_one_representation(tmp_path):
    content = {1: [1.0, 2.0], 2: np.array([3.0, 4.0]), 3: [[5.0, 6.0]]}
    found = read_encodings(pickled(tmp_path / "all.p", content)).encodings.embeddings
    assert found.tolist() == [[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]


def test_an_empty_dict_holds_no_images(tmp_path):
    assert read_encodings(pickled(tmp_path / "all.p", {})).encodings.image_ids == ()


BAD = {
    "another number of dimensions": ({1: [[1.0, 2.0]], 2: [[1.0]]}, "image '2' has an embedding of 1 x 1 numbers"),
    "an uneven one": ({7: [[1.0, 2.0], [1.0]]}, "row 1, image '7': .*same shape"),
    "no vectors": ({7: []}, "row 1, image '7'"),
    "one number": ({7: 1.5}, "row 1, image '7'"),
    "words": ({7: [["a", "b"]]}, "row 1, image '7'"),
    "too many axes": ({7: np.ones((2, 2, 2))}, "row 1, image '7'"),
    "a metadata dict": ({"disorder_level_metadata": {"1": {}}}, "row 1, image 'disorder'"),
    "infinite": ({7: [[1.0, float("inf")]]}, "not a finite number in the embedding of image '7'"),
    "zero": ({7: np.zeros((1, 2))}, "length zero of image '7'"),
    "twice": ({"7_a.jpg": [[1.0]], "7_b.jpg": [[2.0]]}, "image '7' is there twice, with different embeddings"),
    "a key that is no id": ({1.5: [[1.0]]}, "row 1: the key is of type float: give the image's id"),
    "a blank key": ({"": [[1.0]]}, "the image's id is blank"),
    "times": ({7: np.array(["2020-01-01"], "M8[D]")}, "row 1, image '7'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_embedding_is_refused_by_image(tmp_path, case):
    content, problem = BAD[case]
    with pytest.raises(InvalidFileError, match=rf"all\.p.*\n?.*{problem}"):
        read_encodings(pickled(tmp_path / "all.p", content))


def test_every_bad_row_is_listed(tmp_path):
    with pytest.raises(InvalidFileError) as refused:
        read_encodings(pickled(tmp_path / "all.p", {1: "x", 2: [[1.0]], 3: None}))
    assert "row 1, image '1'" in str(refused.value)
    assert "row 3, image '3': no list of numbers, but of type NoneType, or empty: give" in str(refused.value)


class Bomb:
    def __init__(self, path, call):
        self.path, self.call = path, call

    def __reduce__(self):
        if self.call is exec:
            return exec, (f"open({str(self.path)!r}, 'w')",)
        return open, (str(self.path), "w")


class Inherited(dict):
    pass


@pytest.mark.parametrize("call", [open, exec])
@pytest.mark.parametrize("place", ["key", "value", "vector", "number"])
def test_a_dict_with_code_is_refused_and_nothing_runs(tmp_path, call, place):
    marker = tmp_path / "marker"
    bomb = Bomb(marker, call)
    content = {"key": {bomb: [[1.0]]}, "value": {1: bomb}, "vector": {1: [bomb]}, "number": {1: [[1.0, bomb]]}}[place]
    with pytest.raises(InvalidFileError, match="which mien does not read: nothing of it was run"):
        read_encodings(pickled(tmp_path / "bomb.p", content), wanted=set())
    assert not marker.exists()


def test_a_class_of_ones_own_is_refused(tmp_path):
    with pytest.raises(InvalidFileError, match="Inherited"):
        read_encodings(pickled(tmp_path / "all.p", Inherited({1: [[1.0]]})))


def test_shared_lists_cannot_ask_for_more_memory_than_the_file_has_room_for(tmp_path):
    vector = [1.0] * 1000
    with pytest.raises(InvalidFileError, match=r"image '1': .*more numbers than"):
        read_encodings(pickled(tmp_path / "all.p", {1: [vector] * 100_000}))
    nested = [1.0]
    for _ in range(40):
        nested = [nested, nested]
    itself = []
    itself.append(itself)
    for content in (nested, itself):
        with pytest.raises(InvalidFileError, match="image '1'"):
            read_encodings(pickled(tmp_path / "all.p", {1: content}))


def test_a_type_whose_state_is_no_tuple_is_refused(tmp_path):
    whole = pickle.dumps({1: np.ones((2, 2))})
    damaged = whole.replace(b"K\0t\x94b", b"K\0d\x94b")  # the type's state ends as a dict
    assert damaged != whole
    path = tmp_path / "damaged.p"
    path.write_bytes(damaged)
    with pytest.raises(InvalidFileError, match="byte order"):
        read_encodings(path)


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_dict_gives_an_error_and_no_crash(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("pickles") / "damaged.p"
    content = {1: [[1.0, 2.0], [3.0, 4.0]], "2_a.jpg": np.ones((2, 2)), np.int64(3): [np.ones(2, np.float32)] * 2}
    damaged = bytearray(pickle.dumps(content))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(1, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    with suppress(InvalidFileError):
        read_encodings(path)

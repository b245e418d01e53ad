from __future__ import annotations

import json
import pickle
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien import Disorder, Label
from mien.errors import InvalidFileError
from mien.storage.formats.cohort_columns import read_column
from mien.storage.formats.gmdb_tables import read_metadata
from mien.storage.loading import Source, load_cohort, load_queries, read_encodings

HEADER = "img_name;model;flip;gray;class_conf;representations\n"
VIEWS = [(model, flip, gray) for model in ("m0", "m1", "m2") for flip in (0, 1) for gray in (0, 1)]


def gm_arc_frame(rng, images=5, dimensions=6):
    """The official table, its rows shuffled, and the embeddings it stands for."""
    embeddings = rng.standard_normal((images, 12, dimensions)).astype(np.float32)
    rows = [
        [f"{100 + image}_rot_aligned.jpg", model, flip, gray, [0] if model == "m2" else [0.25, -1.5], vector.tolist()]
        for image in range(images)
        for (model, flip, gray), vector in zip(VIEWS, embeddings[image], strict=True)
    ]
    columns = ["img_name", "model", "flip", "gray", "class_conf", "representations"]
    return pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=columns), embeddings


def write_gm_arc_csv(path, frame, newline="\n"):
    lines = [";".join(map(str, row)) for row in frame.itertuples(index=False)]
    path.write_bytes((newline.join([HEADER.strip(), *lines]) + newline).encode())


def embeddings_by_id(encodings):
    return {i: encodings.embeddings[row] for row, i in enumerate(encodings.image_ids)}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_gm_arc_csv_is_put_together_by_key(tmp_path, rng, newline):
    frame, embeddings = gm_arc_frame(rng)
    write_gm_arc_csv(tmp_path / "all_encodings.csv", frame, newline)
    steps = []
    encodings = read_encodings(tmp_path / "all_encodings.csv", progress=lambda *step: steps.append(step)).encodings
    found = embeddings_by_id(encodings)
    for image in range(5):
        np.testing.assert_array_equal(found[str(100 + image)], embeddings[image])
    assert encodings.encoder.representation_names[0] == "m0/flip0/gray0"
    assert steps[-1][0] == steps[-1][1]


def test_gm_arc_csv_reads_only_what_is_wanted(tmp_path, rng):
    frame, embeddings = gm_arc_frame(rng)
    write_gm_arc_csv(tmp_path / "all_encodings.csv", frame)
    file = read_encodings(tmp_path / "all_encodings.csv", wanted={"101", "104", "7"})
    assert sorted(file.encodings.image_ids) == ["101", "104"]
    np.testing.assert_array_equal(embeddings_by_id(file.encodings)["104"], embeddings[4])
    assert file.left_out == 3


@pytest.mark.parametrize("protocol", [4, 5])
def test_the_pickled_frame_gives_what_the_csv_gives(tmp_path, rng, protocol):
    frame, embeddings = gm_arc_frame(rng)
    frame.to_pickle(tmp_path / "encodings.pkl", protocol=protocol)
    file = read_encodings(tmp_path / "encodings.pkl", wanted={"100", "102"})
    for image_id, embedding in embeddings_by_id(file.encodings).items():
        np.testing.assert_array_equal(embedding, embeddings[int(image_id) - 100])
    assert file.left_out == 3


def test_a_frame_grown_row_by_row_as_the_official_script_does_is_read(tmp_path, rng):
    frame, embeddings = gm_arc_frame(rng, images=1)
    grown = pd.DataFrame(columns=list(frame.columns))
    for row in frame.itertuples(index=False):
        grown.loc[len(grown)] = list(row)
    grown.to_pickle(tmp_path / "grown.pkl")
    np.testing.assert_array_equal(read_encodings(tmp_path / "grown.pkl").encodings.embeddings[0], embeddings[0])


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


class Sneaky:
    """Hides its call behind a name that is allowed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (exec, (f"open({str(self.path)!r}, 'w')",))


@pytest.mark.parametrize("bomb", [Bomb, Sneaky])
def test_a_pickle_with_code_is_refused_and_nothing_runs(tmp_path, rng, bomb):
    marker = tmp_path / "marker"
    frame, _ = gm_arc_frame(rng)
    frame["class_conf"] = [bomb(marker)] * len(frame)
    frame.to_pickle(tmp_path / "bomb.pkl")
    with pytest.raises(InvalidFileError, match="which mien does not read: nothing of it was run"):
        read_encodings(tmp_path / "bomb.pkl")
    assert not marker.exists()


@pytest.mark.parametrize("content", [{"a": 1}, [1, 2], 5, None, pd.Series([1, 2])])
def test_a_pickle_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "other.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(InvalidFileError, match=r"other\.pkl"):
        read_encodings(tmp_path / "other.pkl")


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_pickle_gives_an_error_and_no_crash(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("pickles") / "damaged.pkl"
    frame, _ = gm_arc_frame(np.random.default_rng(1), images=1, dimensions=2)
    frame.to_pickle(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(1, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(InvalidFileError):
        read_encodings(path)


@given(
    vector=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    separator=st.sampled_from([", ", ",", " , ", ",  "]),
)
def test_numbers_are_read_as_python_reads_them(tmp_path_factory, vector, separator):
    path = tmp_path_factory.mktemp("numbers") / "e.csv"
    path.write_text(f"{HEADER}1_a.jpg;m0;0;0;[0.5, 1];[{separator.join(map(repr, vector))}]\n")
    with suppress(InvalidFileError):  # of length zero
        assert read_encodings(path).encodings.embeddings.tolist() == [[vector]]


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("kind", ["list", "fixed", "csv"])
def test_cohort_tables_of_every_kind_are_read(tmp_path, rng, kind, nested):
    shape = (3, 2, 4) if nested else (3, 8)
    embeddings = rng.standard_normal(shape).astype(np.float32)
    columns = {"image_id": ["1", "2", "3"], "patient_id": [7, 7, 8], "disorder_id": ["A", "A", "B"]}
    if kind == "csv":
        path = tmp_path / "cohort.csv"
        pd.DataFrame({**columns, "embedding": [json.dumps(e.tolist()) for e in embeddings]}).to_csv(path, index=False)
    else:
        path = tmp_path / "cohort.parquet"
        inner = pa.list_(pa.float32(), 4 if nested else 8) if kind == "fixed" else pa.list_(pa.float64())
        outer = (pa.list_(inner, 2) if kind == "fixed" else pa.list_(inner)) if nested else inner
        pq.write_table(pa.table({**columns, "embedding": pa.array(embeddings.tolist(), outer)}), path)
    cohort, _ = load_cohort(Source(path), lambda *_: None)
    assert cohort.roster.labels() == [Label("1", "7", "A"), Label("2", "7", "A"), Label("3", "8", "B")]
    np.testing.assert_array_equal(cohort.embeddings.reshape(shape), embeddings)


def test_an_image_with_two_disorders_stands_in_two_rows(tmp_path):
    columns = {
        "image_id": ["1", "1"],
        "patient_id": ["p", "p"],
        "disorder_id": ["A", "B"],
        "embedding": [[1.0, 2.0]] * 2,
    }
    pq.write_table(pa.table(columns), tmp_path / "cohort.parquet")
    cohort, _ = load_cohort(Source(tmp_path / "cohort.parquet"), lambda *_: None)
    assert cohort.roster.labels() == [Label("1", "p", "A"), Label("1", "p", "B")]
    assert len(cohort.embeddings) == 1


def write_tables(tmp_path):
    (tmp_path / "gmdb_train_images_v1.csv").write_text("image_id,subject,label\n100,1,5\n101,1,5\n102,2,7\n")
    (tmp_path / "gmdb_rare_gallery_images_v1.csv").write_text("image_id,subject,label,split\n103,3,9,0\n102,2,9,4\n")
    (tmp_path / "gmdb_syndromes_v1.tsv").write_text(
        "syndrome_id\tsyndrome_name\tOMIM\n5\tKabuki, type 1\t147920\n7\tNoonan\tPS163950\n9\t\t\n"
    )
    return sorted(tmp_path.glob("gmdb_*"))


def test_gmdb_tables_bring_patients_disorders_and_names(tmp_path):
    annotations = read_metadata(write_tables(tmp_path), labelled=True)
    assert set(annotations.labels) == {
        *(Label("100", "1", "5"), Label("101", "1", "5"), Label("102", "2", "7")),
        *(Label("103", "3", "9"), Label("102", "2", "9")),
    }
    assert annotations.disorders["5"] == Disorder("5", "Kabuki, type 1", "OMIM:147920")
    assert annotations.disorders["7"] == Disorder("7", "Noonan", "OMIMPS:163950")
    assert annotations.disorders["9"] == Disorder("9", None, None)


def test_encodings_and_tables_are_joined_by_image(tmp_path, rng):
    frame, embeddings = gm_arc_frame(rng)
    write_gm_arc_csv(tmp_path / "all_encodings.csv", frame)
    source = Source(tmp_path / "all_encodings.csv", write_tables(tmp_path), "gm-arc")
    cohort, left_out = load_cohort(source, lambda *_: None)
    assert left_out.encodings_without_metadata == 1
    assert cohort.encodings.encoder.name == "gm-arc"
    for image, image_id in enumerate(cohort.roster.image_ids):
        np.testing.assert_array_equal(cohort.embeddings[image], embeddings[int(image_id) - 100])


def test_queries_are_grouped_by_patient_and_labels_are_ignored(tmp_path, rng):
    frame, _ = gm_arc_frame(rng)
    write_gm_arc_csv(tmp_path / "all_encodings.csv", frame)
    table = tmp_path / "patients.csv"
    table.write_text("image_id,subject,label\n104,x,?\n100,y,\n103,x,5\n")
    queries, left_out = load_queries(Source(tmp_path / "all_encodings.csv", [table]), lambda *_: None)
    assert [(q.patient_id, q.encodings.image_ids) for q in queries] == [("x", ("104", "103")), ("y", ("100",))]
    assert left_out.encodings_without_metadata == 2
    [everything], _ = load_queries(Source(tmp_path / "all_encodings.csv"), lambda *_: None)
    assert everything.patient_id is None
    assert len(everything.encodings.image_ids) == 5


class ForgedTexts:
    """A DataFrame pickle whose Arrow column points outside its buffer."""

    def __init__(self, frame, offset):
        self.frame = frame
        self.offset = offset

    def pickled(self):
        import io

        class Forger(pickle.Pickler):
            def reducer_override(_, thing):  # noqa: N805 the pickler's own self is not needed
                if isinstance(thing, pa.LargeStringArray | pa.StringArray):
                    function, arguments = thing.__reduce__()
                    parts = list(arguments[0])
                    parts[3] = self.offset
                    return function, (tuple(parts),)
                return NotImplemented

        buffer = io.BytesIO()
        Forger(buffer, protocol=5).dump(self.frame)
        return buffer.getvalue()


@pytest.mark.parametrize("offset", [-1, -(10**11), 10**6, 10**30])
def test_a_forged_column_of_texts_is_refused_and_not_followed(tmp_path, rng, offset):
    frame, _ = gm_arc_frame(rng)
    (tmp_path / "forged.pkl").write_bytes(ForgedTexts(frame, offset).pickled())
    with pytest.raises(InvalidFileError, match="not a DataFrame"):
        read_encodings(tmp_path / "forged.pkl")


def test_a_frame_of_numpy_vectors_is_read(tmp_path, rng):
    frame, embeddings = gm_arc_frame(rng, images=1)
    frame["representations"] = [np.array(vector, dtype=np.float32) for vector in frame["representations"]]
    frame.to_pickle(tmp_path / "vectors.pkl")
    np.testing.assert_array_equal(read_encodings(tmp_path / "vectors.pkl").encodings.embeddings[0], embeddings[0])


@pytest.mark.parametrize(
    "text", ["[[1,2,3],[4]]", "[1,2],[3,4]", "[[1,2,[3,4]]", "[1_0, 2]", "7", "[[[1]]]", "[]", "{}"]
)
def test_lists_in_a_cohort_csv_mean_what_they_say_or_are_refused(tmp_path, text):
    (tmp_path / "c.csv").write_text(f'image_id,patient_id,disorder_id,embedding\n1,p,A,"{text}"\n')
    with pytest.raises(InvalidFileError, match=r"row 2|image '1'|shape"):
        read_encodings(tmp_path / "c.csv")


def test_an_undiagnosed_patient_can_be_a_query(tmp_path):
    (tmp_path / "c.csv").write_text('image_id,patient_id,disorder_id,embedding\n1,p,,"[1, 2]"\n')
    [query], _ = load_queries(Source(tmp_path / "c.csv"), lambda *_: None)
    assert query.patient_id == "p"
    with pytest.raises(InvalidFileError, match="the disorder's id is blank"):
        load_cohort(Source(tmp_path / "c.csv"), lambda *_: None)


def test_a_table_of_names_alone_names_a_cohorts_disorders(tmp_path):
    (tmp_path / "c.csv").write_text('image_id,patient_id,disorder_id,embedding\n1,p,5,"[1, 2]"\n')
    (tmp_path / "n.tsv").write_text("syndrome_id\tsyndrome_name\tOMIM\n5\tKabuki\t147920\n")
    cohort, _ = load_cohort(Source(tmp_path / "c.csv", [tmp_path / "n.tsv"]), lambda *_: None)
    assert cohort.roster.disorders == (Disorder("5", "Kabuki", "OMIM:147920"),)


def test_names_from_two_tables_complete_each_other(tmp_path):
    (tmp_path / "a.tsv").write_text("syndrome_id\tsyndrome_name\n5\tKabuki\n")
    (tmp_path / "b.tsv").write_text("syndrome_id\tsyndrome_name\tOMIM\n5\tKabuki\t147920\n")
    annotations = read_metadata([tmp_path / "a.tsv", tmp_path / "b.tsv"], labelled=True)
    assert annotations.disorders["5"] == Disorder("5", "Kabuki", "OMIM:147920")
    (tmp_path / "b.tsv").write_text("syndrome_id\tsyndrome_name\n5\tNoonan\n")
    with pytest.raises(InvalidFileError, match="called 'Noonan' here and 'Kabuki' in an earlier row"):
        read_metadata([tmp_path / "a.tsv", tmp_path / "b.tsv"], labelled=True)


def test_old_line_ends_are_read(tmp_path):
    (tmp_path / "m.csv").write_bytes(b"image_id,subject,label\r1,p,A\r2,q,B\r")
    assert len(read_metadata([tmp_path / "m.csv"], labelled=True).labels) == 2


@pytest.mark.parametrize("ids", [pa.array([b"1"]), pa.array([1.0]), pa.array([True])])
def test_ids_that_are_no_texts_are_refused(tmp_path, ids):
    columns = {"image_id": ids, "patient_id": ["p"], "disorder_id": ["A"], "embedding": [[1, 2]]}
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    with pytest.raises(InvalidFileError, match="ids are texts or whole numbers"):
        read_encodings(tmp_path / "c.parquet")


def test_whole_numbers_are_numbers(tmp_path):
    columns = {"image_id": pa.array(["1"]).dictionary_encode(), "embedding": [[1, 2]]}
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    assert read_encodings(tmp_path / "c.parquet").encodings.embeddings.tolist() == [[[1.0, 2.0]]]


def test_a_damaged_description_of_the_encoder_is_refused(tmp_path):
    table = pa.table({"image_id": ["1"], "embedding": [[1.0, 2.0]]})
    pq.write_table(table.replace_schema_metadata({"mien.encoder": "[1"}), tmp_path / "c.parquet")
    with pytest.raises(InvalidFileError, match="description of the encoder is damaged"):
        read_encodings(tmp_path / "c.parquet")


def test_files_that_are_no_tables_get_their_own_advice(tmp_path):
    import gzip
    import os

    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(HEADER.encode()))
    with pytest.raises(InvalidFileError, match="compressed: unpack it first"):
        read_encodings(tmp_path / "e.csv.gz")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFileError, match="not a regular file"):
        read_encodings(tmp_path / "pipe")


def test_a_column_of_a_cohort_table_may_be_that_of_the_images(tmp_path):
    pq.write_table(pa.table({"image_id": ["1", "2"], "clinic": ["Bonn", None]}), tmp_path / "cohort.parquet")
    assert read_column(tmp_path / "cohort.parquet", "image_id") == {"1": "1", "2": "2"}
    assert read_column(tmp_path / "cohort.parquet", "clinic") == {"1": "Bonn"}

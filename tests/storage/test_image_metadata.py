from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien.core.study import ImageFacts
from mien.errors import InvalidFileError
from mien.storage.formats.image_metadata import read_image_metadata, write_image_metadata

HEADER = "image_id\tgender\tage_year\tage_month\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "image_metadata_v1.tsv"


def read(path, *rows):
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return read_image_metadata(path)


def test_age_is_years_and_months(path):
    found = read(path, "1\t\t2\t6", "2\t\t3.0\t", "3\t\t\t7.0", "4\t\t\t18", "5\t\t0\t0")
    ages = {image_id: facts.age_years for image_id, facts in found.items()}
    assert ages == {"1": 2.5, "2": 3.0, "3": 7 / 12, "4": 1.5, "5": 0.0}


@pytest.mark.parametrize("blank", ["", " ", "nan", "NaN", "None", "NA", "n/a", "null", "Unknown"])
def test_blanks_mean_unknown(path, blank):
    assert read(path, f"1\t{blank}\t{blank}\t{blank}", f"2\tmale\t{blank}\t{blank}") == {"2": ImageFacts(None, "male")}


@pytest.mark.parametrize(
    ("written", "sex"),
    [("male", "male"), ("M", "male"), ("Female", "female"), (" f ", "female"), ("unknown", None), ("Other", None)],
)
def test_sex_is_read_however_it_is_written(path, written, sex):
    assert read(path, f"1\t{written}\t1\t")["1"].sex == sex


def test_other_columns_and_another_order_do_not_matter(path):
    path.write_text("age_month\tpresent_features\timage_id\tage_year\tgender\n6\t\"['HP:0000574']\"\t007\t1\tf\n")
    assert read_image_metadata(path) == {"007": ImageFacts(1.5, "female")}


def test_every_bad_row_is_listed(path):
    rows = [
        *("1\t\tyoung\t", "2\t\t-1\t", "3\t\tinf\t", "4\t\t1998\t", "5\t\t2\t12", "6\t\t\t-3", "7\t\t\t1440"),
        *(" \tmale\t1\t", "8\tmale\t1\t", "8\tmale\t1\t", "8\tmale\t2\t"),
    ]
    with pytest.raises(InvalidFileError, match=r"image_metadata_v1\.tsv") as refused:
        read(path, *rows)
    for part in (
        "row 2: age_year is 'young': give a number from 0 to below 120, or nothing where it is not known",
        *("row 3: age_year is '-1'", "row 4: age_year is 'inf'", "row 5: age_year is '1998'"),
        "row 6: age_month is '12': give a number from 0 to below 12, or",
        *("row 7: age_month is '-3'", "row 8: age_month is '1440': give a number from 0 to below 1440"),
        *("row 9: the image's id is blank", "row 12: image '8' has other facts in an earlier row: keep one"),
    ):
        assert part in str(refused.value)
    assert "row 11" not in str(refused.value)  # said twice, and the same


def test_missing_columns_are_named(path):
    path.write_text("image_id\tgender\n1\tmale\n")
    with pytest.raises(InvalidFileError, match="'age_year' is missing") as refused:
        read_image_metadata(path)
    assert "'age_month' is missing" in str(refused.value)


sexes = st.sampled_from([None, "male", "female"])


@given(st.dictionaries(st.integers(1, 99).map(str), st.tuples(st.integers(0, 1439), sexes), min_size=1))
def test_whole_months_come_back_exactly(tmp_path_factory, known):
    path = tmp_path_factory.mktemp("metadata") / "m.tsv"
    facts = {image_id: ImageFacts(months / 12, sex) for image_id, (months, sex) in known.items()}
    write_image_metadata(path, facts)
    assert read_image_metadata(path) == facts


@given(st.floats(0, 119.999))
def test_any_age_comes_back_to_a_thousandth_of_a_month(tmp_path_factory, age):
    path = tmp_path_factory.mktemp("metadata") / "m.tsv"
    write_image_metadata(path, {"1": ImageFacts(age)})
    assert read_image_metadata(path)["1"].age_years == pytest.approx(age, abs=0.001 / 12)


def test_the_table_is_the_official_one(path):
    write_image_metadata(path, {"7": ImageFacts(2.5, "female"), "8": ImageFacts(None, "male"), "9": ImageFacts(0.25)})
    assert path.read_text() == HEADER + "7\tfemale\t2\t6\n8\tmale\t\t\n9\t\t0\t3\n"

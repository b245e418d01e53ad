"""Phenopackets: nothing of subject, sex, age and disease is lost, and what cannot be ranked is refused by name."""

from __future__ import annotations

import json

import pytest

from mien.errors import InvalidFileError
from mien.storage.formats.phenopacket import read_phenopackets

PACKET = {
    "id": "packet 1",
    "subject": {"id": "anna", "sex": "FEMALE", "timeAtLastEncounter": {"age": {"iso8601duration": "P3Y2M"}}},
    "diseases": [
        {"term": {"id": "OMIM:147920", "label": "Kabuki syndrome 1"}},
        {"term": {"id": "OMIM:163950", "label": "Noonan syndrome 1"}, "excluded": True},
    ],
    "files": [
        {"uri": "front.jpg", "individualToFileIdentifiers": {"anna": "anna"}},
        {"uri": "anna.vcf.gz", "individualToFileIdentifiers": {"anna": "a", "mother": "m"}},
        {"uri": "second photo", "fileAttributes": {"mimeType": "image/png"}},
    ],
    "metaData": {"phenopacketSchemaVersion": "2.0.2"},
}


def write(tmp_path, **changed):
    content = {name: value for name, value in {**PACKET, **changed}.items() if value is not None}
    (tmp_path / "packet.json").write_text(json.dumps(content))
    for name in ("front.jpg", "second photo"):
        (tmp_path / name).touch()
    return tmp_path / "packet.json"


def test_a_packet_names_facts_and_photos(tmp_path):
    [packet] = read_phenopackets(write(tmp_path))
    assert packet.as_dict() == {
        "id": "packet 1",
        "subject": {
            "id": "anna",
            "sex": "FEMALE",
            "age": "P3Y2M",
            "timeAtLastEncounter": {"age": {"iso8601duration": "P3Y2M"}},
        },
        "diseases": [
            {"id": "OMIM:147920", "label": "Kabuki syndrome 1", "excluded": False},
            {"id": "OMIM:163950", "label": "Noonan syndrome 1", "excluded": True},
        ],
    }
    assert packet.photos() == [tmp_path / "front.jpg", tmp_path / "second photo"]


@pytest.mark.parametrize("time", [None, {"ageRange": {"start": {"iso8601duration": "P1Y"}}}, {"age": "P3Y"}])
def test_a_time_that_is_no_age_stays_as_it_is_written(tmp_path, time):
    subject = {"id": "anna", "timeAtLastEncounter": time}
    [packet] = read_phenopackets(write(tmp_path, subject=subject))
    said = packet.as_dict()["subject"]
    assert (said["age"], said["timeAtLastEncounter"], said["sex"]) == (None, time, "UNKNOWN_SEX")


def test_file_uris_and_the_other_spelling_are_read(tmp_path):
    uri = (tmp_path / "second photo").as_uri()
    files = [{"uri": uri, "file_attributes": {"fileFormat": "PNG"}, "individual_to_file_identifiers": {"anna": "x"}}]
    [packet] = read_phenopackets(write(tmp_path, files=files))
    assert "%20" in uri
    assert packet.photos() == [tmp_path / "second photo"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"metaData": {"phenopacketSchemaVersion": "1.0.0"}}, "phenopacketSchemaVersion is '1.0.0'.*version 2"),
        ({"metaData": {"phenopacketSchemaVersion": "20.1"}}, "phenopacketSchemaVersion is '20.1'"),
        ({"metaData": None}, "no phenopacketSchemaVersion"),
        ({"metaData": 3}, "no phenopacketSchemaVersion"),
        ({"subject": None}, "subject: Field required"),
        ({"subject": {"id": "anna", "sex": "female"}}, "subject.sex"),
        ({"files": [{"individualToFileIdentifiers": {}}]}, r"files\.0\.uri: Field required"),
        ({"members": []}, "'members'.*one individual"),
        ({"proband": {}}, "'proband'.*one individual"),
    ],
)
def test_what_is_no_packet_of_one_individual_is_refused(tmp_path, changed, problem):
    with pytest.raises(InvalidFileError, match=problem):
        read_phenopackets(write(tmp_path, **changed))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([], "names no photo"),
        ([{"uri": "anna.vcf"}], "names no photo"),
        ([{"uri": "gone.jpg"}], r"'gone\.jpg' is not there"),
        ([{"uri": "https://example.org/a.jpg"}], "nothing is fetched"),
        ([{"uri": "file://server/a.jpg"}], "nothing is fetched"),
        (
            [{"uri": "front.jpg", "individualToFileIdentifiers": {"ben": "b"}}],
            "of 'ben', and .* about 'anna'",
        ),
        ([{"uri": "front.jpg", "individualToFileIdentifiers": {"anna": "a", "ben": "b"}}], "about one individual"),
    ],
)
def test_photos_that_cannot_be_ranked_are_named(tmp_path, files, problem):
    [packet] = read_phenopackets(write(tmp_path, files=files))
    with pytest.raises(InvalidFileError, match=problem):
        packet.photos()


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"7", b"", b"[" * 100_000])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "packet.json").write_bytes(content)
    with pytest.raises(InvalidFileError, match=r"packet\.json"):
        read_phenopackets(tmp_path / "packet.json")


def test_an_empty_folder_and_no_file_are_refused(tmp_path):
    with pytest.raises(InvalidFileError, match="no phenopacket"):
        read_phenopackets(tmp_path)
    with pytest.raises(InvalidFileError, match="check the path"):
        read_phenopackets(tmp_path / "gone.json")


def test_real_packets_lose_nothing(phenopackets):
    packets = read_phenopackets(phenopackets)
    assert len(packets) == 120
    for packet in packets:
        written, read = json.loads(packet.path.read_text()), packet.as_dict()
        subject = written["subject"]
        assert read["id"] == written["id"]
        assert (read["subject"]["id"], read["subject"]["sex"]) == (subject["id"], subject["sex"])
        assert read["subject"]["timeAtLastEncounter"] == subject.get("timeAtLastEncounter")
        diseases = [(each["id"], each["label"], each["excluded"]) for each in read["diseases"]]
        assert diseases == [(*each["term"].values(), each.get("excluded", False)) for each in written["diseases"]]
        with pytest.raises(InvalidFileError, match="names no photo"):
            packet.photos()

"""`mien gallery describe`, `mien rank --by gene`, `--format` and `--phenopacket`, as somebody uses them."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mien import Gallery, rank_genes
from mien.simulation.photos import DrawnPerson
from mien.storage.formats.cohort_parquet import write_cohort_parquet

from cohorts import families, random_cohort

DISORDERS = """disorder_id,name,curie,gene_symbol,entrez_id,hgnc_id,ensembl_id
d0,Kabuki syndrome,OMIM:147920,KMT2D,8085,HGNC:7133,ENSG00000167548
d0,,ORPHA:2322,KDM6A,,,
d1,,,KMT2D,,,
d2,Williams syndrome,OMIM:194050,,,,
elsewhere,,,ABC,1,,
"""


@pytest.fixture
def cohort(rng):
    return random_cohort(rng, disorders=5)


@pytest.fixture
def gallery(tmp_path, cohort):
    Gallery.build(tmp_path / "gallery", cohort)
    (tmp_path / "disorders.csv").write_text(DISORDERS)
    return tmp_path / "gallery"


@pytest.fixture
def described(mien, gallery):
    assert mien("gallery", "describe", gallery, "--disorders", gallery.parent / "disorders.csv")[0] == 0
    return gallery


@pytest.fixture
def one_patient(tmp_path, cohort):
    path = tmp_path / "patient.parquet"
    write_cohort_parquet(path, cohort.roster, cohort.encodings.encoder, lambda images: cohort.embeddings[images])
    (tmp_path / "patient.csv").write_text(f"image_id,subject\n{cohort.roster.image_ids[0]},somebody else\n")
    return "--encodings", path, "--metadata", tmp_path / "patient.csv"


def test_describing_counts_and_lists_what_is_missing(mien, gallery):
    table = gallery.parent / "disorders.csv"
    code, out, _ = mien("gallery", "describe", gallery, "--disorders", table, "--json")
    assert code == 0
    assert json.loads(out) == {
        "generation": 2,
        "described": 3,
        "genes": 2,
        "without_gene": ["d2"],
        "not_described": ["d3", "d4"],
        "not_in_gallery": ["elsewhere"],
    }
    assert json.loads(mien("gallery", "info", gallery, "--json")[1])["described_disorders"] == 3
    _, out, _ = mien("gallery", "describe", gallery, "--disorders", table)
    for words in ("generation 2: 3 disorders described, 2 genes", "1 have no gene: 'd2'", "2 are not described: 'd3'"):
        assert words in " ".join(out.split())
    assert mien("gallery", "verify", gallery)[0] == 0


def test_a_refused_table_changes_nothing(mien, gallery):
    (gallery.parent / "wrong.csv").write_text("disorder_id,gene_symbol,entrez_id\nd0,A,x\nd1,B,y\n")
    code, _, err = mien("gallery", "describe", gallery, "--disorders", gallery.parent / "wrong.csv")
    assert code == 1
    assert "row 2: entrez_id is 'x'" in err
    assert "row 3: entrez_id is 'y'" in err
    assert Gallery.open(gallery).generation == 1


def test_a_table_of_other_disorders_is_refused_and_the_old_one_stays(mien, described, tmp_path):
    before = Gallery.open(described)
    (tmp_path / "other.csv").write_text("disorder_id,gene_symbol\nx1,A\nx2,B\n")
    code, _, err = mien("gallery", "describe", described, "--disorders", tmp_path / "other.csv")
    assert code == 1
    assert "the gallery has none of these disorders: 'x1', 'x2': check the ids; what was said before stays" in err
    after = Gallery.open(described)
    assert (after.generation, after.descriptions) == (before.generation, before.descriptions)


def test_genes_in_every_form(mien, described, one_patient, tmp_path):
    _, out, _ = mien("rank", "--gallery", described, *one_patient, "--by", "gene", "--json", "--top", "2")
    [query] = json.loads(out)["queries"]
    assert len(query["disorders"]) == 2
    assert [line["rank"] for line in query["genes"]] == [1, 2, 2]  # a tie is not cut
    _, out, _ = mien("rank", "--gallery", described, *one_patient, "--format", "genes-tsv", "--top", "2")
    assert [line["rank"] for line in csv.DictReader(io.StringIO(out), delimiter="\t")] == ["1", "2", "2"]
    assert list(query["genes"][0])[:2] == ["rank", "gene_symbol"]
    assert query["not_described"] == sorted(query["not_described"], key=query["not_described"].index)
    for name in ("genes.tsv", "genes.parquet", "genes.json"):
        where = ("--by", "gene", "--top", "all", "--out", tmp_path / name)
        assert mien("rank", "--gallery", described, *one_patient, *where)[0] == 0
    by_tsv = list(csv.DictReader((tmp_path / "genes.tsv").read_text().splitlines(), delimiter="\t"))
    by_parquet = pq.read_table(tmp_path / "genes.parquet").to_pylist()
    [whole] = json.loads((tmp_path / "genes.json").read_text())["queries"]
    symbols = [line["gene_symbol"] for line in whole["genes"]]
    assert sorted(symbols, key=str) == ["KDM6A", "KMT2D", None]
    assert [line["gene_symbol"] for line in by_parquet] == symbols
    assert [line["gene_symbol"] or None for line in by_tsv] == symbols
    [kmt2d] = [line for line in by_parquet if line["gene_symbol"] == "KMT2D"]
    assert json.loads(kmt2d["disorder_ids"]) == ["d0", "d1"]
    _, out, _ = mien("rank", "--gallery", described, *one_patient[:2], "--by", "gene")  # all patients, in a summary
    assert "KMT2D" in out
    _, out, _ = mien("rank", "--gallery", described, *one_patient, "--by", "gene")
    assert "no gene" in out
    assert "2 disorders are not described" in out


def test_genes_on_the_command_line_are_those_of_the_library(mien, described, one_patient, cohort):
    from mien import Query

    _, out, _ = mien("rank", "--gallery", described, *one_patient, "--by", "gene", "--json", "--top", "all")
    [query] = json.loads(out)["queries"]
    asked = Query(cohort.encodings.only([0]), "somebody else")
    [expected] = rank_genes(Gallery.open(described), asked, top=None)
    assert [(line["rank"], line["gene_symbol"], line["distance"]) for line in query["genes"]] == [
        (line.rank, line.gene_symbol, round(line.distance, 7)) for line in expected.genes
    ]


def test_formats_go_to_the_screen_or_into_a_file(mien, described, one_patient, tmp_path):
    code, out, err = mien("rank", "--gallery", described, *one_patient, "--format", "varfish")
    assert code == 0
    assert [gene["gene_name"] for gene in json.loads(out)] == ["KMT2D"]
    assert "2 lines without an Entrez id were left out" in err
    assert "2 disorders are not described" in err
    where = ("--format", "seqr", "--project", "R0001", "--out", tmp_path / "for_seqr.txt")
    assert mien("rank", "--gallery", described, *one_patient, *where)[0] == 0
    [row] = csv.DictReader((tmp_path / "for_seqr.txt").read_text().splitlines(), delimiter="\t")
    assert (row["project"], row["sampleId"], row["geneId"]) == ("R0001", "somebody else", "ENSG00000167548")
    assert mien("rank", "--gallery", described, *one_patient, *where)[0] == 1  # it is not written over
    _, out, _ = mien("rank", "--gallery", described, *one_patient, "--format", "gm-service")
    assert len(json.loads(out)["suggested_syndromes_list"]) == 5
    _, out, _ = mien("rank", "--gallery", described, *one_patient, "--format", "genes-tsv", "--top", "1")
    assert len(list(csv.DictReader(io.StringIO(out), delimiter="\t"))) == 1


def test_a_gallery_that_is_not_described_says_so(mien, gallery, one_patient):
    for options in (("--by", "gene"), ("--format", "varfish")):
        code, _, err = mien("rank", "--gallery", gallery, *one_patient, *options)
        assert code == 1
        assert "mien gallery describe" in err


def test_a_calibrated_gallery_gives_probabilities_of_genes(mien, tmp_path, rng):
    directory = tmp_path / "calibrated"
    Gallery.build(directory, families(rng))
    (tmp_path / "disorders.csv").write_text("disorder_id,gene_symbol\nd0,A\nd1,A\nd2,B\nd3,B\nd4,C\nd5,C\nd6,C\nd7,C\n")
    assert mien("calibrate", "--gallery", directory)[0] == 0
    assert mien("gallery", "describe", directory, "--disorders", tmp_path / "disorders.csv")[0] == 0
    new = families(rng, patients=1, prefix="new ")
    path = tmp_path / "new.parquet"
    write_cohort_parquet(path, new.roster, new.encodings.encoder, lambda images: new.embeddings[images])
    _, out, _ = mien("rank", "--gallery", directory, "--encodings", path, "--by", "gene", "--json", "--top", "all")
    for query in json.loads(out)["queries"]:
        of_disorder = {line["disorder_id"]: line["probability"] for line in query["disorders"]}
        for gene in query["genes"]:
            own = sum(of_disorder[disorder_id] for disorder_id in gene["disorder_ids"])
            assert gene["probability"] == pytest.approx(own, abs=1e-6)
    code, out, _ = mien("rank", "--gallery", directory, "--encodings", path, "--by", "gene", "--top", "1")
    assert code == 0


def packet(tmp_path, subject, *files, **changed):
    content = {
        "id": f"packet of {subject}",
        "subject": {"id": subject, "sex": "MALE", "timeAtLastEncounter": {"age": {"iso8601duration": "P4Y"}}},
        "diseases": [{"term": {"id": "OMIM:1", "label": "x"}, "excluded": True}],
        "files": [{"uri": file, "individualToFileIdentifiers": {subject: subject}} for file in files],
        "metaData": {"phenopacketSchemaVersion": "2.0.2"},
        **changed,
    }
    path = tmp_path / "packets" / f"{subject}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_the_photos_of_phenopackets_are_ranked_with_their_facts(mien, photo_encoder, tmp_path):
    rng = np.random.default_rng(1)
    people = [DrawnPerson.drawn(rng) for _ in range(3)]
    (tmp_path / "photos").mkdir()
    (tmp_path / "packets").mkdir()
    for number, person in enumerate(people):
        Image.fromarray(person.photo(rng)).save(tmp_path / "photos" / f"{number}.jpg")
        for name in ("front", "smile"):
            Image.fromarray(person.photo(rng)).save(tmp_path / "packets" / f"{number}-{name}.jpg")
    rows = "".join(f"{number}.jpg,p{number},d{number}\n" for number in range(3))
    (tmp_path / "photos.csv").write_text("image_id,subject,label\n" + rows)
    gallery = tmp_path / "gallery"
    built = mien("gallery", "build", gallery, "--photos", tmp_path / "photos", "--metadata", tmp_path / "photos.csv")
    assert built[0] == 0
    one = packet(tmp_path, "anna", "0-front.jpg", "0-smile.jpg")
    code, out, _ = mien("rank", "--gallery", gallery, "--phenopacket", one, "--json")
    assert code == 0
    [query] = json.loads(out)["queries"]
    assert (query["patient_id"], query["disorders"][0]["disorder_id"]) == ("anna", "d0")
    assert query["phenopacket"]["id"] == "packet of anna"
    assert (query["phenopacket"]["subject"]["sex"], query["phenopacket"]["subject"]["age"]) == ("MALE", "P4Y")
    assert query["phenopacket"]["diseases"] == [{"id": "OMIM:1", "label": "x", "excluded": True}]
    assert query["disorders"][0]["alone"]
    code, out, err = mien("rank", "--gallery", gallery, "--phenopacket", one)
    assert "phenopacket 'packet of anna': 'anna', MALE, P4Y; not 'x'" in err
    packet(tmp_path, "ben", "1-front.jpg", "1-smile.jpg")
    _, out, _ = mien("rank", "--gallery", gallery, "--phenopacket", one.parent, "--json")
    document = json.loads(out)
    assert [query["phenopacket"]["subject"]["id"] for query in document["queries"]] == ["anna", "ben"]
    assert [query["disorders"][0]["disorder_id"] for query in document["queries"]] == ["d0", "d1"]
    assert len(document["photos"]) == 4
    _, out, _ = mien("rank", "--gallery", gallery, "--phenopacket", one.parent, "--fusion", "none", "--json")
    of_photos = [query["phenopacket"]["subject"]["id"] for query in json.loads(out)["queries"]]
    assert of_photos == ["anna", "anna", "ben", "ben"]


@pytest.mark.parametrize("options", [("photo.jpg",), ("--encodings", "x.parquet"), ("--metadata", "x.csv")])
def test_a_phenopacket_brings_its_own_photos(mien, gallery, tmp_path, options):
    asked = ("--gallery", gallery, "--phenopacket", packet(tmp_path, "anna", "a.jpg"))
    assert mien("rank", *asked, *options)[0] == 2


def test_a_broken_packet_ends_the_command(mien, gallery, tmp_path):
    code, _, err = mien("rank", "--gallery", gallery, "--phenopacket", packet(tmp_path, "anna", "gone.jpg"))
    assert code == 1
    assert "anna.json" in err
    assert "'gone.jpg' is not there" in err


def test_images_of_nobody_are_one_patient_and_that_is_said(mien, gallery, one_patient, tmp_path):
    table = pq.read_table(one_patient[1]).slice(0, 3).drop_columns(["patient_id", "disorder_id"])
    pq.write_table(table, tmp_path / "nobody.parquet")
    code, out, err = mien("rank", "--gallery", gallery, "--encodings", tmp_path / "nobody.parquet", "--json")
    assert code == 0, err
    assert len(json.loads(out)["queries"]) == 1
    assert "no column patient_id and no --metadata: all 3 images are taken as one patient" in err
    assert "one patient" not in mien("rank", "--gallery", gallery, *one_patient, "--json")[2]

"""Exports of genes against golden files, and through readers written from the rules of those who read them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from mien.errors import MienError
from mien.report.gene_exports import EXPORTS

GOLDEN = Path(__file__).parent / "golden"


def gene(rank, distance, symbol, disorder, ids=(None, None, None), curie=None):
    disorder_id, name = disorder
    entrez_id, hgnc_id, ensembl_id = ids
    return {
        "rank": rank,
        "gene_symbol": symbol,
        "entrez_id": entrez_id,
        "hgnc_id": hgnc_id,
        "ensembl_id": ensembl_id,
        "distance": distance,
        "disorder_id": disorder_id,
        "disorder_name": name,
        "nearest_distance": distance,
        "centroid_distance": distance,
        "nearest_image_id": f"i-{disorder_id}",
        "nearest_patient_id": f"p-{disorder_id}",
        "gallery_images": 3,
        "gallery_patients": 2,
        "disorder_ids": [disorder_id],
        "curie": curie,
    }


def disorder(rank, distance, disorder_id, name, omim):
    return {
        "rank": rank,
        "disorder_id": disorder_id,
        "disorder_name": name,
        "omim": omim,
        "distance": distance,
        "nearest_image_id": f"i-{disorder_id}",
        "nearest_patient_id": f"p-{disorder_id}",
    }


KABUKI, WILLIAMS, RARE, FAR = ("7", "Kabuki syndrome"), ("8", "Williams syndrome"), ("9", None), ("10", "Far syndrome")
KMT2D = ("8085", "HGNC:7133", "ENSG00000167548.19")
QUERY = {
    "patient_id": "anna",
    "image_ids": ["1.jpg"],
    "excluded_gallery_patients": [],
    "disorders": [
        disorder(1, 0.4401234, *KABUKI, "OMIM:147920"),
        disorder(2, 0.5161234, *WILLIAMS, "OMIM:194050"),
        disorder(3, 0.7, *RARE, None),
        disorder(4, 1.45, *FAR, None),
    ],
    "genes": [
        gene(1, 0.4401234, "KMT2D", KABUKI, KMT2D, "OMIM:147920 ORPHA:2322"),
        gene(1, 0.4401234, "KDM6A", KABUKI, ("7403", None, None), "OMIM:147920 ORPHA:2322"),
        gene(3, 0.5161234, None, WILLIAMS, curie="OMIM:194050"),
        gene(4, 0.7, "NOIDS", RARE),
        gene(5, 1.45, "FARGENE", FAR, ("42", None, "ENSG00000000042")),
    ],
    "not_described": [],
}
DOCUMENT = {
    "tool": {"name": "mien", "version": "0"},
    "method": {},
    "gallery": {"generation": 5, "encoder": {"name": "gm-arc", "weights_sha256": "0123456789abcdef"}},
    "queries": [QUERY],
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_are_as_they_were(name):
    suffix = "tsv" if name in {"seqr", "genes-tsv"} else "json"
    assert EXPORTS[name](DOCUMENT, "my project").text == (GOLDEN / f"{name}.{suffix}").read_text()


def test_a_client_of_the_official_service_reads_genes():
    answer = json.loads(EXPORTS["gm-service"](DOCUMENT, "").text)
    assert list(answer) == ["model_version", "gallery_version", "suggested_genes_list", "suggested_syndromes_list"]
    rows = answer["suggested_genes_list"]
    for row in rows:
        assert list(row) == ["gene_name", "gene_entrez_id", "distance", "gestalt_score", "image_id", "subject_id"]
        assert row["distance"] == row["gestalt_score"] == round(row["distance"], 3)
        assert row["gene_entrez_id"] is None or row["gene_entrez_id"].isdecimal()
    without_gene = [row["gene_name"] for row in rows if row["gene_entrez_id"] is None]
    assert without_gene == ["Williams syndrome", "NOIDS"]
    assert [row["distance"] for row in rows[:2]] == [0.44, 0.44]  # two genes of one syndrome tie
    assert [row["omim_id"] for row in answer["suggested_syndromes_list"]] == [147920, 194050, None, None]


def scores_of_varfish(prio_gm):
    """Entrez id, symbol and score of each entry: every entry needs all three."""
    return [(entry["gene_entrez_id"], entry["gene_name"], 1.3 - entry["distance"]) for entry in json.loads(prio_gm)]


def test_varfish_reads_scores_that_are_never_below_that_of_a_missing_gene():
    export = EXPORTS["varfish"](DOCUMENT, "")
    scores = scores_of_varfish(export.text)
    assert [(entrez_id, symbol) for entrez_id, symbol, _ in scores] == [
        ("8085", "KMT2D"),
        ("7403", "KDM6A"),
        ("42", "FARGENE"),
    ]
    assert scores[0][2] == pytest.approx(1.3 - 0.4401234)
    assert scores[2][2] == 0  # farther away than the scale reaches
    assert (export.left_out, export.why) == (2, "without an Entrez id")


def records_of_seqr(text):
    """Rows by project and sample: required columns, one tool, scores until the first name that is missing."""
    rows = list(csv.reader(io.StringIO(text), delimiter="\t"))
    header = rows[0]
    required = ["tool", "project", "sampleId", "rank", "geneId", "diseaseId", "diseaseName", "scoreName1", "score1"]
    assert not [column for column in required if column not in header]
    found = {}
    for cells in rows[1:]:
        row = dict(zip(header, cells, strict=True))
        assert row["sampleId"]
        assert row["project"]
        scores = {}
        for number in range(1, 16):
            if not row.get(f"scoreName{number}"):
                break
            scores[row[f"scoreName{number}"]] = float(row[f"score{number}"])
        record = (row["tool"], int(row["rank"]), row["geneId"], row["diseaseId"], row["diseaseName"], scores)
        found.setdefault((row["project"], row["sampleId"]), []).append(record)
    assert len({record[0] for records in found.values() for record in records}) == 1
    return found


def test_seqr_loads_ensembl_genes():
    export = EXPORTS["seqr"](DOCUMENT, "my project")
    [records] = records_of_seqr(export.text).values()
    assert [record[1:3] for record in records] == [(1, "ENSG00000167548"), (5, "ENSG00000000042")]
    assert records[0][3:] == ("OMIM:147920", "Kabuki syndrome", {"distance": 0.4401234})
    assert all(re.fullmatch(r"ENSG[0-9]{11}", record[2]) for record in records)
    assert export.left_out == 3


def test_seqr_gets_probabilities_and_at_most_fifteen_rows_of_a_sample():
    line = gene(1, 0.4, "A", KABUKI, KMT2D) | {"probability": 0.5, "log10_likelihood_ratio": 2.0}
    queries = [{**QUERY, "patient_id": who, "genes": [line] * 20} for who in ("anna", None)]
    found = records_of_seqr(EXPORTS["seqr"]({**DOCUMENT, "queries": queries}, "mien").text)
    assert {key: len(records) for key, records in found.items()} == {("mien", "anna"): 15, ("mien", "1.jpg"): 15}
    assert found["mien", "anna"][0][-1] == {"distance": 0.4, "probability": 0.5, "log10_likelihood_ratio": 2.0}


def test_a_gallery_without_ensembl_ids_is_nothing_for_seqr():
    queries = [{**QUERY, "genes": QUERY["genes"][1:4]}]
    with pytest.raises(MienError, match="Ensembl"):
        EXPORTS["seqr"]({**DOCUMENT, "queries": queries}, "mien")


@pytest.mark.parametrize("name", ["gm-service", "varfish"])
def test_formats_of_one_patient_refuse_several(name):
    with pytest.raises(MienError, match="one patient, and 2"):
        EXPORTS[name]({**DOCUMENT, "queries": [QUERY, QUERY]}, "")


def test_the_plain_table_joins_on_entrez_ids():
    rows = list(csv.DictReader(io.StringIO(EXPORTS["genes-tsv"](DOCUMENT, "").text), delimiter="\t"))
    by_entrez = {row["entrez_id"]: row for row in rows if row["entrez_id"]}
    assert by_entrez["8085"]["gene_symbol"] == "KMT2D"
    assert float(by_entrez["7403"]["distance"]) == 0.4401234
    assert [row["disorder_id"] for row in rows] == ["7", "7", "8", "9", "10"]

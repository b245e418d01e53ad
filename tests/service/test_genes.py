"""Genes and links by the service: its own routes, those of the official one, and the page."""

from __future__ import annotations

import base64
import re

import pytest

from mien import Cohort, Disorder, Gallery, Query, rank_genes
from mien.answers.genes import Description, Gene
from mien.service.models import RankAnswer
from mien.service.patient_ranker import DemoPatient
from mien.service.tokens import add_people

from cohorts import families, random_cohort, random_query_arrays
from services import assert_problem, client_of

TABLE = [
    Description("d0", "Kabuki syndrome", ("OMIM:147920", "ORPHA:2322"), (Gene("KMT2D", "8085"), Gene("KDM6A"))),
    Description("d1", None, ("OMIMPS:163950",), (Gene("PTPN11", "5781"),)),
    Description("d2", "Williams syndrome"),
]
PREDICTED = ["gene_name", "gene_entrez_id", "distance", "gestalt_score", "image_id", "subject_id"]


@pytest.fixture
def described(gallery):
    Gallery.describe(gallery, TABLE)
    return gallery


@pytest.fixture
def body(rng):
    cohort = random_cohort(rng, disorders=8)
    return {"embeddings": random_query_arrays(rng, cohort, 2).tolist(), "by": "gene", "top": "all"}


def test_genes_are_those_of_the_library(described, body):
    import numpy as np

    with client_of(described) as client:
        document = client.post("/v1/rank/embeddings", json=body).json()
    RankAnswer.model_validate(document)
    [query] = document["queries"]
    [expected] = rank_genes(Gallery.open(described), Query.of(np.array(body["embeddings"], np.float32)), top=None)
    found = [(line["rank"], line["gene_symbol"], line["disorder_id"]) for line in query["genes"]]
    assert found == [(line.rank, line.gene_symbol, line.disorder_id) for line in expected.genes]
    assert sorted(query["not_described"]) == ["d3", "d4", "d5", "d6", "d7"]
    assert {line["disorder_id"]: line["curie"] for line in query["disorders"]}["d0"] == "OMIM:147920 ORPHA:2322"


def test_without_descriptions_the_answer_says_what_to_do(client, body):
    problem = assert_problem(client.post("/v1/rank/embeddings", json=body), 422, "not-described")
    assert "mien gallery describe" in problem["detail"]
    assert_problem(client.post("/v1/rank/embeddings", json={**body, "by": "patient"}), 422)


def test_genes_tell_no_more_than_their_disorders(described, body, tmp_path):
    token = add_people(tmp_path / "tokens", ["anna"], ["rank"])["anna"]
    with client_of(described, tokens=tmp_path / "tokens", headers={"authorization": f"Bearer {token}"}) as client:
        [query] = client.post("/v1/rank/embeddings", json=body).json()["queries"]
    lines = {line["disorder_id"]: line for line in query["disorders"]}
    assert query["genes"]
    for gene in query["genes"]:
        own = lines[gene["disorder_id"]]
        for name in ("distance", "nearest_distance", "centroid_distance"):
            assert gene[name] == own[name]


def test_a_client_of_the_official_service_reads_genes(people, tmp_path):
    import shutil

    directory = shutil.copytree(people[0], tmp_path / "gallery")
    Gallery.describe(directory, [Description("d03", genes=(Gene("ONE", "1"), Gene("TWO"))), Description("d04")])
    photo = {"img": base64.b64encode(people[1][3][0]).decode()}
    with client_of(directory) as client:
        answer = client.post("/predict", json=photo).json()
    with client_of(directory, coarse=True) as client:
        coarse = client.post("/predict", json=photo).json()
    genes = answer["suggested_genes_list"]
    assert [list(gene) for gene in genes] == [PREDICTED] * 3
    assert [(gene["gene_name"], gene["gene_entrez_id"]) for gene in genes] == [
        ("ONE", "1"),
        ("TWO", None),
        ("Drawn syndrome 4", None),
    ]
    first = answer["suggested_syndromes_list"][0]
    assert [genes[0][name] for name in PREDICTED[2:]] == [first[name] for name in PREDICTED[2:]]
    assert {gene["distance"] for gene in coarse["suggested_genes_list"]} <= {0.6, 0.75, 0.9, 1.0}


def page_of(directory, query, download="", **settings):
    form = {"patient": (None, "p"), **({"download": (None, download)} if download else {})}
    patients = {"p": DemoPatient(query, Disorder("d0"))}
    with client_of(directory, patients=patients, **settings) as client:
        return client.post("/", files=form).text


def links(html):
    return re.findall(r'<a href="(https://[^"]+)" target="_blank" rel="noopener noreferrer">([^<]+)</a>', html)


@pytest.mark.parametrize("download", ["", "html"])
def test_disorders_are_linked_and_links_name_no_patient(described, rng, download):
    query = Query.of(random_query_arrays(rng, random_cohort(rng, disorders=8), 1), patient_id="secret")
    found = links(page_of(described, query, download))
    assert found.count(("https://omim.org/entry/147920", "OMIM 147920")) == 1
    assert ("https://www.orpha.net/en/disease/detail/2322", "Orphanet 2322") in found
    assert ("https://omim.org/phenotypicSeries/PS163950", "OMIM series 163950") in found
    assert ("https://www.ncbi.nlm.nih.gov/books/NBK1116/?term=Williams+syndrome", "GeneReviews") in found
    assert "secret" not in str(found)


@pytest.mark.parametrize("settings", [{"links": False}, {"coarse": True}])
@pytest.mark.parametrize("download", ["", "html"])
def test_there_are_no_links_where_none_are_wanted(described, rng, settings, download):
    query = Query.of(random_query_arrays(rng, random_cohort(rng, disorders=8), 1))
    page = page_of(described, query, download, **settings)
    assert "Kabuki syndrome" in page
    assert "https://" not in page


def test_a_disorder_without_a_name_shows_its_id_once(tmp_path, rng):
    cohort = families(rng)
    Gallery.build(tmp_path / "gallery", Cohort.join(cohort.encodings, cohort.roster.labels()))
    page = page_of(tmp_path / "gallery", families(rng, patients=1, prefix="new ").queries()[0])
    assert '<b class="name" data-field="name">d0</b>' in page
    assert '<span data-field="ids"></span>' in page

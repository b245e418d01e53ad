"""Writes genes as other programs read them: the official service's clients, VarFish, seqr, and a plain table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mien.errors import MienError
from mien.report.rankings import BANDS, csv_text

OFFICIAL_DIGITS = 3
LARGEST_FOR_VARFISH = 1.3  # its score is 1.3 minus the distance, and 0 of a gene that is not in the list
ROWS_FOR_SEQR = 15  # of a sample
PLAIN = (
    "rank",
    "gene_symbol",
    "entrez_id",
    "hgnc_id",
    "ensembl_id",
    "distance",
    "disorder_id",
    "disorder_name",
    "curie",
)
SURENESS = ("probability", "log10_likelihood_ratio")


class Export(NamedTuple):
    """A file's text, and how many lines its format cannot hold."""

    text: str
    left_out: int = 0
    why: str = ""


def gm_service(document: Mapping[str, Any], _project: str) -> Export:
    """The answer of the official service, for one patient."""
    gallery = document["gallery"]
    answer = official_answer(_only_query(document), gallery["encoder"] or {}, gallery["generation"])
    return Export(f"{json.dumps(answer, indent=1)}\n")


def official_answer(query: Mapping[str, Any], encoder: Mapping[str, Any], generation: int) -> dict[str, Any]:
    """A query under the keys of the official service."""
    version = encoder.get("name"), (encoder.get("weights_sha256") or "")[:12]
    return {
        "model_version": " ".join(filter(None, version)),
        "gallery_version": str(generation),
        "suggested_genes_list": [
            {  # a disorder without a gene goes by its own name, and has no number
                "gene_name": line["gene_symbol"] or line["disorder_name"] or line["disorder_id"],
                "gene_entrez_id": line["entrez_id"],
                **_official_evidence(line),
            }
            for line in query.get("genes", ())
        ],
        "suggested_syndromes_list": [
            {
                "syndrome_name": line["disorder_name"] or line["disorder_id"],
                "omim_id": int(number) if (number := (line["omim"] or "").rpartition(":")[2]).isdecimal() else None,
                **_official_evidence(line),
            }
            for line in query["disorders"]
        ],
    }


def _official_evidence(line: Mapping[str, Any]) -> dict[str, Any]:
    """The distance, under two keys as in the official service. A coarse answer has the end of its band instead."""
    distance = min(BANDS[line["band"]], 1.0) if "band" in line else round(line["distance"], OFFICIAL_DIGITS)
    nearest = {"image_id": line["nearest_image_id"], "subject_id": line["nearest_patient_id"]}
    return {"distance": distance, "gestalt_score": distance, **nearest}


def varfish(document: Mapping[str, Any], _project: str) -> Export:
    """The list for VarFish's setting `prio_gm`, for one patient."""
    lines = _only_query(document)["genes"]
    genes = [
        {
            "gene_entrez_id": line["entrez_id"],
            "gene_name": line["gene_symbol"],
            "distance": min(line["distance"], LARGEST_FOR_VARFISH),
        }
        for line in lines
        if line["entrez_id"]
    ]
    return Export(f"{json.dumps(genes)}\n", len(lines) - len(genes), "without an Entrez id")


def seqr(document: Mapping[str, Any], project: str) -> Export:
    """The table that seqr loads, for all patients: its genes go by their Ensembl id."""
    rows, left_out = [], 0
    for query in document["queries"]:
        known = [line for line in query["genes"] if line["ensembl_id"]]
        left_out += len(query["genes"]) - len(known)
        for line in known[:ROWS_FOR_SEQR]:
            scores = {"distance": line["distance"], **{name: line[name] for name in SURENESS if name in line}}
            numbered = enumerate(scores.items(), start=1)
            row = {
                "tool": "mien",
                "project": project,
                "sampleId": query["patient_id"] or query["image_ids"][0],
                "rank": line["rank"],
                "geneId": line["ensembl_id"].partition(".")[0],
                "diseaseId": line["curie"].split()[0] if line["curie"] else line["disorder_id"],
                "diseaseName": line["disorder_name"] or line["disorder_id"],
            }
            for number, (name, score) in numbered:
                row |= {f"scoreName{number}": name, f"score{number}": score}
            rows.append(row)
    if not rows:
        raise MienError("no gene has an Ensembl id, by which seqr knows genes: describe the gallery with ensembl_id")
    return Export(csv_text(rows, delimiter="\t"), left_out, "without an Ensembl id")


def genes_tsv(document: Mapping[str, Any], _project: str) -> Export:
    """A row for each gene of each patient, with nothing but the gene, its distance and its disorder."""
    rows = [
        {"patient_id": query["patient_id"], **{name: line[name] for name in (*PLAIN, *SURENESS) if name in line}}
        for query in document["queries"]
        for line in query["genes"]
    ]
    return Export(csv_text(rows, delimiter="\t"))


def _only_query(document: Mapping[str, Any]) -> Mapping[str, Any]:
    queries: list[Mapping[str, Any]] = document["queries"]
    if len(queries) > 1:
        raise MienError(f"this format holds one patient, and {len(queries)} were ranked: rank them one by one")
    return queries[0]


EXPORTS: dict[str, Callable[[Mapping[str, Any], str], Export]] = {
    "gm-service": gm_service,
    "varfish": varfish,
    "seqr": seqr,
    "genes-tsv": genes_tsv,
}

"""Links to pages about a disorder. A link names the disorder, and nothing about the patient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

ADDRESSES = {
    "OMIM": ("OMIM", "https://omim.org/entry/"),
    "OMIMPS": ("OMIM series", "https://omim.org/phenotypicSeries/PS"),
    "ORPHA": ("Orphanet", "https://www.orpha.net/en/disease/detail/"),
}
GENE_REVIEWS = "https://www.ncbi.nlm.nih.gov/books/NBK1116/?term="


def links_of(line: Mapping[str, Any]) -> list[dict[str, str]]:
    """Name and address of each page about a line's disorder: entries are found by number, GeneReviews by name.

    >>> [link["name"] for link in links_of({"omim": "OMIM:147920", "disorder_name": "Kabuki syndrome"})]
    ['OMIM 147920', 'GeneReviews']
    """
    found = []
    for curie in (line.get("curie") or line["omim"] or "").split():
        prefix, _, number = curie.partition(":")
        if prefix in ADDRESSES and number.isascii() and number.isdecimal():
            name, address = ADDRESSES[prefix]
            found.append({"name": f"{name} {number}", "url": address + number})
    if line["disorder_name"]:
        found.append({"name": "GeneReviews", "url": GENE_REVIEWS + quote_plus(line["disorder_name"])})
    return found

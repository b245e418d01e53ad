"""A table of disorders and their genes: disorder_id, name, curie, gene_symbol, entrez_id, hgnc_id, ensembl_id.

GMDB's table of syndromes is read too. Nothing is guessed: an id that is not there stays unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from mien.answers.genes import Description, Gene
from mien.errors import shown
from mien.storage.formats.gmdb_tables import omim_with_prefix
from mien.storage.formats.text_tables import read_table

FORMS = {
    "curie": (r"[A-Za-z][A-Za-z0-9_.]*:[^\s:]+", "OMIM:180849 or ORPHA:783, with its prefix"),
    "entrez_id": (r"[0-9]+", "a number such as 8085"),
    "hgnc_id": (r"(HGNC:)?[0-9]+", "HGNC:7133"),
    "ensembl_id": (r"ENSG[0-9]{11}(\.[0-9]+)?", "ENSG00000167548"),
}


def read_disorders(path: Path) -> dict[str, Description]:
    """What a table says of disorders, by id. There is a row for each gene of a disorder, blank if it has none."""
    table, gathered = read_table(path), _Gathered()
    of_gmdb = "syndrome_id" in table.names
    required = ["syndrome_id", "syndrome_name"] if of_gmdb else ["disorder_id"]
    table.each_row(required, lambda row: gathered.add(_as_ours(row) if of_gmdb else row))
    return {
        one.disorder_id: one._replace(genes=tuple(gathered.genes[gene.gene_symbol] for gene in one.genes))
        for one in gathered.disorders.values()
    }


@dataclass
class _Gathered:
    """Disorders and genes, row by row. Methods return what is wrong with a row, or None."""

    disorders: dict[str, Description] = field(default_factory=dict)  # by id, the genes without their ids
    genes: dict[str | None, Gene] = field(default_factory=dict)  # by symbol, with the ids of all rows
    symbol_of: dict[tuple[str, str], str] = field(default_factory=dict)  # by kind of id and id

    def add(self, row: dict[str, str]) -> str | None:
        row = {name: cell.strip() for name, cell in row.items()}
        gene = Gene(*(row.get(name) or None for name in Gene._fields))
        curies = row.get("curie", "").split()
        ids = [*(("curie", curie) for curie in curies), *zip(Gene._fields[1:], gene[1:], strict=True)]
        if not row["disorder_id"]:
            return "the disorder's id is blank: fill it in or take the row out"
        for kind, text in ids:
            if text and not re.fullmatch(FORMS[kind][0], text):
                return f"{kind} is {shown(text)}: write {FORMS[kind][1]}"
        return self._add_gene(gene) or self._describe(
            Description(row["disorder_id"], row.get("name"), tuple(curies), (gene,))
        )

    def _add_gene(self, gene: Gene) -> str | None:
        symbol = gene.gene_symbol
        if symbol is None:
            return "a gene's id without its gene_symbol: fill it in" if any(gene) else None
        known = self.genes.get(symbol, gene)
        for kind, mine, theirs in zip(Gene._fields, gene, known, strict=True):
            if mine and theirs and mine != theirs:
                return f"gene {shown(symbol)} has {kind} {shown(mine)} here and {shown(theirs)} before: keep one"
            other = self.symbol_of.setdefault((kind, mine), symbol) if mine else symbol
            if other != symbol:
                both = f"{shown(symbol)} here and of {shown(other)} before"
                return f"{kind} {shown(mine or '')} is that of {both}: keep one"
        self.genes[symbol] = Gene(*(mine or theirs for mine, theirs in zip(gene, known, strict=True)))
        return None

    def _describe(self, said: Description) -> str | None:
        known = self.disorders.get(said.disorder_id, Description(said.disorder_id))
        if said.name and known.name and said.name != known.name:
            both = f"{shown(said.name)} here and {shown(known.name)} before"
            return f"disorder {shown(said.disorder_id)} is called {both}: keep one"
        symbols = [gene.gene_symbol for gene in (*known.genes, *said.genes) if gene.gene_symbol]
        self.disorders[said.disorder_id] = Description(
            said.disorder_id,
            known.name or said.name or None,
            tuple(dict.fromkeys([*known.curies, *said.curies])),
            tuple(Gene(symbol) for symbol in dict.fromkeys(symbols)),
        )
        return None


def _as_ours(row: dict[str, str]) -> dict[str, str]:
    """A row of GMDB's table of syndromes, with genes where it has such columns."""
    named = {"disorder_id": row["syndrome_id"], "name": row["syndrome_name"]}
    return {**row, **named, "curie": omim_with_prefix(row.get("OMIM", "")) or ""}

"""From ranked disorders to ranked genes, by a table that says which genes a disorder has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mien.answers.calibration import COVERAGE, Calibration
from mien.answers.ranking import AnyGallery, RankedDisorder, RankedGene, Ranking, rank
from mien.core.cohort import Query
from mien.core.method import FULL, Method
from mien.errors import InvalidMethodError, NotDescribedError, require


class Gene(NamedTuple):
    """A gene by its symbol, and its ids where they are known."""

    gene_symbol: str | None = None  # None: a disorder without a gene, as of many lost or doubled genes at once
    entrez_id: str | None = None
    hgnc_id: str | None = None
    ensembl_id: str | None = None


class Description(NamedTuple):
    """What a table says of a disorder."""

    disorder_id: str
    name: str | None = None
    curies: tuple[str, ...] = ()  # with their prefix: OMIM:180849, ORPHA:783
    genes: tuple[Gene, ...] = ()

    @property
    def curie(self) -> str | None:
        """All of them in one text."""
        return " ".join(self.curies) or None


def with_genes(
    ranking: Ranking,
    descriptions: Mapping[str, Description],
    *,
    prior: Mapping[str, float] | None = None,
    top: int | None = None,
) -> Ranking:
    """A ranking of all disorders with its genes, the closest first; both are cut after rank `top`.

    A gene is as far away as its nearest disorder, and genes as far away as each other have the same rank. With a
    calibration its probability is the sum of those of its disorders (eq:gene-probability), its likelihood ratio their
    mean by prior (eq:gene-ratio); without a prior all disorders count the same. Disorders without a gene stay in the
    list as themselves; those that are not described are named beside it.
    """
    lines_of: dict[tuple[Gene, str | None], list[RankedDisorder]] = {}
    for line in ranking.disorders:
        if line.disorder_id in descriptions:
            for gene in descriptions[line.disorder_id].genes:
                lines_of.setdefault((gene, None), []).append(line)
            if not descriptions[line.disorder_id].genes:
                lines_of[Gene(), line.disorder_id] = [line]
    genes = sorted(
        (_ranked_gene(gene, lines, prior) for (gene, _), lines in lines_of.items()),
        key=lambda one: (one.distance, one.disorder_id, one.gene_symbol or ""),
    )
    distances = [gene.distance for gene in genes]
    ranked = (gene._replace(rank=bisect_left(distances, gene.distance) + 1) for gene in genes)
    return ranking._replace(
        disorders=ranking.disorders[:top],
        genes=tuple(gene for gene in ranked if top is None or gene.rank <= top),
        not_described=tuple(line.disorder_id for line in ranking.disorders if line.disorder_id not in descriptions),
    )


def _ranked_gene(gene: Gene, lines: Sequence[RankedDisorder], prior: Mapping[str, float] | None) -> RankedGene:
    nearest = min(lines, key=lambda line: (line.distance, line.disorder_id))
    probability, log10_ratio = nearest.probability, nearest.log10_likelihood_ratio
    if log10_ratio is not None:
        probability = sum(line.probability or 0.0 for line in lines)
        ratios = [10 ** (line.log10_likelihood_ratio or 0.0) for line in lines]
        weights = None if prior is None else [prior[line.disorder_id] for line in lines]
        log10_ratio = float(np.log10(np.average(ratios, weights=weights)))
    own = {"rank": 0, "disorder_ids": tuple(sorted(line.disorder_id for line in lines))}
    sure = {"probability": probability, "log10_likelihood_ratio": log10_ratio}
    values = {**nearest._asdict(), **gene._asdict(), **own, **sure}
    return RankedGene(**{name: values[name] for name in RankedGene._fields})


def genes_of(
    gallery: AnyGallery,
    rankings: Iterable[Ranking],
    method: Method,
    top: int | None,
    *,
    calibration: Calibration | None = None,
) -> list[Ranking]:
    """Rankings of all disorders, with genes by what the gallery knows of its disorders."""
    descriptions: Mapping[str, Description] = getattr(gallery, "descriptions", {})
    chosen = calibration or getattr(gallery, "calibration_for", lambda _method: None)(method)
    found = []
    for ranking in rankings:
        ids = [line.disorder_id for line in ranking.disorders]
        if not any(disorder_id in descriptions for disorder_id in ids):
            raise NotDescribedError(
                "nobody said which genes the gallery's disorders have: run 'mien gallery describe DIR --disorders FILE'"
            )
        prior = None if chosen is None else dict(zip(ids, chosen.priors(ids).tolist(), strict=True))
        found.append(with_genes(ranking, descriptions, prior=prior, top=top))
    return found


def rank_genes(
    gallery: AnyGallery,
    queries: Query | Iterable[Query],
    method: Method = FULL,
    *,
    top: int | None = 10,
    calibration: Calibration | None = None,
    coverage: float = COVERAGE,
) -> list[Ranking]:
    """Ranks the genes of a described gallery's disorders, beside the disorders: `answer.genes`."""
    require(top, int | None, "top", "how many genes to list, or None for all")
    if top is not None and top < 1:
        raise InvalidMethodError(f"top is {top}: rank at least one gene")
    rankings = rank(gallery, queries, method, top=None, calibration=calibration, coverage=coverage)
    return genes_of(gallery, rankings, method, top, calibration=calibration)
